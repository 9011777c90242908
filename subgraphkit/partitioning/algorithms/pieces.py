"""Pieces of a region that is too large, cut where the fewest bytes are alive."""

from array import array
from collections import deque
from itertools import pairwise

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.arrays import Nets
from subgraphkit.partitioning.algorithms.components import weak_components

__all__ = ["split_to_size"]

# Larger than any sum of bytes: one part fewer outweighs them all.
_PART = 1 << 80


def split_to_size(
    adjacency: Adjacency,
    region: list[int],
    max_nodes: int,
    nets: Nets | None = None,
    *,
    connected: bool = False,
) -> list[list[int]]:
    """Cut the order of a region into the fewest parts of at most ``max_nodes`` units.

    Among the ways to cut it into that many, one is taken for which the bytes of values that are
    alive at the cuts are fewest. The parts can run one after the other in place of the region,
    because they are slices of a topological order.

    Args:
        adjacency: The graph, numbered topologically.
        region: Units of one convex region, ascending.
        max_nodes: Largest number of units of a part, at least 1.
        nets: Values with their sizes; None takes every unit for one value of equal size.
        connected: Whether to divide parts that do not hang together.

    Returns:
        The parts in an order in which they can run, each ascending.
    """
    if len(region) <= max_nodes:
        parts = [region]
    else:
        live = _live_bytes(adjacency, region, nets)
        cuts = _best_cuts(live, max_nodes)
        parts = [region[start:end] for start, end in pairwise(cuts)]
    if connected:
        return [piece for part in parts for piece in weak_components(adjacency, part)]
    return parts


def _live_bytes(adjacency: Adjacency, region: list[int], nets: Nets | None) -> list[int]:
    """Return, for each place in the order, the bytes alive just before it."""
    place = {unit: position for position, unit in enumerate(region)}
    change = [0] * (len(region) + 1)
    for position, unit in enumerate(region):
        if nets is None:
            values = [(1, adjacency.successors(unit))]
        else:
            values = [(nets.bytes_[net] + 1, nets.readers(net)) for net in nets.made_by(unit)]
        for size, readers in values:
            last = max((place.get(reader, 0) for reader in readers), default=0)
            if last > position:
                change[position + 1] += size
                change[last + 1] -= size
    live = 0
    for position, step in enumerate(change):
        live += step
        change[position] = live
    return change


def _best_cuts(live: list[int], most: int) -> list[int]:
    """Choose places to cut, the ends included, at most ``most`` apart, with the fewest bytes."""
    count = len(live) - 1
    cost = [0] * (count + 1)
    previous = array("q", bytes(8 * (count + 1)))
    # Places to cut before, cheapest first; a place behind that is no dearer displaces others.
    window: deque[int] = deque([0])
    for end in range(1, count + 1):
        while window[0] < end - most:
            window.popleft()
        previous[end] = window[0]
        cost[end] = cost[window[0]] + _PART + live[end]
        while window and cost[window[-1]] >= cost[end]:
            window.pop()
        window.append(end)
    cuts = [count]
    while cuts[-1]:
        cuts.append(previous[cuts[-1]])
    return cuts[::-1]
