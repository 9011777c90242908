"""The worth of supporting an operator: the number of subgraphs that would vanish."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from subgraphkit.ir import Node
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.levels import level_bound
from subgraphkit.partitioning.claiming.turn import TurnOutcome
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData

__all__ = ["Worth", "worth_of_operators"]

# Reasons that would remain if the backend had the operator.
_NOT_ABOUT_THE_OPERATOR = frozenset(
    {"excluded", "filtered", "group", "not_accepted", "not_convex", "not_worth", "pinned",
     "too_large", "too_small"}
)  # fmt: skip

# Units and edges to go through for one backend. Growing connected regions looks at each many times,
# counting levels once.
_CONNECTED_BUDGET = 1_000_000
_LEVELS_BUDGET = 20_000_000


@dataclass(frozen=True, slots=True)
class Worth:
    """The worth of refused operators to a backend.

    Attributes:
        saved: By operator, how many fewer regions there would be; negative if more.
        uncounted: Operators left out because the graph is large; the most promising first.
    """

    saved: dict[str, int]
    uncounted: tuple[str, ...]


def worth_of_operators(partitioning: PartitioningData, backend: str) -> Worth:
    """Count, by refused operator, how many fewer regions a backend would need with it.

    Only nodes that ended on another backend count as refused. The regions are counted anew, by the
    rule of the property, with and without those nodes. If several properties of the backend refused
    the operator, it is given to the one that it promises most.

    On a large graph not all operators can be counted. First come those whose nodes lie between the
    most regions: were nothing else in the way, they would join as many as they touch.

    Args:
        partitioning: The partitioning.
        backend: Name of the backend.
    """
    promises = sorted(_promises(partitioning, backend), reverse=True)
    best: dict[str, _Promise] = {}
    for promise in promises:
        best.setdefault(promise.operator, promise)
    saved: dict[str, int] = {}
    uncounted: list[str] = []
    spent = 0.0
    for name, promise in best.items():
        cost = promise.supposing.cost
        if spent + cost > 1:
            uncounted.append(name)
        else:
            spent += cost
            saved[name] = promise.supposing.saved(name)
    ranked = sorted(saved.items(), key=lambda item: (-item[1], item[0]))
    return Worth(dict(ranked), tuple(uncounted))


def _promises(partitioning: PartitioningData, backend: str) -> "Iterator[_Promise]":
    turns = partitioning.turns
    rank_of = array("i", [-1]) * len(partitioning.graph.table.op_types)
    for rank, node in enumerate(partitioning.graph.order):
        rank_of[node] = rank
    for index, (claim, outcome) in enumerate(zip(turns.claims, turns.outcomes, strict=True)):
        if claim.backend.name == backend and outcome is not None and outcome.whole:
            supposing = _Supposing(partitioning, index, outcome, rank_of)
            for name, units in supposing.refused.items():
                yield _Promise(supposing.joins(units), len(units), name, supposing)


@dataclass(frozen=True, slots=True)
class _Promise:
    """What an operator might be worth to one property, at first sight."""

    joins: int
    units: int
    operator: str
    supposing: "_Supposing"

    def __lt__(self, other: "_Promise") -> bool:
        """Order by what is promised; of equals the first name is the greatest."""
        mine, theirs = (self.joins, self.units), (other.joins, other.units)
        return mine < theirs or (mine == theirs and self.operator > other.operator)


class _Supposing:
    """One property's regions, counted as they are and with more of its units claimed.

    Attributes:
        refused: By operator, the units it refused that ended on another backend.
    """

    def __init__(
        self,
        partitioning: PartitioningData,
        index: int,
        outcome: TurnOutcome,
        rank_of: Sequence[int],
    ) -> None:
        self._outcome = outcome
        self._connected = partitioning.turns.claims[index].property.connectivity == "connected"
        self._now: int | None = None
        self._region_of = self._regions(partitioning, index, rank_of)
        self.refused = self._refused(partitioning, index, rank_of)

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

    def saved(self, operator: str) -> int:
        """Count how many fewer regions there would be with an operator."""
        if self._now is None:
            self._now = self._count(())
        return self._now - self._count(self.refused[operator])

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
        self, partitioning: PartitioningData, index: int, rank_of: Sequence[int]
    ) -> dict[str, list[int]]:
        column, graph = partitioning.turns.columns[index], partitioning.graph
        backend = partitioning.turns.claims[index].backend.name
        units: dict[str, list[int]] = {}
        for node, refusal in column.items() if column is not None else ():
            if refusal.code in _NOT_ABOUT_THE_OPERATOR:
                continue
            if partitioning.home_of(node).backend != backend:
                name = Node(graph, node).qualified_op_type
                units.setdefault(name, []).append(self._outcome.unit_of[rank_of[node]])
        return units
