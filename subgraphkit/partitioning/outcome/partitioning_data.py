"""The data of a partitioning, and its subgraphs as they are cut from the claimed regions."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter
from typing import TypeVar

from subgraphkit.backend.contract import Backend, lack_of
from subgraphkit.backend.messages import did_you_mean
from subgraphkit.backend.operator import Evidence
from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding import BoundModel
from subgraphkit.configuration.config import changed_options
from subgraphkit.errors import BackendUnavailableError, ConfigError
from subgraphkit.ir import Node, Subgraph, boundaries, make_subgraph
from subgraphkit.ir.costs import estimate_flops
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.claiming.claim import Passes, RefusedBy
from subgraphkit.partitioning.claiming.graph import PartitionState, Region
from subgraphkit.partitioning.claims import Claim
from subgraphkit.partitioning.constraints import ResolvedConstraints
from subgraphkit.partitioning.outcome.verification import (
    region_by_rank,
    verify_borders,
    verify_edges,
    verify_regions,
)


@dataclass(frozen=True, eq=False)
class PartitioningData:
    """Every node in exactly one subgraph, and why.

    Attributes:
        graph: The bound model; as the subgraph sees it, where one was divided.
        subgraphs: The subgraphs, in an order in which they can run.
        passes: The properties asked, in order, and their outcomes.
        claimed_by: For each subgraph the place of its property in ``passes``.
        constraints: What the user demanded.
        named: The backends that you named, in order. Each has the reason why it was left out, or an
            empty text. Those that ``auto`` stands for are not among them.
    """

    graph: BoundModel
    subgraphs: tuple[Subgraph, ...]
    passes: Passes
    claimed_by: tuple[int, ...]
    constraints: ResolvedConstraints
    named: Mapping[str, str] = field(default_factory=dict)

    @property
    def model(self) -> str:
        """The name of the model, as in events."""
        return self.graph.extensions.model

    @property
    def session(self) -> int:
        """The number of the session it was made for, as in events."""
        return self.graph.extensions.session

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the backends that took part, in the order of claiming, the fallback last."""
        return tuple(dict.fromkeys(claim.backend.name for claim in self.passes.claims))

    @property
    def evidence(self) -> Mapping[str, Evidence]:
        """By backend, the basis of its claims: ``declared`` tables, or a library ``asked`` too."""
        return {claim.backend.name: claim.backend.traits.evidence for claim in self.passes.claims}

    @property
    def given_options(self) -> Mapping[str, Mapping[str, object]]:
        """By backend, its options that are not at their defaults, as plain data."""
        return {one.backend.name: changed_options(one.backend) for one in self.passes.claims}

    @property
    def cannot_run(self) -> Mapping[str, BackendUnavailableError]:
        """The lack of each backend in a dry run, by name; raised at compile."""
        found = {claim.backend.name: lack_of(claim.backend) for claim in self.passes.claims}
        return {name: error for name, error in found.items() if error is not None}

    @property
    def is_as_asked(self) -> bool:
        """Whether it is plain, before anything is counted, that nobody named falls short."""
        settings = self.graph.settings
        if settings.require:
            return False
        if settings.on_fallback == "ok" or not self.named:
            return True
        used = {one.backend for one in self.subgraphs if one.outputs}
        return not any(self.named.values()) and used <= {next(iter(self.named))}

    @cached_property
    def shares_processors(self) -> bool:
        """Whether more than one pool of threads computes subgraphs.

        Each backend has one pool of threads that sleep between two runs. Threads that may spin are
        one pool for each subgraph, because they take the processors from others.
        """
        counted = self._computing()
        spinning = sum(count for one, count in counted if one.traits.pool in {"spins", "unknown"})
        return spinning + len({one.name for one, _ in counted if one.traits.pool == "sleeps"}) > 1

    @property
    def unheeding(self) -> tuple[str, ...]:
        """Names of the backends with subgraphs that promise nothing about their threads."""
        names = (one.name for one, _ in self._computing() if one.traits.pool == "unknown")
        return tuple(dict.fromkeys(names))

    def _computing(self) -> list[tuple[Backend, int]]:
        """Return the backends that compute subgraphs, with their numbers of subgraphs."""
        # Every claim once: after each subgraph given back this is asked of all that there are.
        counts = Counter(compress(self.claimed_by, map(attrgetter("outputs"), self.subgraphs)))
        return [(self.passes.claims[place].backend, count) for place, count in counts.items()]

    def flops_of(self, nodes: Iterable[int]) -> int:
        """Return the operations of nodes, each counted once for all callers."""
        return sum(map(self._flops.__getitem__, nodes))

    def crossings(self) -> Iterator[tuple[int, int, list[str]]]:
        """Yield places of two subgraphs, with the values that the first hands to the second."""
        maker = {name: place for place, one in enumerate(self.subgraphs) for name in one.outputs}
        for place, subgraph in enumerate(self.subgraphs):
            crossing: dict[int, list[str]] = {}
            for name in subgraph.inputs:
                if name in maker:
                    crossing.setdefault(maker[name], []).append(name)
            for source, names in crossing.items():
                yield source, place, names

    @cached_property
    def refusals(self) -> Mapping[int, tuple[RefusedBy, ...]]:
        """By node, the properties that refused it and their reasons, in the order of asking.

        Equal reasons of several properties of a backend are there once, under the first.
        """
        refused = {node for _, column in self.passes.asked for node, _ in column.items()}
        return {node: self.passes.refusals_of(node) for node in sorted(refused)}

    def refusals_by(self, backend: str) -> Mapping[int, Refusal]:
        """Return by node why nodes are not on a backend: the last reason for each."""
        said: dict[int, Refusal] = {}
        for claim, column in self.passes.asked:
            if claim.backend.name == backend:
                said.update(column.items())
        elsewhere = (n for n in sorted(said) if self.subgraphs[self._home[n]].backend != backend)
        return {node: said[node] for node in elsewhere}

    def __iter__(self) -> Iterator[Subgraph]:
        """Iterate over the subgraphs, in an order in which they can run."""
        return iter(self.subgraphs)

    def __len__(self) -> int:
        """Count the subgraphs."""
        return len(self.subgraphs)

    def __getitem__(self, key: int | str) -> Subgraph:
        """Return the subgraph at a place, or that of an id."""
        return self.subgraph(key) if isinstance(key, str) else self.subgraphs[key]

    def __eq__(self, other: object) -> bool:
        """Say whether the same backends run the same regions of the same model."""
        if not isinstance(other, PartitioningData):
            return NotImplemented
        return self is other or (self._division == other._division and self.divides_as(other))

    def divides_as(self, other: "PartitioningData") -> bool:
        """Say whether the nodes divided are those of another partitioning."""
        one, two = self.graph.table, other.graph.table
        nodes = [(list(table.op_types), list(table.outputs)) for table in (one, two)]
        return one is two or nodes[0] == nodes[1]

    def __hash__(self) -> int:
        """Hash by the regions."""
        return hash(self._division)

    @cached_property
    def _division(self) -> frozenset[tuple[str, tuple[int, ...]]]:
        return frozenset((one.backend, tuple(sorted(one.nodes))) for one in self.subgraphs)

    def subgraph(self, subgraph_id: str) -> Subgraph:
        """Return the subgraph of that name; ConfigError (SGK123) if there is none."""
        return self.subgraphs[self.place_of(subgraph_id)]

    def place_of(self, subgraph_id: str) -> int:
        """Return where in ``subgraphs`` one of that name is; ConfigError (SGK123) for none."""
        if (place := self._places.get(subgraph_id)) is None:
            raise ConfigError(
                "SGK123",
                f"the partitioning has no subgraph {subgraph_id!r}"
                f"{did_you_mean(subgraph_id, self._places)}",
            )
        return place

    def claim_of(self, subgraph: Subgraph) -> Claim:
        """Return the claim of a subgraph, whose backend compiles it."""
        return self.passes.claims[self.claimed_by[self.place_of(subgraph.id)]]

    def home_of(self, node: int) -> Subgraph:
        """Return the subgraph that a node is in; ConfigError (SGK123) for no such node."""
        self.check_node(node)
        return self.subgraphs[self._home[node]]

    def index_of(self, node: int | str | Node) -> int:
        """Return the index of a node, given as such, by its name or by that of a value it makes."""
        if not isinstance(node, str):
            return node.id if isinstance(node, Node) else node
        names, producers = self.graph.table.names, self.graph.producers
        if node in names:
            return names.index(node)
        if node not in producers:
            guess = did_you_mean(node, {*filter(None, names), *producers})
            raise ConfigError("SGK123", f"the model has no node and no value {node!r}{guess}")
        return producers[node]

    def check_node(self, node: int) -> None:
        """Raise ConfigError (SGK123) unless the model has a node of that index, in a subgraph."""
        count = len(self.graph.table.op_types)
        if not 0 <= node < count:
            raise ConfigError(
                "SGK123",
                f"the model has no node {node}",
                hint=f"It has {count}, counted from 0." if count else "It has none at all.",
            )
        if node in self.graph.left_out:
            became = self.graph.left_out[node]
            raise ConfigError("SGK123", f"node {node} is in no subgraph: {became}")
        if self._home[node] < 0:
            raise ConfigError("SGK123", f"node {node} is not in the subgraph that was divided")

    @cached_property
    def _flops(self) -> Mapping[int, int]:
        nodes = (node for subgraph in self.subgraphs for node in subgraph.nodes)
        return {node: estimate_flops(Node(self.graph, node)) for node in nodes}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {subgraph.id: place for place, subgraph in enumerate(self.subgraphs)}

    @cached_property
    def _home(self) -> "array[int]":
        home = array("i", [-1]) * len(self.graph.table.op_types)
        for place, subgraph in enumerate(self.subgraphs):
            for node in subgraph.nodes:
                home[node] = place
        return home


PartitioningT = TypeVar("PartitioningT", bound=PartitioningData)

Cut = tuple[Subgraph, int]
"""A subgraph and the place of the property that claimed it."""


def cut(
    state: PartitionState,
    passes: Passes,
    checks: Callable[[PartitionState, Sequence[Cut]], None] = verify_borders,
) -> tuple[tuple[Subgraph, ...], tuple[int, ...]]:
    """Turn the claimed regions into subgraphs in running order, each with the place of its claim.

    A ``Constant`` node goes where its first reader is. One without readers goes to the last
    subgraph of the last property, or to its own if there is no other. Its value is known without a
    run.

    ``checks``: Looks at the values at the edges.
    """
    verify_regions(state, state.regions)
    ordered = state.in_run_order()
    constants = _constants_by_region(state, ordered, passes)
    nodes = [state.nodes_of(region, constants.get(at, ())) for at, region in enumerate(ordered)]
    edges = boundaries(state.graph, nodes, also_wanted=state.wanted)
    claimed_by = tuple(region.claim for region in ordered)
    claims = map(passes.claims.__getitem__, claimed_by)
    subgraphs = [
        make_subgraph(state.graph, row, claim.backend.name, claim.property_name, edge=edge)
        for row, claim, edge in zip(nodes, claims, edges, strict=True)
    ]
    verify_edges(state, subgraphs)
    checks(state, list(zip(subgraphs, claimed_by, strict=True)))
    return tuple(subgraphs), claimed_by


def _constants_by_region(
    state: PartitionState, ordered: list[Region], passes: Passes
) -> dict[int, list[int]]:
    """Place every constant rank; may append one region that holds nothing else."""
    if not any(state.constant):
        return {}
    made, order = state.graph.table.outputs, state.order
    ranks = range(state.count)
    homeless = {made[order[rank]][0]: rank for rank in compress(ranks, state.constant)}
    region_of = region_by_rank(state, ordered)
    placed: dict[int, list[int]] = {}
    for rank in ranks:
        for value in state.graph.read_by(order[rank]):
            if value in homeless and region_of[rank] >= 0:
                placed.setdefault(region_of[rank], []).append(homeless.pop(value))
    if homeless:
        if not ordered:
            ordered.append(Region(len(passes.claims) - 1, []))
        last = max(range(len(ordered)), key=lambda index: (ordered[index].claim, index))
        placed.setdefault(last, []).extend(homeless.values())
    return placed
