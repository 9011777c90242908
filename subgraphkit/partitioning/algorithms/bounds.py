"""How few connected regions a knot could have at best.

A component of claimed nodes that a path leaves and comes back to ``k`` times needs ``k + 1``
regions, since no region may hold nodes from before and after. Regions lie within components, so the
numbers of all components add up.
"""

from subgraphkit.partitioning.algorithms.knots import Knot
from subgraphkit.partitioning.algorithms.unknotting import joined_components

__all__ = ["connected_bound"]


def connected_bound(knot: Knot, limit: int) -> int:
    """Return a number of regions below which no partitioning of the knot into connected ones goes.

    Args:
        knot: The knot, numbered topologically.
        limit: Edges to look at. Components left over then count as one region.
    """
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
