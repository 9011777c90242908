"""The last check of every partitioning, in linear time and from first principles.

It shares no code with the algorithms it checks: a mistake there must not hide itself here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.quotient import cycle_path

__all__ = ["Violation", "find_violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise of a partitioning.

    Attributes:
        kind: ``"unassigned"`` (a unit has no region, or a number that is none), ``"empty"`` (a
            region without units), ``"cycle"`` (regions wait on each other) or ``"disconnected"``
            (a region that should hang together does not).
        regions: The regions concerned.
        path: The units that show it. For a cycle: even positions lead by an edge to the next
            position, odd positions and what follows lie in one region. For a disconnected region:
            two units that no chain of edges inside the region joins.
    """

    kind: Literal["unassigned", "empty", "cycle", "disconnected"]
    regions: tuple[int, ...]
    path: tuple[int, ...]


def find_violation(
    adjacency: Adjacency, region_of: Sequence[int], region_count: int, connected: Sequence[bool]
) -> Violation | None:
    """Check that the regions are a partition, can run one after the other, and hang together.

    That every region is convex follows from the quotient having no cycle.

    Args:
        adjacency: The graph of units; its numbering does not matter.
        region_of: For each unit its region, in ``range(region_count)``.
        region_count: Number of regions.
        connected: For each region whether it was promised to be weakly connected.

    Returns:
        The first broken promise found, or None.
    """
    if len(region_of) != adjacency.count:
        return Violation("unassigned", (), (min(len(region_of), adjacency.count),))
    home = np.asarray(region_of, dtype=np.int64)
    outside = np.flatnonzero((home < 0) | (home >= region_count))
    if len(outside):
        return Violation("unassigned", (int(home[outside[0]]),), (int(outside[0]),))
    empty = np.flatnonzero(np.bincount(home, minlength=region_count) == 0)
    if len(empty):
        return Violation("empty", (int(empty[0]),), ())
    return _find_cycle(adjacency, home, region_count) or _find_gap(
        adjacency, region_of, region_count, connected
    )


def _find_cycle(adjacency: Adjacency, home: npt.NDArray[np.int64], count: int) -> Violation | None:
    widths = np.diff(np.asarray(adjacency.pred_start))
    target = home[np.repeat(np.arange(adjacency.count), widths)]
    source = home[np.asarray(adjacency.preds, dtype=np.int64)]
    # One entry per pair of regions, sorted by the region waited for.
    edges = np.unique((source * count + target)[source != target])
    source, target = np.divmod(edges, max(count, 1))
    waiting = np.bincount(target, minlength=count).tolist()
    start = np.searchsorted(source, np.arange(count + 1)).tolist()
    targets = target.tolist()
    ready = [region for region, edges_in in enumerate(waiting) if not edges_in]
    done = 0
    while ready:
        region = ready.pop()
        done += 1
        for other in targets[start[region] : start[region + 1]]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    if done == count:
        return None
    region_of = home.tolist()
    path = cycle_path(adjacency, region_of, waiting)
    return Violation("cycle", tuple(dict.fromkeys(region_of[unit] for unit in path)), tuple(path))


def _find_gap(
    adjacency: Adjacency,
    region_of: Sequence[int],
    region_count: int,
    connected: Sequence[bool],
) -> Violation | None:
    if not any(connected):
        return None
    members: list[list[int]] = [[] for _ in range(region_count)]
    for unit, region in enumerate(region_of):
        members[region].append(unit)
    reached = bytearray(adjacency.count)
    for region, units in enumerate(members):
        if len(units) == 1 or not connected[region]:
            continue
        _reach(adjacency, region_of, units[0], reached)
        for unit in units:
            if not reached[unit]:
                return Violation("disconnected", (region,), (units[0], unit))
    return None


def _reach(adjacency: Adjacency, region_of: Sequence[int], origin: int, reached: bytearray) -> None:
    """Mark all units of a region that edges inside it join to ``origin``."""
    reached[origin] = 1
    stack = [origin]
    while stack:
        unit = stack.pop()
        for other in (*adjacency.predecessors(unit), *adjacency.successors(unit)):
            if region_of[other] == region_of[origin] and not reached[other]:
                reached[other] = 1
                stack.append(other)
