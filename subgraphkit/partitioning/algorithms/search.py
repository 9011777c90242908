"""The best of several attempts at a knot, within a budget."""

import random
from collections.abc import Callable, Sequence

from subgraphkit.partitioning.algorithms.attempts import Pairs, claimed_pairs, systematic_orders
from subgraphkit.partitioning.algorithms.bounds import connected_bound
from subgraphkit.partitioning.algorithms.knots import Knot
from subgraphkit.partitioning.algorithms.merger import Merging
from subgraphkit.partitioning.algorithms.nets import Nets
from subgraphkit.partitioning.algorithms.peers import grow_like_mxnet, merge_like_tensorflow

__all__ = ["Cost", "cost_within", "peer_regions", "search"]

Cost = Callable[[Sequence[int]], int]
"""Adds up the bytes cut if the nodes of a knot are labelled with their regions."""

# How often the best order is varied, as far as the budget goes.
_VARIATIONS = 40
# Attempts made for the sake of bytes once the number of regions cannot get smaller.
_TIES = 3


class Found:
    """A partitioning of a knot.

    Attributes:
        regions: Sets of units.
        maximal: Whether no two neighbouring regions can be merged.
        bound: No partitioning of the knot into connected regions has fewer.
        work: Edges looked at to find it.
    """

    __slots__ = ("bound", "maximal", "regions", "work")

    def __init__(self, bound: int) -> None:
        self.regions: list[list[int]] = []
        self.maximal = False
        self.bound = bound
        self.work = 0


def search(knot: Knot, cost: Cost | None, limit: int) -> Found:
    """Try orders of contraction until the bound is met or the budget is spent.

    Args:
        knot: The knot, numbered topologically.
        cost: Decides between partitionings of as many regions; None if nothing does.
        limit: Edges to look at. The first attempt is cut short only if it alone exceeds that.
    """
    state = _Search(knot, cost, limit)
    for order in systematic_orders(knot):
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

    def __init__(self, knot: Knot, cost: Cost | None, limit: int) -> None:
        self.found = Found(connected_bound(knot, 4 * (len(knot.members) + knot.edge_count)))
        self.order: Pairs = []
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
        met = self._best[0] <= self.found.bound
        if met and (self._cost is None or self._attempts >= _TIES):
            return True
        return self.found.work + self._longest > self._limit

    def cut_pairs(self) -> Pairs:
        """List the pairs that the order at hand left in different regions."""
        labels = self._labels
        return [pair for pair in self.order if labels[pair[0]] != labels[pair[1]]]

    def attempt(self, order: Pairs) -> None:
        """Contract in one order and keep the result if it is the best so far."""
        merging = Merging(self._knot)
        complete = merging.merge_all(order, self._limit - self.found.work)
        self._longest = max(self._longest, merging.work)
        self.found.work += merging.work
        self._attempts += 1
        labels = [merging.find(node) for node in range(len(merging.root))]
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
            self.found.maximal = complete or len(groups) <= self.found.bound


def groups_of(knot: Knot, labels: Sequence[int]) -> list[list[int]]:
    """Collect the units of the claimed nodes by label."""
    groups: dict[int, list[int]] = {}
    for node, label in enumerate(labels):
        if knot.claimed[node]:
            groups.setdefault(label, []).extend(knot.members[node])
    return list(groups.values())


def cost_within(nets: Nets, knot: Knot) -> Cost:
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


def peer_regions(knot: Knot, places: Sequence[int], limit: int) -> Found:
    """Return the better of what MXNet and TF-TRT would make of a knot.

    Args:
        knot: A knot in which nothing was contracted, numbered topologically.
        places: What ``leaving_places`` returned for the graph it was cut from.
        limit: Edges to look at; a peer that needs more is left out. ``regions`` is empty if both
            were.
    """
    found = Found(0)
    pairs = claimed_pairs(knot)
    for like_mxnet in (False, True):
        merging = Merging(knot)
        left = limit - found.work
        valid = (
            _merge_like_mxnet(merging, knot, left)
            if like_mxnet
            else merge_like_tensorflow(merging, knot, places, left)
        )
        # Neither peer's result need be maximal; merging further never makes it worse.
        complete = valid and merging.merge_all(pairs, limit - found.work)
        found.work += merging.work
        if valid:
            labels = [merging.find(node) for node in range(len(merging.root))]
            groups = groups_of(knot, labels)
            if not found.regions or len(groups) < len(found.regions):
                found.regions, found.maximal = groups, complete
    return found


def _merge_like_mxnet(merging: Merging, knot: Knot, limit: int) -> bool:
    growth = grow_like_mxnet(knot, limit)
    merging.work += growth.work
    labels = growth.labels
    if labels is None:
        return False
    inside = [pair for pair in claimed_pairs(knot) if labels[pair[0]] == labels[pair[1]]]
    if not merging.merge_all(inside, limit):
        return False
    return all(merging.find(first) == merging.find(last) for first, last in inside)
