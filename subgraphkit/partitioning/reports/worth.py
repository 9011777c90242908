"""The worth of an operator that is refused, or of sizes not given: what would be gained by it."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from subgraphkit.ir import Node
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.levels import level_bound
from subgraphkit.partitioning.claiming.turn import TurnOutcome
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.reports.explanation import Roots
from subgraphkit.partitioning.reports.flops import estimate_flops

# Reasons that would remain if the backend had the operator.
_NOT_ABOUT_THE_OPERATOR = frozenset(
    {"excluded", "filtered", "group", "not_accepted", "not_convex", "not_worth", "pinned",
     "too_large", "too_small"}
)  # fmt: skip

# Units and edges to go through for one backend. Growing connected regions looks at each many times,
# counting levels once.
_CONNECTED_BUDGET = 1_000_000
_LEVELS_BUDGET = 20_000_000


_SIZES = ""
"""Stands among the names of operators for all that is refused because sizes are open."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a backend would gain by an operator, or by sizes, were nothing else in the way.

    Attributes:
        operator: The refused operator; empty if sizes are missing.
        sizes: What ``shapes`` would have to say, if sizes are missing.
        nodes: How many more nodes it would have.
        flops: Their operations.
        regions_saved: How many fewer regions it would need; negative if more.
        crossings_saved: How many fewer values would cross between backends; negative if more.
    """

    operator: str
    sizes: tuple[str, ...]
    nodes: int
    flops: int
    regions_saved: int
    crossings_saved: int


class Worth(NamedTuple):
    """The worth to a backend of what was refused.

    Attributes:
        gains: What each operator, and the sizes that are open, would bring; the most regions saved
            first, then the most operations.
        uncounted: Operators left out because the graph is large; the most promising first.
    """

    gains: tuple[Gain, ...]
    uncounted: tuple[str, ...]


def worth_of_operators(partitioning: PartitioningData, backend: str, roots: Roots) -> Worth:
    """Count, by refused operator, what a backend would gain with it.

    Only nodes that ended on another backend count as refused. The regions are counted anew, by the
    rule of the property, with and without those nodes. If several properties of the backend refused
    the operator, it is given to the one that it promises most.

    On a large graph not all operators can be counted. First come those whose nodes lie between the
    most regions: were nothing else in the way, they would join as many as they touch.

    Args:
        partitioning: The partitioning.
        backend: Name of the backend.
        roots: Where the unknown shapes of the graph come from. What is refused because of open
            sizes is counted under these, not under its operators.
    """
    best: dict[str, _Supposing] = {}
    for *_, name, supposing in sorted(_promises(partitioning, backend, roots), key=itemgetter(0)):
        best.setdefault(name, supposing)
    crossings = _Crossings(partitioning, backend)
    gains: list[Gain] = []
    uncounted: list[str] = []
    spent = 0.0
    for name, supposing in best.items():
        cost = supposing.cost
        if spent + cost > 1:
            uncounted.append(name)
        else:
            spent += cost
            gains.append(supposing.gain(name, crossings))
    gains.sort(key=lambda one: (-one.regions_saved, -one.flops, one.operator))
    return Worth(tuple(gains), tuple(filter(None, uncounted)))


class _Crossings:
    """The values that cross between backends, and what would become of them."""

    def __init__(self, partitioning: PartitioningData, backend: str) -> None:
        self._partitioning = partitioning
        self._backend = backend

    @cached_property
    def _ends(self) -> Mapping[str, list[int]]:
        """By value that a node makes, the maker, and then those that read it."""
        graph = self._partitioning.graph
        nodes = [
            node
            for one in self._partitioning.subgraphs
            if one.outputs
            for node in one.home
            if not graph.is_constant_node(node)
        ]
        ends = {name: [node] for node in nodes for name in graph.table.outputs[node]}
        for node in nodes:
            for name in graph.read_by(node):
                if name in ends:
                    ends[name].append(node)
        return ends

    def saved(self, nodes: Iterable[int]) -> int:
        """Count how many fewer values would cross if the backend had these nodes too."""
        graph, moved = self._partitioning.graph, frozenset(nodes)
        touched = {
            name for node in moved for name in (*graph.read_by(node), *graph.table.outputs[node])
        }
        saved = 0
        for ends in (self._ends[name] for name in touched if name in self._ends):
            homes = [self._partitioning.home_of(node).backend for node in ends]
            then = {
                self._backend if node in moved else home
                for node, home in zip(ends, homes, strict=True)
            }
            saved += (len(set(homes)) > 1) - (len(then) > 1)
        return saved


def _promises(
    partitioning: PartitioningData, backend: str, roots: Roots
) -> "Iterator[tuple[tuple[int, int, str], str, _Supposing]]":
    """Yield a rank, by what is promised at first sight, with an operator and who counts it."""
    turns = partitioning.turns
    rank_of = array("i", [-1]) * len(partitioning.graph.table.op_types)
    for rank, node in enumerate(partitioning.graph.order):
        rank_of[node] = rank
    for index, (claim, outcome) in enumerate(zip(turns.claims, turns.outcomes, strict=True)):
        if claim.backend.name == backend and outcome is not None and outcome.whole:
            supposing = _Supposing(partitioning, index, outcome, rank_of, roots)
            for name, nodes in supposing.refused.items():
                units = supposing.units(nodes)
                yield (-supposing.joins(units), -len(nodes), name), name, supposing


class _Supposing:
    """One property's regions, counted as they are and with more of its units claimed.

    Attributes:
        refused: By operator, the nodes it refused that ended on another backend; under an empty
            name those that are refused because sizes are open.
    """

    def __init__(
        self,
        partitioning: PartitioningData,
        index: int,
        outcome: TurnOutcome,
        rank_of: Sequence[int],
        roots: Roots,
    ) -> None:
        self._outcome = outcome
        self._graph = partitioning.graph
        self._rank_of = rank_of
        self._connected = partitioning.turns.claims[index].property.connectivity == "connected"
        self._now: int | None = None
        self._region_of = self._regions(partitioning, index, rank_of)
        self.sizes: dict[str, None] = {}
        self.refused = self._refused(partitioning, index, roots)

    def units(self, nodes: Iterable[int]) -> list[int]:
        """Return what nodes are in the turn of the property."""
        return [self._outcome.unit_of[self._rank_of[node]] for node in nodes]

    def joins(self, units: Sequence[int]) -> int:
        """Return by how many the regions would fall if any neighbours could be joined."""
        adjacency, region_of = self._outcome.adjacency, self._region_of
        leader: dict[int, int] = {}
        inside = frozenset(units)

        def find(at: int) -> int:
            while (above := leader.setdefault(at, at)) != at:
                leader[at] = leader[above]
                at = above
            return at

        joined = 0
        for unit in inside:
            for other in (*adjacency.predecessors(unit), *adjacency.successors(unit)):
                if other not in inside and region_of[other] < 0:
                    continue
                # A region is told from a unit by its sign.
                one, two = find(unit), find(other if other in inside else ~region_of[other])
                if one != two:
                    leader[one] = two
                    joined += 1
        return joined - len(inside)

    @property
    def cost(self) -> float:
        """The part of a backend's budget that the next count takes."""
        size = self._outcome.adjacency.count + len(self._outcome.adjacency.preds)
        counts = 2 if self._now is None else 1
        return counts * size / (_CONNECTED_BUDGET if self._connected else _LEVELS_BUDGET)

    def gain(self, operator: str, crossings: _Crossings) -> Gain:
        """Count what would be gained by an operator."""
        if self._now is None:
            self._now = self._count(())
        nodes = self.refused[operator]
        return Gain(
            operator,
            tuple(self.sizes) if operator == _SIZES else (),
            len(nodes),
            sum(estimate_flops(Node(self._graph, node)) for node in nodes),
            self._now - self._count(self.units(nodes)),
            crossings.saved(nodes),
        )

    def _count(self, more: Sequence[int]) -> int:
        claimed = bytearray(region >= 0 for region in self._region_of)
        for unit in more:
            claimed[unit] = 1
        if self._connected:
            return len(connected_regions(self._outcome.adjacency, claimed).regions)
        return level_bound(self._outcome.adjacency, claimed)

    def _regions(
        self, partitioning: PartitioningData, index: int, rank_of: Sequence[int]
    ) -> "array[int]":
        """Return, by unit, the subgraph of the property it is in, or -1."""
        region_of = array("i", [-1]) * self._outcome.adjacency.count
        for place, subgraph in enumerate(partitioning.subgraphs):
            if partitioning.claimed_by[place] != index:
                continue
            for node in subgraph.home:
                if not partitioning.graph.is_constant_node(node):
                    region_of[self._outcome.unit_of[rank_of[node]]] = place
        return region_of

    def _refused(
        self, partitioning: PartitioningData, index: int, roots: Roots
    ) -> dict[str, list[int]]:
        column, graph = partitioning.turns.columns[index], partitioning.graph
        backend = partitioning.turns.claims[index].backend.name
        found: dict[str, list[int]] = {}
        for node, refusal in column.items() if column is not None else ():
            if refusal.code in _NOT_ABOUT_THE_OPERATOR:
                continue
            home = partitioning.home_of(node)
            if home.backend != backend and home.outputs:
                name, origins = Node(graph, node).qualified_op_type, roots.of(node, refusal)
                if any(isinstance(one, int) for one in origins):
                    continue  # no operator, and no size that is given, would help
                if origins:
                    name = _SIZES
                    self.sizes.update(dict.fromkeys(roots.sizes(origins)))
                found.setdefault(name, []).append(node)
        return found
