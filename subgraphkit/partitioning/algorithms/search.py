"""The best of several attempts at a knot, within a budget.

Which contractions remain possible depends on those made before, and finding the best order is as
hard as the feedback vertex problem. Each systematic order does best on some family of graphs; the
first two are mirror images that suit graphs that fan in and graphs that fan out. After them, the
best order so far is varied by moving a few edges that it left uncut to the front.

How few regions there could be at best is known in part: a component of claimed nodes that a path
leaves and comes back to ``k`` times needs ``k + 1``, since no region may hold nodes from before and
after. Regions lie within components, so the numbers of all components add up.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from subgraphkit.partitioning.algorithms.arrays import Nets
from subgraphkit.partitioning.algorithms.knots import Knot, joined_components
from subgraphkit.partitioning.algorithms.merger import Merger

_Pairs = list[tuple[int, int]]

_Cost = Callable[[Sequence[int]], int]
"""Adds up the bytes cut if the nodes of a knot are labelled with their regions."""

# How often the best order is varied, as far as the budget goes.
_VARIATIONS = 40
# Attempts made for the sake of bytes once the number of regions cannot get smaller.
_TIES = 3


@dataclass(slots=True)
class Division:
    """Connected regions, and how good they are.

    Attributes:
        lower_bound: No partitioning of the same units into connected regions has fewer.
        maximal: Whether it is known that no two neighbouring regions can still be merged.
    """

    regions: list[list[int]] = field(default_factory=list)
    lower_bound: int = 0
    work: int = 0
    maximal: bool = True

    def add(self, part: "Division") -> None:
        """Take in a division of other units that waits on this one or lets it wait."""
        self.regions += part.regions
        self.lower_bound += part.lower_bound
        self.maximal = self.maximal and part.maximal
        self.work += part.work


def search(knot: Knot, cost: _Cost | None, limit: int) -> Division:
    """Try orders of contraction until the bound is met or the budget is spent.

    ``cost``: Decides between partitionings of as many regions; None if nothing does.
    """
    state = _Search(knot, cost, limit)
    for order in _systematic_orders(knot):
        if state.is_done():
            return state.found
        state.attempt(order)
    pairs = claimed_pairs(knot)
    rng = random.Random(len(pairs))  # noqa: S311 (repeatable, no secret)
    for _ in range(_VARIATIONS):
        cut = state.cut_pairs()
        if not cut or state.is_done():
            break
        front = dict.fromkeys(cut[rng.randrange(len(cut))] for _ in range(rng.randint(1, 3)))
        state.attempt([*front, *(pair for pair in state.order if pair not in front)])
    return state.found


class _Search:
    """The best so far.

    Attributes:
        order: The order that gave it; later ones win ties, so that the search can wander.
    """

    def __init__(self, knot: Knot, cost: _Cost | None, limit: int) -> None:
        self.found = Division(
            lower_bound=_connected_bound(knot, 4 * (len(knot.members) + knot.edge_count))
        )
        self.order: _Pairs = []
        self._knot = knot
        self._cost = cost
        self._limit = limit
        self._labels: list[int] = []
        self._best: tuple[int, int, int] | None = None
        self._longest = 0
        self._attempts = 0

    def is_done(self) -> bool:
        """Tell whether another attempt is pointless or too dear."""
        if self._best is None:
            return False
        met = self._best[0] <= self.found.lower_bound
        if met and (self._cost is None or self._attempts >= _TIES):
            return True
        return self.found.work + self._longest > self._limit

    def cut_pairs(self) -> _Pairs:
        """List the pairs that the order at hand left in different regions."""
        labels = self._labels
        return [pair for pair in self.order if labels[pair[0]] != labels[pair[1]]]

    def attempt(self, order: _Pairs) -> None:
        """Contract in one order and keep the result if it is the best so far."""
        merger = Merger(self._knot)
        complete = merger.merge_all(order, self._limit - self.found.work)
        self._longest = max(self._longest, merger.work)
        self.found.work += merger.work
        self._attempts += 1
        labels = [merger.find(node) for node in range(len(merger.root))]
        groups = groups_of(self._knot, labels)
        if self._best and len(groups) > self._best[0]:
            return
        self.order, self._labels = order, labels
        squares = sum(len(group) ** 2 for group in groups)
        cost = self._cost(labels) if self._cost else 0
        rank = (len(groups), cost, -squares)
        if self._best is None or rank < self._best:
            self._best = rank
            self.found.regions = groups
            self.found.maximal = complete or len(groups) <= self.found.lower_bound


def groups_of(knot: Knot, labels: Sequence[int]) -> list[list[int]]:
    """Collect the units of the claimed nodes by label."""
    groups: dict[int, list[int]] = {}
    for node, label in enumerate(labels):
        if knot.claimed[node]:
            groups.setdefault(label, []).extend(knot.members[node])
    return list(groups.values())


def cost_within(nets: Nets, knot: Knot) -> _Cost:
    """Make a function that adds up the bytes that a labelling of the knot's nodes cuts."""
    node_of = {unit: node for node, units in enumerate(knot.members) for unit in units}
    rows: list[tuple[int, int, list[int]]] = []
    for unit, node in node_of.items():
        for net in nets.made_by(unit):
            sinks = {node_of[reader] for reader in nets.readers(net) if reader in node_of}
            sinks.discard(node)
            if sinks:
                rows.append((node, nets.bytes_[net] + 1, sorted(sinks)))

    def cost(labels: Sequence[int]) -> int:
        total = 0
        for node, size, sinks in rows:
            if len(sinks) == 1:
                total += size * (labels[sinks[0]] != labels[node])
            else:
                total += size * len({labels[sink] for sink in sinks} - {labels[node]})
        return total

    return cost


def claimed_pairs(knot: Knot) -> _Pairs:
    """List the neighbours that could share a region, producer first, ascending."""
    return [
        (node, other)
        for node, others in enumerate(knot.joins)
        for other in sorted(others)
        if other > node
    ]


def _systematic_orders(knot: Knot) -> Iterator[_Pairs]:
    """Yield the claimed pairs of a knot in one order after the other, most promising first."""
    pairs = claimed_pairs(knot)
    latest = _latest(knot)
    backwards = pairs[::-1]
    # Sorting is stable, so that pairs of equal rank stay in the order they come in.
    yield sorted(backwards, key=lambda pair: (-latest[pair[0]], -latest[pair[1]]))
    earliest = _earliest(knot)
    forwards = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    yield sorted(forwards, key=lambda pair: (earliest[pair[1]], earliest[pair[0]]))
    yield backwards
    degree = [len(joins) for joins in knot.joins]
    yield sorted(backwards, key=lambda pair: min(degree[pair[0]], degree[pair[1]]))
    yield forwards
    yield sorted(backwards, key=lambda pair: latest[pair[1]] - latest[pair[0]])
    yield sorted(forwards, key=lambda pair: earliest[pair[1]] - earliest[pair[0]])


def _earliest(knot: Knot) -> list[int]:
    """Count, for each node, the most runs of claimed nodes on a way that ends in it."""
    return _runs(range(len(knot.members)), knot.needs, knot.claimed)


def _latest(knot: Knot) -> list[int]:
    """Count likewise for ways that start in a node, as negative numbers."""
    runs = _runs(range(len(knot.members) - 1, -1, -1), knot.feeds, knot.claimed)
    return [-run for run in runs]


def _runs(nodes: Sequence[int], rows: Sequence[set[int]], claimed: bytearray) -> list[int]:
    runs = [0] * len(rows)
    for node in nodes:
        most = here = claimed[node]
        for other in rows[node]:
            run = runs[other] + (here and not claimed[other])
            if run > most:  # noqa: PLR1730 (a call costs more here)
                most = run
        runs[node] = most
    return runs


def _connected_bound(knot: Knot, limit: int) -> int:
    """Return a lower bound on the number of connected regions of the knot."""
    components: dict[int, list[int]] = {}
    for node, home in enumerate(joined_components(knot)):
        if knot.claimed[node]:
            components.setdefault(home, []).append(node)
    bound = 0
    for nodes in components.values():
        if len(nodes) == 1 or limit <= 0:
            bound += 1
        else:
            returns, work = _count_runs(knot, nodes)
            bound += returns
            limit -= work
    return bound


def _count_runs(knot: Knot, nodes: list[int]) -> tuple[int, int]:
    """Return the most runs of ``nodes`` on one path, and the edges looked at."""
    first, last = min(nodes), max(nodes)
    inside = bytearray(last - first + 1)
    for node in nodes:
        inside[node - first] = 1
    runs = [0] * len(inside)
    work = len(inside)
    for place, here in enumerate(inside):
        needs = knot.needs[first + place]
        work += len(needs)
        most = 0
        for other in needs:
            if other >= first:
                run = runs[other - first]
                if here and run and not inside[other - first]:
                    run += 1
                if run > most:  # noqa: PLR1730 (a call costs more here)
                    most = run
        runs[place] = most or here
    return max(runs), work
