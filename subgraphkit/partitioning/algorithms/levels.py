"""The fewest regions when a region need not hang together, in linear time.

The *level* of a unit is the largest number of runs of claimed units on any path that ends in it.
The claimed units of one level form a region, the regions can run in the order of their levels, and
no partitioning has fewer: a path with the largest number of runs holds that many claimed units of
which no two can share a region, because an unclaimed unit lies between them.

Many units may take one of several levels without breaking that. Where sizes of values are given,
they go where fewer bytes cross a border (``subgraphkit.partitioning.algorithms.settling``).

Source:
    K. Kennedy, K. S. McKinley, "Typed fusion with applications to parallel and sequential code
    generation", Rice University CRPC-TR93370, 1994; the case of one type.
"""

from collections.abc import Iterable
from itertools import compress

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.nets import Nets
from subgraphkit.partitioning.algorithms.settling import settle

__all__ = ["earliest_levels", "level_bound", "level_regions", "levels_if"]


def level_regions(
    adjacency: Adjacency, eligible: bytearray, nets: Nets | None = None
) -> list[list[int]]:
    """Partition the eligible units into the fewest regions that can run one after the other.

    Args:
        adjacency: The graph, numbered topologically.
        eligible: 1 for every unit that may be claimed.
        nets: Values with their sizes; None leaves every unit at its earliest level.

    Returns:
        The regions in the order of their levels, each ascending. Their number is
        ``level_bound(adjacency, eligible)``, with or without ``nets``.
    """
    levels, _ = earliest_levels(adjacency, eligible)
    count = max(compress(levels, eligible), default=0)
    if nets is not None and count > 1:
        levels = settle(adjacency, eligible, nets, levels)
    regions: list[list[int]] = [[] for _ in range(count)]
    for unit in compress(range(len(eligible)), eligible):
        regions[levels[unit] - 1].append(unit)
    return regions


def level_bound(adjacency: Adjacency, eligible: bytearray) -> int:
    """Return the number of regions below which no partitioning of the eligible units can go.

    Exact where regions need not hang together; a lower bound where they must.
    """
    levels, _ = earliest_levels(adjacency, eligible)
    return max(compress(levels, eligible), default=0)


def levels_if(adjacency: Adjacency, eligible: bytearray, also_eligible: Iterable[int]) -> int:
    """Return the ``level_bound`` there would be if more units were eligible.

    Asked once per operator type, it tells what supporting the operator would be worth.

    Args:
        adjacency: The graph, numbered topologically.
        eligible: 1 for every unit that may be claimed; not changed.
        also_eligible: Units to count as eligible besides.
    """
    more = bytearray(eligible)
    for unit in also_eligible:
        more[unit] = 1
    return level_bound(adjacency, more)


def earliest_levels(adjacency: Adjacency, eligible: bytearray) -> tuple[list[int], list[int]]:
    """Compute for each unit the earliest level its consumers can run at.

    Returns:
        ``(inner, outer)``: the level of an eligible consumer and of an ineligible one's eligible
        consumer. For an eligible unit ``inner`` is its own level and ``outer`` one more; for an
        ineligible unit both are the same. Levels count from 1.
    """
    inner: list[int] = []
    outer: list[int] = []
    preds = adjacency.preds.tolist()
    ends = adjacency.pred_start.tolist()
    start = 0
    for claimed, end in zip(eligible, ends[1:], strict=True):
        level = 1
        for pred in preds[start:end]:
            candidate = inner[pred] if claimed else outer[pred]
            if candidate > level:  # noqa: PLR1730 (a call costs more here)
                level = candidate
        inner.append(level)
        outer.append(level + claimed)
        start = end
    return inner, outer
