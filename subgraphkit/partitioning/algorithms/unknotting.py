"""Solve what can be solved of a knot without trying: shrink it, cut it apart, and again.

What is left are knots in which some pair of regions can be had only at the price of another; for
them ``subgraphkit.partitioning.algorithms.merger`` tries several orders.
"""

import heapq

from subgraphkit.partitioning.algorithms.components import strong_components
from subgraphkit.partitioning.algorithms.knots import Knot, shrink

__all__ = ["Unknotting", "joined_components", "unknot"]

# A knot that only loses a little per round is left to merging after this many rounds.
_ROUNDS = 8
# How many nodes to look at when searching for an unclaimed node between two neighbours.
_REACH = 48
# Beyond this many nodes that search costs more than it saves (it took 4 s for 90,000 nodes).
_LARGE = 20_000


class Unknotting:
    """What came of a knot.

    Attributes:
        regions: Sets of units that are regions of some best partitioning.
        knots: What is left, each to be solved on its own.
        work: Edges looked at.
    """

    __slots__ = ("knots", "regions", "work")

    def __init__(self) -> None:
        self.regions: list[list[int]] = []
        self.knots: list[Knot] = []
        self.work = 0


def unknot(knot: Knot) -> Unknotting:
    """Shrink a knot and cut it apart until neither changes anything.

    Args:
        knot: The knot; used up.
    """
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
    """Name, for each node, the weak component of joined nodes it lies in."""
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


_NOTHING: set[int] = set()


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
