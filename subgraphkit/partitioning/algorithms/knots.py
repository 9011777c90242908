"""Knots, and their reduction without search: shrink one, cut it apart, and again.

Three facts shrink a knot without losing any best partitioning; none needs a search.

* *Safe contraction.* Two claimed neighbours may be contracted if the end that moves has at most one
  other neighbour it could share a region with, and moving it adds no new way through the other:
  what it feeds, the other feeds too (or what feeds it, feeds the other too).
* *Separated neighbours.* If an unclaimed node lies on a path from one claimed neighbour to the
  other, the two can never share a region; the edge no longer joins them.
* *Unclaimed nodes* matter only as paths, so they may be contracted among themselves where that adds
  no path, and dropped where another one has all of their edges.

With edges gone, a knot may fall apart into whole components and smaller knots. What is left are
knots in which some pair of regions can be had only at the price of another; for them
``subgraphkit.partitioning.algorithms.search`` tries several orders.

Source:
    Coarsening that keeps a graph acyclic: J. Herrmann, M. Y. Ozkaya, B. Ucar, K. Kaya,
    U. V. Catalyurek, "Multilevel algorithms for acyclic partitioning of directed acyclic graphs",
    SIAM J. Sci. Comput. 41(4), 2019. The conditions here are our own and are proved by exchange:
    in any best partitioning the moved end can change over to its neighbour's region.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.components import strong_components

# A knot that only loses a little per round is left to merging after this many rounds.
_ROUNDS = 8
# How many nodes to look at when searching for an unclaimed node between two neighbours.
_REACH = 48
# Beyond this many nodes that search costs more than it saves (it took 4 s for 90,000 nodes).
_LARGE = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Knot:
    """A graph of nodes, each a set of units that belong together, numbered topologically.

    Attributes:
        members: For each node its units; empty for a node contracted into another.
        feeds: For each node the nodes that read from it.
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
    """Move the edges of ``gone`` to ``kept``; one between the two goes."""
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

    ``knot``: The graph; changed in place.
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


@dataclass(slots=True)
class Unknotting:
    """The regions and smaller knots that a knot was solved into.

    Attributes:
        regions: Sets of units that are regions of some best partitioning.
        knots: What is left, each to be solved on its own.
    """

    regions: list[list[int]] = field(default_factory=list)
    knots: list[Knot] = field(default_factory=list)
    work: int = 0


def unknot(knot: Knot) -> Unknotting:
    """Shrink a knot and cut it apart until neither changes anything."""
    outcome = Unknotting()
    stack = [(knot, 0)]
    while stack:
        knot, rounds = stack.pop()
        outcome.work += shrink(knot) + knot.edge_count
        regions, knots = _cut_apart(knot)
        outcome.regions += regions
        for part in knots:
            whole = not regions and len(knots) == 1
            separated = whole and _separate_far(part, outcome)
            if rounds < _ROUNDS and (separated or not whole):
                stack.append((part, rounds + 1))
            else:
                outcome.knots.append(part)
    return outcome


def _cut_apart(knot: Knot) -> tuple[list[list[int]], list[Knot]]:
    """Split a knot into regions that can be taken whole and smaller knots."""
    home = joined_components(knot)
    number: dict[int, int] = {}
    groups: list[list[int]] = []
    for node, units in enumerate(knot.members):
        if units:
            group = number.setdefault(home[node], len(number))
            if group == len(groups):
                groups.append([])
            groups[group].append(node)
    rows = [
        [
            number[home[other]]
            for node in group
            for other in knot.feeds[node]
            if home[other] != home[node]
        ]
        for group in groups
    ]
    component = strong_components(rows)
    parts: dict[int, list[int]] = {}
    for group, part in enumerate(component):
        parts.setdefault(part, []).append(group)
    regions, knots = [], []
    for tied in parts.values():
        if len(tied) > 1:
            knots.append(_extract(knot, [node for group in tied for node in groups[group]]))
        elif knot.claimed[groups[tied[0]][0]]:
            regions.append([unit for node in groups[tied[0]] for unit in knot.members[node]])
    return regions, knots


def joined_components(knot: Knot) -> list[int]:
    """Name, for each node, the weak component of joined nodes it is in."""
    home = [-1] * len(knot.members)
    for origin in range(len(home)):
        if home[origin] >= 0:
            continue
        home[origin] = origin
        stack = [origin]
        while stack:
            for other in knot.joins[stack.pop()]:
                if home[other] < 0:
                    home[other] = origin
                    stack.append(other)
    return home


def _extract(knot: Knot, nodes: list[int]) -> Knot:
    """Cut out the graph of ``nodes`` and number it topologically."""
    inside = set(nodes)
    waiting = {node: sum(other in inside for other in knot.needs[node]) for node in nodes}
    ready = [node for node in sorted(nodes) if not waiting[node]]
    number: dict[int, int] = {}
    while ready:
        node = heapq.heappop(ready)
        number[node] = len(number)
        for other in knot.feeds[node]:
            if other in inside:
                waiting[other] -= 1
                if not waiting[other]:
                    heapq.heappush(ready, other)

    def rename(rows: list[set[int]]) -> list[set[int]]:
        renamed = []
        for node in number:
            renamed.append({number[other] for other in sorted(rows[node]) if other in inside})
            # Nobody reads the old row again, and two copies of a large knot are a gigabyte.
            rows[node] = _NOTHING
        return renamed

    return Knot(
        members=[knot.members[node] for node in number],
        claimed=bytearray(knot.claimed[node] for node in number),
        feeds=rename(knot.feeds),
        needs=rename(knot.needs),
        joins=rename(knot.joins),
    )


def _separate_far(knot: Knot, outcome: Unknotting) -> bool:
    """Cut the joins between neighbours with an unclaimed node on a longer way between them."""
    found = False
    if len(knot.members) > _LARGE:
        return found
    for node in range(len(knot.members)):
        for other in sorted(knot.joins[node]):
            if other > node and _lies_between(knot, node, other, outcome):
                knot.joins[node].discard(other)
                knot.joins[other].discard(node)
                found = True
    return found


def _lies_between(knot: Knot, first: int, last: int, outcome: Unknotting) -> bool:
    """Tell whether a way from ``first`` to ``last`` over an unclaimed node is easy to find."""
    # Nodes from which ``last`` is reached, with whether an unclaimed one lies on the way.
    seen = {node: not knot.claimed[node] for node in knot.needs[last] if node > first}
    stack = sorted(seen)
    while stack and len(seen) < _REACH:
        node = stack.pop()
        outside = seen[node]
        needs = knot.needs[node]
        if outside and first in needs:
            return True
        outcome.work += len(needs)
        for other in needs:
            flag = outside or not knot.claimed[other]
            if other > first and seen.get(other, -1) < flag:
                seen[other] = flag
                stack.append(other)
    return False
