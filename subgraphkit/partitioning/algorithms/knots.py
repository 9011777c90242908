"""Shrink a knot without losing any best partitioning, and cut it apart where that is possible.

Three facts do the work; none needs a search through the graph.

* *Safe contraction.* Two claimed neighbours may be contracted if the end that moves has at most one
  other neighbour it could share a region with, and moving it adds no new way through the other:
  what it feeds, the other feeds too (or what feeds it, feeds the other too).
* *Separated neighbours.* If an unclaimed node lies on a path from one claimed neighbour to the
  other, the two can never share a region; the edge no longer joins them.
* *Unclaimed nodes* matter only as paths, so they may be contracted among themselves where that adds
  no path, and dropped where another one has all of their edges.

With edges gone, a knot may fall apart into whole components and smaller knots.

Source:
    Coarsening that keeps a graph acyclic: J. Herrmann, M. Y. Ozkaya, B. Ucar, K. Kaya,
    U. V. Catalyurek, "Multilevel algorithms for acyclic partitioning of directed acyclic graphs",
    SIAM J. Sci. Comput. 41(4), 2019. The conditions here are our own and are proved by exchange:
    in any best partitioning the moved end can change over to its neighbour's region.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from subgraphkit.ir import Adjacency

__all__ = ["Knot", "make_knot", "move_edges", "shrink"]


@dataclass(frozen=True, slots=True, eq=False)
class Knot:
    """A graph of nodes, each a set of units that belong together, numbered topologically.

    Attributes:
        members: For each node its units; empty for a node contracted into another.
        claimed: 1 for every node of claimed units.
        feeds: For each node the nodes that read from it.
        needs: For each node the nodes it reads from.
        joins: For each claimed node the claimed neighbours it could share a region with.
    """

    members: list[list[int]]
    claimed: bytearray
    feeds: list[set[int]]
    needs: list[set[int]]
    joins: list[set[int]]

    @property
    def edge_count(self) -> int:
        """Number of edges."""
        return sum(map(len, self.feeds))

    def contract(self, kept: int, gone: int) -> None:
        """Move the units and edges of ``gone`` to ``kept``."""
        move_edges(self.feeds, self.needs, kept, gone)
        for other in self.joins[gone]:
            self.joins[other].discard(gone)
            if other != kept:
                self.joins[other].add(kept)
                self.joins[kept].add(other)
        self.joins[gone] = _NOTHING
        self.members[kept] += self.members[gone]
        self.members[gone] = []

    def drop(self, node: int) -> None:
        """Take an unclaimed node out together with its edges."""
        for other in self.feeds[node]:
            self.needs[other].discard(node)
        for other in self.needs[node]:
            self.feeds[other].discard(node)
        self.feeds[node] = self.needs[node] = _NOTHING
        self.members[node] = []


_NOTHING: set[int] = set()


def move_edges(feeds: list[set[int]], needs: list[set[int]], kept: int, gone: int) -> None:
    """Move the edges of ``gone`` to ``kept``; one between the two goes.

    Args:
        feeds: For each node the nodes that read from it; changed.
        needs: For each node the nodes it reads from; changed.
        kept: The node that gets the edges.
        gone: The node that has none afterwards.
    """
    for near, far in ((feeds, needs), (needs, feeds)):
        for other in near[gone]:
            far[other].discard(gone)
            if other != kept:
                far[other].add(kept)
                near[kept].add(other)
        near[gone] = _NOTHING


def make_knot(adjacency: Adjacency, eligible: bytearray, units: Sequence[int]) -> Knot:
    """Cut the graph of ``units``, given ascending, out of the whole."""
    number = {unit: node for node, unit in enumerate(units)}
    knot = Knot(
        members=[[unit] for unit in units],
        claimed=bytearray(eligible[unit] for unit in units),
        feeds=[set() for _ in units],
        needs=[set() for _ in units],
        # Unclaimed nodes join nothing, so they can share one set.
        joins=[set() if eligible[unit] else _NOTHING for unit in units],
    )
    for node, unit in enumerate(units):
        for pred in adjacency.predecessors(unit):
            other = number.get(pred)
            if other is not None:
                knot.needs[node].add(other)
                knot.feeds[other].add(node)
                if knot.claimed[node] and knot.claimed[other]:
                    knot.joins[node].add(other)
                    knot.joins[other].add(node)
    return knot


def shrink(knot: Knot) -> int:
    """Apply the three facts until none applies near a node that changed.

    Args:
        knot: The graph; changed in place.

    Returns:
        The work done, in edges looked at.
    """
    shrinking = _Shrinking(knot)
    shrinking.run()
    return shrinking.work


class _Shrinking:
    """The nodes still to be looked at, and how to look."""

    def __init__(self, knot: Knot) -> None:
        self.work = 0
        self._knot = knot
        self._queue = deque(range(len(knot.members)))
        self._queued = bytearray(b"\x01") * len(knot.members)
        # Nodes with more neighbours than this are looked at only when they change themselves.
        self._many = 64

    def run(self) -> None:
        knot = self._knot
        limit = 16 * (len(knot.members) + knot.edge_count)
        while self._queue and self.work < limit:
            node = self._queue.popleft()
            self._queued[node] = 0
            self.work += 1
            if not knot.members[node]:
                continue
            if not knot.claimed[node]:
                self._look_at_unclaimed(node)
                continue
            joins = knot.joins[node]
            if len(joins) <= self._many:
                self._separate(node)
            if len(joins) <= 2:  # noqa: PLR2004 (the other end, and at most one more)
                for other in sorted(joins):
                    if self._may_move(node, other):
                        self._contract(other, node)
                        break

    def _separate(self, node: int) -> None:
        """Cut the joins to neighbours with an unclaimed node directly in between."""
        knot = self._knot
        for other in tuple(knot.joins[node]):
            first, last = (node, other) if other in knot.feeds[node] else (other, node)
            feeds, needs = knot.feeds[first], knot.needs[last]
            self.work += 1
            if not feeds.isdisjoint(needs) and self._has_unclaimed(feeds & needs):
                knot.joins[node].discard(other)
                knot.joins[other].discard(node)
                self._look_again((other,))

    def _has_unclaimed(self, nodes: set[int]) -> bool:
        self.work += len(nodes)
        claimed = self._knot.claimed
        return any(not claimed[node] for node in nodes)

    def _may_move(self, node: int, other: int) -> bool:
        """Tell whether ``node`` can change over to the region of its neighbour ``other``."""
        near = self._knot.feeds if other in self._knot.feeds[node] else self._knot.needs
        few, many = near[node], near[other]
        if len(few) - 1 > len(many):
            return False
        self.work += len(few)
        return all(item in many for item in few if item != other)

    def _look_at_unclaimed(self, node: int) -> None:
        knot = self._knot
        feeds, needs = knot.feeds[node], knot.needs[node]
        if not feeds or not needs:
            self._look_again((*feeds, *needs))
            knot.drop(node)
            return
        for near in (feeds, needs):
            if len(near) == 1:
                (other,) = near
                if not knot.claimed[other]:
                    self._contract(other, node)
                    return
        for other in knot.needs[min(feeds)] if len(feeds) <= self._many else ():
            self.work += 1
            if other != node and not knot.claimed[other] and self._is_covered(node, other):
                self._look_again((*feeds, *needs))
                knot.drop(node)
                return

    def _is_covered(self, node: int, other: int) -> bool:
        knot = self._knot
        return knot.feeds[node] <= knot.feeds[other] and knot.needs[node] <= knot.needs[other]

    def _contract(self, first: int, second: int) -> None:
        knot = self._knot
        sizes = [
            len(knot.feeds[node]) + len(knot.needs[node]) + len(knot.joins[node])
            for node in (first, second)
        ]
        kept, gone = (first, second) if sizes[0] >= sizes[1] else (second, first)
        self.work += min(sizes)
        around = (*knot.feeds[gone], *knot.needs[gone], kept)
        knot.contract(kept, gone)
        self._look_again(around)
        if len(knot.joins[kept]) <= self._many:
            self._look_again(knot.joins[kept])

    def _look_again(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            if not self._queued[node]:
                self._queued[node] = 1
                self._queue.append(node)
