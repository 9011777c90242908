"""Few regions where every region must hang together.

Finding the fewest is NP-hard, so the work is staged: whole components where that is best, then
exact reductions, then, for the knots that are left, the best of several greedy attempts within a
budget of edges looked at (never of seconds, so that the result does not depend on the machine).
Every stage keeps the quotient free of cycles.
"""

from subgraphkit.ir import Adjacency
from subgraphkit.lazy import cached_property, collector_paused
from subgraphkit.partitioning.algorithms.components import claimed_components, find_knots
from subgraphkit.partitioning.algorithms.knots import make_knot, unknot
from subgraphkit.partitioning.algorithms.levels import level_bound
from subgraphkit.partitioning.algorithms.nets import Nets
from subgraphkit.partitioning.algorithms.peers import leaving_places, peer_regions
from subgraphkit.partitioning.algorithms.quotient import run_order
from subgraphkit.partitioning.algorithms.search import Division, cost_within, search

__all__ = ["connected_regions"]

# What the peers would find is worked out only where the budget is this large per unit and edge.
_PEERS_FROM = 16


def _default_work_limit(adjacency: Adjacency) -> int:
    """Return the edges to look at while improving a result.

    50 per unit and edge up to some 35,000 of them; beyond, 8 for each further one, which is enough
    for the two most promising attempts.
    """
    size = adjacency.count + len(adjacency.preds)
    return 20_000 + min(50 * size, 8 * size + 1_500_000)


@collector_paused()
def connected_regions(
    adjacency: Adjacency,
    eligible: bytearray,
    nets: Nets | None = None,
    *,
    work_limit: int | None = None,
) -> Division:
    """Partition the eligible units into few weakly connected regions.

    Args:
        adjacency: The graph, numbered topologically. Regions claimed before are units of it.
        eligible: 1 for every unit that may be claimed.
        nets: Values with their sizes; between results of as many regions the one that cuts fewer
            bytes is kept.
        work_limit: Edges to look at while improving the result; None for enough. The exact stages
            are near-linear and always run to their end.

    Returns:
        The regions in an order in which they can run, each ascending.
    """
    home = claimed_components(adjacency, eligible)
    knots = find_knots(adjacency, home) if not all(eligible) else []
    whole = _whole_components(eligible, home, knots)
    found = Division(whole, len(whole), adjacency.count + len(adjacency.preds))
    limit = _default_work_limit(adjacency) if work_limit is None else work_limit
    size = sum(map(len, knots))
    solving = _Solving(adjacency, eligible, nets)
    for units in knots:
        found.add(solving.solve(units, limit * len(units) // size))
    if found.lower_bound < len(found.regions):
        found.lower_bound = max(found.lower_bound, level_bound(adjacency, eligible))
    found.regions = [sorted(region) for region in found.regions]
    if knots:
        order = run_order(adjacency, found.regions)
        found.regions = [found.regions[index] for index in order]
    found.maximal = found.maximal or found.lower_bound == len(found.regions)
    return found


def _whole_components(
    eligible: bytearray, home: list[int], knots: list[list[int]]
) -> list[list[int]]:
    """Collect the components that lie in no knot."""
    free = bytearray(eligible)
    for units in knots:
        for unit in units:
            free[unit] = 0
    components: dict[int, list[int]] = {}
    for unit, wanted in enumerate(free):
        if wanted:
            components.setdefault(home[unit], []).append(unit)
    return list(components.values())


class _Solving:
    """Partitions one knot after the other."""

    def __init__(self, adjacency: Adjacency, eligible: bytearray, nets: Nets | None) -> None:
        self._adjacency = adjacency
        self._eligible = eligible
        self._nets = nets

    @cached_property
    def _places(self) -> list[int]:
        return leaving_places(self._adjacency)

    def solve(self, units: list[int], limit: int) -> Division:
        """Partition the knot of ``units``, looking at some ``limit`` edges."""
        knot = make_knot(self._adjacency, self._eligible, units)
        with_peers = limit >= _PEERS_FROM * (len(units) + knot.edge_count)
        left = unknot(knot)
        found = Division(left.regions, len(left.regions), left.work)
        size = sum(len(knot.members) for knot in left.knots) * (1 + with_peers)
        for knot in left.knots:
            cost = None if self._nets is None else cost_within(self._nets, knot)
            found.add(search(knot, cost, limit * len(knot.members) // size))
        if found.lower_bound < len(found.regions) and with_peers:
            knot = make_knot(self._adjacency, self._eligible, units)
            peers = peer_regions(knot, self._places, limit // 2)
            found.work += peers.work
            if 0 < len(peers.regions) < len(found.regions):
                found.regions, found.maximal = peers.regions, peers.maximal
        return found
