"""Few regions where every region must hang together.

Finding the fewest is NP-hard, so the work is staged: whole components where that is best, then
exact reductions, then, for the knots that are left, the best of several greedy attempts within a
budget of edges looked at (never of seconds, so that the result does not depend on the machine).
Every stage keeps the quotient free of cycles.

Where the budget allows, the results that MXNet and TF-TRT would find for a knot are worked out, to
be never worse than either: their rules, with a sound test for cycles in place of theirs. MXNet's
misses cycles through regions made before, so its result counts only if it can run at all.

Source:
    MXNet 1.9.1, ``src/operator/subgraph/build_subgraph.cc`` (``LabelSubgraph``); TensorFlow,
    ``compiler/tf2tensorrt/segment/segment.cc`` (``SegmentGraph``).
"""

from collections.abc import Iterator, Sequence

from subgraphkit.ir import Adjacency
from subgraphkit.lazy import cached_property, collector_paused
from subgraphkit.partitioning.algorithms.arrays import Nets
from subgraphkit.partitioning.algorithms.components import claimed_components, find_knots
from subgraphkit.partitioning.algorithms.knots import Knot, make_knot, unknot
from subgraphkit.partitioning.algorithms.levels import level_bound
from subgraphkit.partitioning.algorithms.merger import MERGED, Merger
from subgraphkit.partitioning.algorithms.quotient import run_order
from subgraphkit.partitioning.algorithms.search import (
    Division,
    claimed_pairs,
    cost_within,
    groups_of,
    search,
)


def peer_regions(knot: Knot, places: Sequence[int], limit: int) -> Division:
    """Return the better of what MXNet and TF-TRT would make of a knot."""
    found = Division()
    pairs = claimed_pairs(knot)
    for like_mxnet in (False, True):
        merger = Merger(knot)
        left = limit - found.work
        valid = (
            _merge_like_mxnet(merger, knot, left)
            if like_mxnet
            else _merge_like_tensorflow(merger, knot, places, left)
        )
        # Neither peer's result need be maximal; merger further never makes it worse.
        complete = valid and merger.merge_all(pairs, limit - found.work)
        found.work += merger.work
        if valid:
            labels = [merger.find(node) for node in range(len(merger.root))]
            groups = groups_of(knot, labels)
            if not found.regions or len(groups) < len(found.regions):
                found.regions, found.maximal = groups, complete
    return found


def _merge_like_mxnet(merger: Merger, knot: Knot, limit: int) -> bool:
    growth = _grow_like_mxnet(knot, limit)
    merger.work += growth.work
    labels = growth.labels
    if labels is None:
        return False
    inside = [pair for pair in claimed_pairs(knot) if labels[pair[0]] == labels[pair[1]]]
    if not merger.merge_all(inside, limit):
        return False
    return all(merger.find(first) == merger.find(last) for first, last in inside)


def leaving_places(adjacency: Adjacency) -> list[int]:
    """Return, for each unit, when a depth-first walk from the sources leaves it."""
    succs, start = adjacency.succs.tolist(), adjacency.succ_start.tolist()
    place = [-1] * adjacency.count
    entered = bytearray(adjacency.count)
    stack = [unit for unit in range(adjacency.count) if not adjacency.predecessors(unit)]
    count = 0
    # A unit is pushed again, as its complement, to be left after all that it feeds.
    while stack:
        unit = stack.pop()
        if unit < 0:
            place[~unit] = count
            count += 1
        elif not entered[unit]:
            entered[unit] = 1
            stack.append(~unit)
            stack += [other for other in succs[start[unit] : start[unit + 1]] if place[other] < 0]
    return place


def _merge_like_tensorflow(merger: Merger, knot: Knot, places: Sequence[int], limit: int) -> bool:
    """Contract a fresh knot in TF-TRT's order.

    Nodes come in the order in which a depth-first walk leaves them; each takes in all claimed
    consumers that it may, over and over.
    """
    for node in sorted(range(len(knot.members)), key=lambda n: places[knot.members[n][0]]):
        while knot.claimed[node] and _take_in_consumers(merger, knot.claimed, node):
            if merger.work > limit:
                return False
    return True


def _take_in_consumers(merger: Merger, claimed: bytearray, node: int) -> bool:
    changed = False
    for other in sorted(merger.feeds[merger.find(node)]):
        # Either end may have been kept when the two last became one.
        first, last = merger.find(node), merger.find(other)
        if claimed[last] and first != last and last in merger.feeds[first]:
            changed = merger.try_merge(first, last) == MERGED or changed
    return changed


def _grow_like_mxnet(knot: Knot, limit: int) -> "_MxnetGrowth":
    """Grow regions of a fresh knot breadth first from each seed, as MXNet does."""
    growth = _MxnetGrowth(knot, limit)
    for seed, claimed in enumerate(knot.claimed):
        if claimed and growth.label[seed] < 0 and not growth.grow(seed):
            break
    return growth


class _MxnetGrowth:
    """Regions as MXNet grows them; they may wait on each other."""

    def __init__(self, knot: Knot, limit: int) -> None:
        self.label = [-1] * len(knot.members)
        self.work = 0
        self._knot = knot
        self._needs = [sorted(row) for row in knot.needs]
        self._feeds = [sorted(row) for row in knot.feeds]
        self._limit = limit
        self._regions = 0

    @property
    def labels(self) -> list[int] | None:
        """For each node its region, or -1; None if MXNet would have failed or the limit was met."""
        if any(claimed and self.label[node] < 0 for node, claimed in enumerate(self._knot.claimed)):
            return None
        return self.label

    def grow(self, seed: int) -> bool:
        """Find the region of a seed, leaving out one node more each time it is not convex."""
        excluded: set[int] = set()
        while self.work < self._limit:
            region, entries, exits = self._reach(seed, excluded)
            worst = self._worst(region, entries, exits)
            if worst < 0:
                for node in region:
                    self.label[node] = self._regions
                self._regions += 1
                return True
            if worst == seed:
                return False
            excluded.add(worst)
        return False

    def _reach(
        self, seed: int, excluded: set[int]
    ) -> tuple[list[int], dict[int, int], dict[int, int]]:
        """Walk from the seed."""
        region = [seed]
        inside = {seed}
        entries: dict[int, int] = {}
        exits: dict[int, int] = {}
        for node in region:
            for border, row in ((entries, self._needs[node]), (exits, self._feeds[node])):
                self.work += len(row)
                for other in row:
                    if self.label[other] >= 0 or other in inside:
                        continue
                    if self._knot.claimed[other] and other not in excluded:
                        inside.add(other)
                        region.append(other)
                    else:
                        border[other] = max(border.get(other, -1), node)
        return region, entries, exits

    def _worst(self, region: list[int], entries: dict[int, int], exits: dict[int, int]) -> int:
        """Return the last node of the region on a way out and back in, or -1."""
        worst = -1
        inside = set(region)
        for entry, last in entries.items():
            for ancestor in self._ancestors(entry, inside, min(exits, default=entry)):
                # MXNet does not follow an exit that is itself an entry any further.
                if ancestor in exits and (ancestor == entry or ancestor not in entries):
                    worst = max(worst, last, exits[ancestor])
        return worst

    def _ancestors(self, node: int, inside: set[int], first: int) -> Iterator[int]:
        seen = {node}
        stack = [node]
        while stack and self.work < self._limit:
            node = stack.pop()
            yield node
            self.work += len(self._needs[node])
            for other in self._needs[node]:
                if other >= first and other not in seen and other not in inside:
                    seen.add(other)
                    stack.append(other)


# -- the stages ------------------------------------------------------------------------------------


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

    ``nets``: Values with their sizes; between results of as many regions the one that cuts fewer
    bytes is kept.
    ``work_limit``: Edges to look at while improving the result; None for enough. The exact stages
    are near-linear and always run to their end.
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
