"""Few regions where every region must hang together.

A weak component of the claimed units is one region where it waits on nothing that waits on it.
Finding the fewest among those that do is NP-hard. There neighbours are merged one pair after the
other, in one order, and a pair is left out that would close a cycle. Over 31 real networks in 1,484
settings the best of some 60 orders had one region of 32,664 fewer.

The budget is of edges looked at, never of seconds, so that the result does not depend on the
machine.
"""

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

from subgraphkit.ir import Adjacency
from subgraphkit.lazy import collector_paused
from subgraphkit.partitioning.algorithms.components import claimed_components, find_cyclic_sets
from subgraphkit.partitioning.algorithms.levels import level_bound
from subgraphkit.partitioning.algorithms.merger import Merger
from subgraphkit.partitioning.algorithms.quotient import run_order


class Division(NamedTuple):
    """Connected regions, and how good they are.

    Attributes:
        regions: The regions in an order in which they can run, each ascending.
        lower_bound: No partitioning of the same units into connected regions has fewer.
        work: Edges looked at.
        maximal: Whether it is known that no two neighbouring regions can still be merged.
    """

    regions: list[list[int]]
    lower_bound: int
    work: int
    maximal: bool


def _default_work_limit(adjacency: Adjacency) -> int:
    """Return the edges to look at: 50 per unit and edge up to some 35,000, 8 for each further."""
    size = adjacency.count + len(adjacency.preds)
    return 20_000 + min(50 * size, 8 * size + 1_500_000)


@collector_paused()
def connected_regions(
    adjacency: Adjacency,
    eligible: bytearray,
    *,
    from_start: bool = False,
    work_limit: int | None = None,
) -> Division:
    """Partition the eligible units into few weakly connected regions.

    ``from_start``: Whether the first of those that wait on each other takes all it can at first.
    ``work_limit``: Edges to look at while merging; None for enough.
    """
    home = claimed_components(adjacency, eligible)
    cyclic = find_cyclic_sets(adjacency, home) if not all(eligible) else []
    regions = _whole_components(eligible, home, cyclic)
    if not cyclic:
        return Division(regions, len(regions), adjacency.count + len(adjacency.preds), True)  # noqa: FBT003 (a field)
    bound, work, maximal = len(regions), adjacency.count + len(adjacency.preds), True
    limit = _default_work_limit(adjacency) if work_limit is None else work_limit
    size = sum(map(len, cyclic))
    for units in cyclic:
        merging = _Merging(adjacency, eligible, units)
        complete = merging.run(limit * len(units) // size, from_start=from_start)
        regions += merging.regions()
        # Not all of the components can be whole, or they would not wait on each other.
        bound += 1 + len({home[unit] for unit in units if eligible[unit]})
        work += merging.merger.work
        maximal = maximal and complete
    bound = max(bound, level_bound(adjacency, eligible))
    regions = [regions[index] for index in run_order(adjacency, regions)]
    return Division(regions, bound, work, maximal or bound == len(regions))


def _whole_components(
    eligible: bytearray, home: list[int], cyclic: list[list[int]]
) -> list[list[int]]:
    """Collect the components that lie on no cycle."""
    free = bytearray(eligible)
    for units in cyclic:
        for unit in units:
            free[unit] = 0
    components: dict[int, list[int]] = {}
    for unit, wanted in enumerate(free):
        if wanted:
            components.setdefault(home[unit], []).append(unit)
    return list(components.values())


class _Merging:
    """Units, given ascending, whose claimed ones merge as far as no cycle closes."""

    def __init__(self, adjacency: Adjacency, eligible: bytearray, units: Sequence[int]) -> None:
        number = {unit: node for node, unit in enumerate(units)}
        self._units = units
        self._claimed = claimed = bytearray(eligible[unit] for unit in units)
        predecessors: list[set[int]] = [set() for _ in units]
        successors: list[set[int]] = [set() for _ in units]
        self._pairs: list[tuple[int, int]] = []
        for node, unit in enumerate(units):
            for pred in adjacency.predecessors(unit):
                other = number.get(pred)
                if other is not None:
                    predecessors[node].add(other)
                    successors[other].add(node)
                    if claimed[node] and claimed[other]:
                        self._pairs.append((other, node))
        self.merger = Merger(claimed, predecessors, successors)
        self._first = claimed.index(1)

    def run(self, limit: int, *, from_start: bool) -> bool:
        """Merge; return whether every pair of neighbours was tried."""
        pairs, find = self._pairs, self.merger.find
        if from_start:
            for pair in pairs:
                if find(self._first) in {find(pair[0]), find(pair[1])}:
                    self.merger.merge_all([pair], limit)
        ahead = self._runs_ahead()
        # Those nearest to the end first: a merge near the start would bar many others.
        pairs.sort(key=lambda pair: (ahead[pair[0]], ahead[pair[1]], -pair[0], -pair[1]))
        return self.merger.merge_all(pairs, limit)

    def regions(self) -> list[list[int]]:
        """Return the regions so far."""
        groups: dict[int, list[int]] = {}
        for node in compress(range(len(self._units)), self._claimed):
            groups.setdefault(self.merger.find(node), []).append(self._units[node])
        return list(groups.values())

    def _runs_ahead(self) -> list[int]:
        """Count, for each node, the most runs of claimed nodes on a way that starts in it."""
        claimed, successors = self._claimed, self.merger.successors
        runs = [0] * len(claimed)
        for node in range(len(claimed) - 1, -1, -1):
            most = here = claimed[node]
            for other in successors[node]:
                most = max(most, runs[other] + (here and not claimed[other]))
            runs[node] = most
        return runs
