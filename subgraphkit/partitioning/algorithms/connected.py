"""As few regions as possible when every region must hang together.

Finding the fewest is NP-hard, so the work is staged: whole components where that is best, then
exact reductions, then, for the knots that are left, the best of several greedy attempts within a
budget of edges looked at (never of seconds, so that the result does not depend on the machine).
Every stage keeps the quotient free of cycles.
"""

from dataclasses import dataclass
from functools import cached_property

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.components import claimed_components, find_knots
from subgraphkit.partitioning.algorithms.knots import make_knot
from subgraphkit.partitioning.algorithms.levels import level_bound
from subgraphkit.partitioning.algorithms.nets import Nets
from subgraphkit.partitioning.algorithms.pausing import collector_paused
from subgraphkit.partitioning.algorithms.peers import leaving_places
from subgraphkit.partitioning.algorithms.quotient import run_order
from subgraphkit.partitioning.algorithms.search import cost_within, peer_regions, search
from subgraphkit.partitioning.algorithms.unknotting import unknot

__all__ = ["ConnectedResult", "connected_regions", "default_work_limit"]

# What the peers would find is worked out only where the budget is this large per unit and edge.
_PEERS_FROM = 16


@dataclass(frozen=True, slots=True)
class ConnectedResult:
    """Connected regions, and how good they are.

    Attributes:
        regions: The regions in an order in which they can run, each ascending.
        maximal: Whether it is known that no two neighbouring regions can still be merged.
        visits: Edges looked at.
        lower_bound: A number of regions below which no such partitioning can go.
    """

    regions: list[list[int]]
    maximal: bool
    visits: int
    lower_bound: int


def default_work_limit(adjacency: Adjacency) -> int:
    """Return the edges to look at while improving a result.

    50 per unit and edge up to some 35,000 of them; beyond, 8 for each further one, which is enough
    for the two most promising attempts.
    """
    size = adjacency.count + len(adjacency.preds)
    return 20_000 + min(50 * size, 8 * size + 1_500_000)


def connected_regions(
    adjacency: Adjacency,
    eligible: bytearray,
    nets: Nets | None = None,
    *,
    work_limit: int | None = None,
) -> ConnectedResult:
    """Partition the eligible units into few weakly connected regions.

    Args:
        adjacency: The graph, numbered topologically. Regions claimed before are units of it.
        eligible: 1 for every unit that may be claimed.
        nets: Values with their sizes; between results of as many regions the one that cuts fewer
            bytes is kept.
        work_limit: Edges to look at while improving the result, ``default_work_limit`` if None. The
            exact stages are near-linear and always run to their end.
    """
    with collector_paused():
        return _partition(adjacency, eligible, nets, work_limit)


def _partition(
    adjacency: Adjacency, eligible: bytearray, nets: Nets | None, work_limit: int | None
) -> ConnectedResult:
    home = claimed_components(adjacency, eligible)
    knots = find_knots(adjacency, home) if not all(eligible) else []
    regions = _whole_components(eligible, home, knots)
    bound = len(regions)
    maximal = True
    visits = adjacency.count + len(adjacency.preds)
    limit = default_work_limit(adjacency) if work_limit is None else work_limit
    size = sum(map(len, knots))
    solving = _Solving(adjacency, eligible, nets)
    for units in knots:
        solution = solving.solve(units, limit * len(units) // size)
        regions += solution.regions
        bound += solution.lower_bound
        maximal = maximal and solution.maximal
        visits += solution.visits
    if bound < len(regions):
        bound = max(bound, level_bound(adjacency, eligible))
    regions = [sorted(region) for region in regions]
    if knots:
        regions = [regions[index] for index in run_order(adjacency, regions)]
    return ConnectedResult(regions, maximal or bound == len(regions), visits, bound)


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

    def solve(self, units: list[int], limit: int) -> ConnectedResult:
        """Partition the knot of ``units``, looking at some ``limit`` edges."""
        knot = make_knot(self._adjacency, self._eligible, units)
        with_peers = limit >= _PEERS_FROM * (len(units) + knot.edge_count)
        outcome = unknot(knot)
        regions, bound, work = outcome.regions, len(outcome.regions), outcome.work
        maximal = True
        size = sum(len(knot.members) for knot in outcome.knots) * (1 + with_peers)
        for knot in outcome.knots:
            cost = None if self._nets is None else cost_within(self._nets, knot)
            found = search(knot, cost, limit * len(knot.members) // size)
            regions += found.regions
            bound += found.bound
            maximal = maximal and found.maximal
            work += found.work
        if bound < len(regions) and with_peers:
            knot = make_knot(self._adjacency, self._eligible, units)
            peers = peer_regions(knot, self._places, limit // 2)
            work += peers.work
            if 0 < len(peers.regions) < len(regions):
                regions, maximal = peers.regions, peers.maximal
        return ConnectedResult(regions, maximal, work, bound)
