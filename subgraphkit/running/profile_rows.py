"""The rows of a profile: what the runs of a session spent their time on, in means over the runs."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from subgraphkit.backend.events import RunEvent, StepEvent
from subgraphkit.backend.operator import InnerTime
from subgraphkit.ir import Subgraph
from subgraphkit.texts import counted

__all__ = ["ProfileRow", "RunTimes", "StepTimes", "profile_rows"]


@dataclass(slots=True)
class StepTimes:
    """One step of a run.

    Attributes:
        event: What was told of it.
        inner: What its operator recorded.
        heard: When the listener was done with it, on the clock of the event.
    """

    event: StepEvent
    inner: list[InnerTime]
    heard: float


@dataclass(slots=True)
class RunTimes:
    """One run: what was told at its end, and its steps in order."""

    event: RunEvent
    steps: list[StepTimes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A part of the time of a run.

    The rows that are not of the kind ``"subgraph"``, and of that kind those with nothing inside,
    add up to the whole run.

    Attributes:
        kind: A ``"subgraph"``; a thing ``"inside"`` of one, such as a kernel; what is
            ``"unattributed"`` of one beside them, less than nothing where they run side by side; a
            ``"hand-over"``, which is what the session does before, between and after subgraphs: it
            checks, copies, moves between devices, waits; or the ``"clocks"`` of the profile itself.
        name: What it is: a subgraph, or two between which something is handed over, or, inside, how
            the library calls it.
        seconds: How long it takes in a run.
        part: Which part of the run that is.
        calls: How often it happens in a run.
        subgraph: Identifier of the subgraph it belongs to, or an empty string.
        backend: Name of the backend, or an empty string.
        nodes: Labels of the nodes of the model it computes. Where there are none inside of a
            subgraph, the name is the library's own.
        numbers: The numbers of these nodes.
    """

    kind: Literal["subgraph", "inside", "unattributed", "hand-over", "clocks"]
    name: str
    seconds: float
    part: float
    calls: float
    subgraph: str = ""
    backend: str = ""
    nodes: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """What to call it in reports."""
        if self.kind == "inside":
            return " + ".join(self.nodes) or f"{self.backend}: {self.name}"
        return {
            "subgraph": f"{self.name}, {counted(len(self.nodes), 'node')}",
            "unattributed": "unattributed",
            "hand-over": self.name,
            "clocks": "the clocks of this profile",
        }[self.kind]


def profile_rows(
    runs: Sequence[RunTimes], subgraphs: Mapping[str, Subgraph]
) -> tuple[ProfileRow, ...]:
    """Return the rows: subgraphs in order, each before what is inside of it; then all others.

    Args:
        runs: The runs.
        subgraphs: The subgraphs that ran, by identifier.
    """
    sums = _Sums(len(runs), sum(run.event.seconds or 0.0 for run in runs))
    looked_into = {s.event.subgraph for run in runs for s in run.steps if s.inner}
    for run in runs:
        _add_run(sums, run, looked_into)
    return tuple(_ordered(sums.rows(subgraphs)))


_Key = tuple[str, str, str, tuple[int, ...]]
"""Kind, subgraph, name, and nodes by number."""


class _Sums:
    """Seconds and calls over all runs, by what rows are made of."""

    def __init__(self, runs: int, wall: float) -> None:
        self._runs, self._wall = runs, wall
        self._seconds: dict[_Key, float] = {}
        self._calls: dict[_Key, int] = {}
        self.backends: dict[str, str] = {}

    def add(
        self, seconds: float, kind: str, subgraph: str, name: str, nodes: tuple[int, ...] = ()
    ) -> None:
        key = (kind, subgraph, name, nodes)
        self._seconds[key] = self._seconds.get(key, 0.0) + seconds
        self._calls[key] = self._calls.get(key, 0) + 1

    def rows(self, subgraphs: Mapping[str, Subgraph]) -> Iterator[ProfileRow]:
        for key, seconds in self._seconds.items():
            kind, subgraph, name, numbers = key
            region = subgraphs.get(subgraph)
            if kind == "subgraph" and region is not None:
                numbers = region.nodes
            graph = None if region is None else region.graph
            if graph is not None:  # a kernel computes no constants, whatever it reads
                numbers = tuple(at for at in numbers if not graph.is_constant_node(at)) or numbers
            labels = () if graph is None else (graph.nodes[at].label for at in numbers)
            yield ProfileRow(
                kind,  # type: ignore[arg-type]  # one of those that are added below
                name,
                seconds / self._runs,
                seconds / self._wall,
                self._calls[key] / self._runs,
                subgraph,
                self.backends.get(subgraph, ""),
                tuple(labels),
                numbers,
            )


def _add_run(sums: _Sums, run: RunTimes, looked_into: Collection[str]) -> None:
    end = run.event.start + (run.event.seconds or 0.0)
    at, before = run.event.start, "inputs"
    for step in run.steps:
        event = step.event
        name = event.subgraph
        sums.backends[name] = event.backend
        sums.add(event.start - at, "hand-over", "", f"{before} -> {name}")
        sums.add(event.seconds, "subgraph", name, name)
        for inner in step.inner:
            sums.add(inner.seconds, "inside", name, inner.name, inner.nodes)
        if name in looked_into:
            known = sum(inner.seconds for inner in step.inner)
            sums.add(event.seconds - known, "unattributed", name, name)
        sums.add(step.heard - event.start - event.seconds, "clocks", "", "clocks")
        at, before = step.heard, name
    sums.add(end - at, "hand-over", "", f"{before} -> outputs")


def _ordered(rows: Iterable[ProfileRow]) -> Iterator[ProfileRow]:
    by_subgraph: dict[str, list[ProfileRow]] = {}
    for row in rows:
        by_subgraph.setdefault(row.subgraph, []).append(row)
    others = by_subgraph.pop("", [])
    for several in by_subgraph.values():
        yield from sorted(several, key=lambda row: row.kind != "subgraph")
    yield from others
