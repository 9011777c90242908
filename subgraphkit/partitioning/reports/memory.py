"""The memory that a session will take, part by part, before anything is compiled.

The model's own data counts once, for all its readers. Every backend says what its operators hold
and what a run takes (``Backend.footprint``). The order of the subgraphs decides which values wait
between steps. All are bytes of resident memory on top of what the process has before it loads the
model. Imported libraries and inputs belong to the process.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.footprint import Footprint
from subgraphkit.binding import BoundModel
from subgraphkit.errors import MemoryLimitError
from subgraphkit.ir import Node, Subgraph, last_uses
from subgraphkit.ir.costs import bytes_of
from subgraphkit.partitioning.claims import Claim
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.texts import count_of, in_bytes

# Bytes of reading a model beside its data, and of a second copy of protobuf's part.
_PARSING: Final = 4 << 20
_BASE: Final = 1 << 20
# Bytes of a bound model and its plan, beside data, per node.
_OF_A_NODE: Final = 10 << 10
_SHOWN_VALUES: Final = 5


@dataclass(frozen=True, slots=True)
class StepMemory:
    """The memory of one subgraph.

    Attributes:
        subgraph: Id of the subgraph.
        backend: Name of its backend.
        held: The memory of its operator beside the model's own data: packed copies, an engine.
        opening: The most that making it takes beyond that.
        work: The most that a run of it takes: its values, with results, and the backend's own
            needs.
        keeps_work: Whether that stays with the operator between runs.
        waiting: Values of other steps that live while it runs.
        values: The most that its values alone take.
        node: The node that runs when they do; empty if there is none.
        living: The largest few values that live then, in bytes.
    """

    subgraph: str
    backend: str
    held: int
    opening: int
    work: int
    keeps_work: bool
    waiting: int
    values: int
    node: str
    living: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that a session will take, in bytes, as far as backends can say.

    Attributes:
        model: Data of the model in this process, each weight counted once. Data computed or read
            from other files for the backends counts, too.
        loading: The most while the model was loaded.
        base: The graph and the session themselves.
        libraries: By backend, the memory of its library, once, with the first model.
        steps: The subgraphs, in order.
        unsized: How many values have no known size, and count for nothing.
    """

    model: int
    loading: int
    base: int
    libraries: Mapping[str, int]
    steps: tuple[StepMemory, ...]
    unsized: int

    @property
    def held(self) -> int:
        """The memory of the session from its opening on, before it has run."""
        return self._shared + sum(step.held for step in self.steps)

    @property
    def opening(self) -> int:
        """The most while it is opened, one subgraph after the other."""
        held, most = self._shared, self._shared
        for step in self.steps:
            held += step.held
            most = max(most, held + step.opening)
        return most

    @property
    def running(self) -> int:
        """The most while it runs; see ``busiest``."""
        kept = sum(step.work for step in self.steps if step.keeps_work)
        passing = [one.waiting + (0 if one.keeps_work else one.work) for one in self.steps]
        return self.held + kept + max(passing, default=0)

    @property
    def ahead(self) -> int:
        """The most from now on, once the model is loaded."""
        return max(self.opening, self.running)

    @property
    def peak(self) -> int:
        """The most of all, from loading the model to the last run."""
        return max(self.loading, self.ahead)

    @property
    def busiest(self) -> StepMemory | None:
        """The step of a run during which most values live; None if nothing runs."""
        return max(self.steps, key=lambda step: step.waiting + step.work, default=None)

    @property
    def _shared(self) -> int:
        return self.model + self.base + sum(self.libraries.values())

    def parts(self) -> list[tuple[str, int]]:
        """Return the parts of ``ahead``, in words and bytes, the biggest first."""
        found = [("the data of the model", self.model), ("graph and session", self.base)]
        found += [(f"the library of {name}", taken) for name, taken in self.libraries.items()]
        is_of_opening = self.opening > self.running
        for step in self.steps:
            found.append((f"what {step.subgraph} holds beside it", step.held))
            if is_of_opening:
                found.append((f"compiling {step.subgraph}", step.opening))
            else:
                at = f", most of it at node {step.node}" if step.node else ""
                found.append((f"a run of {step.subgraph}{at}", step.waiting + step.work))
        return sorted(filter(lambda one: one[1], found), key=lambda one: -one[1])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: the attributes and the sums."""
        sums = ("held", "opening", "running", "peak")
        busiest = self.busiest
        return {
            **asdict(self),
            **{name: getattr(self, name) for name in sums},
            "busiest": None if busiest is None else busiest.subgraph,
        }

    def __str__(self) -> str:
        """Render the sums and the largest parts as a few lines for people."""
        sums = ("loading", "opening", "running", "peak")
        loading, opening, running, most = (in_bytes(getattr(self, name)) for name in sums)
        lines = [f"loading {loading}, opening {opening}, running {running}: {most} at most"]
        busiest = self.busiest
        if busiest is not None and busiest.node:
            living = ", ".join(f"{name} {in_bytes(size)}" for name, size in busiest.living.items())
            lines.append(f"most values in {busiest.subgraph} at {busiest.node}: {living}")
        if self.unsized:
            values = count_of(self.unsized, "value")
            lines.append(f"not counted for want of a size: {values}; give shapes")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Render as ``Memory('loading 4.0 MiB, opening 9.0 MiB, ...: 30.7 MiB at most')``."""
        return f"Memory({str(self).splitlines()[0]!r})"


def foresee(partitioning: PartitioningData) -> Memory:
    """Return the memory that a session of a partitioning will take; nothing is compiled or read."""
    graph = partitioning.graph
    pairs = [
        (subgraph, partitioning.passes.claims[at])
        for subgraph, at in zip(partitioning.subgraphs, partitioning.claimed_by, strict=True)
        if subgraph.outputs
    ]
    found = [(subgraph, _footprint(claim, subgraph)) for subgraph, claim in pairs]
    libraries: dict[str, int] = {}
    for subgraph, one in found:
        libraries[subgraph.backend] = max(one.library, libraries.get(subgraph.backend, 0))
    stored = graph.model.data_bytes
    return Memory(
        model=stored + _read_apart(graph, [subgraph for subgraph, _ in pairs]),
        loading=stored + int(graph.model.proto.ByteSize()) + _PARSING,
        base=_BASE + _OF_A_NODE * len(graph.order),
        libraries=libraries,
        steps=tuple(_steps(graph, found)),
        unsized=sum(one.values.unsized for _, one in found),
    )


def check_memory(partitioning: PartitioningData) -> None:
    """Refuse a session that needs more memory than ``max_memory`` (MemoryLimitError, SGK134)."""
    settings = partitioning.graph.settings
    if settings.max_memory is None:
        return
    memory = foresee(partitioning)
    if memory.ahead <= settings.max_memory:
        return
    doing = "to open" if memory.opening > memory.running else "to run"
    biggest = "; ".join(f"{what} {in_bytes(size)}" for what, size in memory.parts()[:3])
    raise MemoryLimitError(
        "SGK134",
        f"a session of {partitioning.graph.name!r} would need about {in_bytes(memory.ahead)} "
        f"{doing}, and max_memory is {in_bytes(settings.max_memory)} "
        f"(from {settings.sources['max_memory'][1]})",
        hint=f"The biggest parts: {biggest}.\n"
        "Allow more, give smaller shapes, choose a backend that copies less of the weights, or "
        "convert them to 16 or 8 bits (subgraphkit convert).\n"
        "'subgraphkit plan --memory' says what each takes.",
        needed=memory.ahead,
        limit=settings.max_memory,
    )


def _footprint(claim: Claim, subgraph: Subgraph) -> Footprint:
    backend: Backend = claim.backend
    try:
        found: object = backend.footprint(subgraph)
    except Exception as error:
        raise claim.fault("SGK122", f"footprint raised {type(error).__name__}: {error}") from error
    if not isinstance(found, Footprint):
        raise claim.fault("SGK122", f"footprint returned a {type(found).__name__}")
    return found


def _read_apart(graph: BoundModel, subgraphs: list[Subgraph]) -> int:
    """Count operators' constants that are not in the model's own memory as arrays."""
    apart = {name: one for each in subgraphs for name, one in each.constants.items()}
    for name in graph.model.taken_out:
        apart.pop(name, None)
    return sum(one.type.nbytes or 0 for one in apart.values())


def _steps(graph: BoundModel, found: list[tuple[Subgraph, Footprint]]) -> Iterator[StepMemory]:
    living: dict[str, int] = {}
    drops = last_uses([subgraph for subgraph, _ in found], ())
    wanted = frozenset(graph.outputs)
    for (subgraph, one), gone in zip(found, drops, strict=True):
        waiting = sum(living.values())
        living.update((name, bytes_of(graph.types.get(name))) for name in subgraph.outputs)
        for name in gone:
            if name not in wanted:
                living.pop(name, None)
        values = one.values
        yield StepMemory(
            subgraph.id,
            subgraph.backend,
            one.held,
            one.opening,
            one.work,
            one.keeps_work,
            waiting,
            values.bytes,
            "" if values.node is None else Node(graph, values.node).label,
            dict(list(values.living.items())[:_SHOWN_VALUES]),
        )
