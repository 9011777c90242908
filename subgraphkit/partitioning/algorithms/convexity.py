"""A topological order of units and claimed regions, kept while more are claimed.

The graph of claimed regions is never built: a claimed region carries the lists of units around it,
everything else is read from the graph of units. Checks search only the stretch of the order between
the first exit of a candidate and its last entry.
"""

from collections.abc import Iterable

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.components import weak_components
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.levels import level_regions
from subgraphkit.partitioning.algorithms.merger import RunningOrder

# Edges the first search in each direction may look at; then four times as many, and so on.
_FIRST_REACH = 64


class ClaimedOrder:
    """A topological order of the quotient of the regions claimed so far.

    Thread-safety: none; one thread at a time.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self.work = 0
        self._adjacency = adjacency
        self._order = RunningOrder(adjacency.count)
        # For each unit the unit that stands for its region, or itself.
        self._home = list(range(adjacency.count))
        # For each region, by the unit that stands for it, the edges that leave and that enter it.
        self._leaving: dict[int, list[tuple[int, int]]] = {}
        self._entering: dict[int, list[tuple[int, int]]] = {}

    def divide(
        self, units: list[int], *, connected: bool, whole: bool
    ) -> tuple[list[list[int]], list[int]]:
        """Divide a candidate into regions that can be claimed together.

        ``connected``: Whether each region must hang together.
        ``whole``: Whether only that of the first unit counts, the others to be grown again.
        """
        path, between = self._detour(units)
        if not path:
            if connected and len(units) > 1:
                return weak_components(self._adjacency, units), []
            return [units], []
        local, eligible, names = self._around(units, between)
        if connected:
            found = connected_regions(local, eligible, from_start=whole).regions
        else:
            found = level_regions(local, eligible)
        return [sorted(names[place] for place in part) for part in found], path

    def claim(self, units: list[int]) -> None:
        """Make a region of units that can be claimed as they are."""
        leaving, entering = self._edges(units)
        exits = {self._home[edge[1]] for edge in leaving}
        entries = {self._home[edge[0]] for edge in entering}
        leader = units[0]
        if len(units) > 1:
            self._place(units, exits, entries)
            for unit in units:
                self._home[unit] = leader
        self._leaving[leader] = leaving
        self._entering[leader] = entering

    def _place(self, units: list[int], exits: set[int], entries: set[int]) -> None:
        """Put the region, named by its first unit, behind its entries and before its exits."""
        order, label, leader = self._order, self._order.label, units[0]
        if not exits or not entries:
            # Then any of its units' places will do that lies at the free end.
            place = (
                max(units, key=label.__getitem__) if entries else min(units, key=label.__getitem__)
            )
            for unit in units:
                if unit != place:
                    order.remove(unit)
            if place != leader:
                order.replace(place, leader)
            return
        first = min(exits, key=label.__getitem__)
        last = max(entries, key=label.__getitem__)
        met, forwards = self._met(exits, entries, label[first], label[last])
        for unit in units:
            order.remove(unit)
        met.sort(key=label.__getitem__)
        if forwards:
            order.move_after(met, last)
            order.insert_after([leader], last)
        else:
            order.move_before(met, first)
            order.insert_before([leader], first)

    def _met(
        self, exits: set[int], entries: set[int], low: int, high: int
    ) -> tuple[list[int], bool]:
        """Return what follows the exits before the last entry, or what the entries follow."""
        reach = _FIRST_REACH
        while True:
            for starts, forwards in ((exits, True), (entries, False)):
                met = self._closure(starts, low, high, forwards=forwards, reach=reach)
                if met is not None:
                    return met, forwards
            reach *= 4

    def _closure(
        self, starts: Iterable[int], low: int, high: int, *, forwards: bool, reach: int
    ) -> list[int] | None:
        label = self._order.label
        met = sorted(node for node in starts if low <= label[node] <= high)
        seen = set(met)
        work = 0
        for node in met:
            for near, far in self._around_node(node, forwards=forwards):
                other = self._home[far if forwards else near]
                work += 1
                if other not in seen and low <= label[other] <= high:
                    seen.add(other)
                    met.append(other)
            if work > reach:
                self.work += work
                return None
        self.work += work
        return met

    def _around_node(self, node: int, *, forwards: bool) -> Iterable[tuple[int, int]]:
        """Yield the edges that leave, or enter, a region or an unclaimed unit."""
        edges = (self._leaving if forwards else self._entering).get(node)
        if edges is not None:
            return edges
        if forwards:
            return [(node, other) for other in self._adjacency.successors(node)]
        return [(other, node) for other in self._adjacency.predecessors(node)]

    def _edges(self, units: list[int]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """List the edges that leave and that enter a set of unclaimed units."""
        adjacency = self._adjacency
        inside = set(units)
        leaving = [
            (unit, other)
            for unit in units
            for other in adjacency.successors(unit)
            if other not in inside
        ]
        entering = [
            (other, unit)
            for unit in units
            for other in adjacency.predecessors(unit)
            if other not in inside
        ]
        self.work += len(leaving) + len(entering) + len(units)
        return leaving, entering

    def _detour(self, units: list[int]) -> tuple[list[int], list[int]]:
        """Look for a path that leaves a candidate and comes back."""
        label, home = self._order.label, self._home
        inside = set(units)
        leaving, entering = self._edges(units)
        entries = {home[near]: (near, far) for near, far in reversed(entering)}
        high = max((label[node] for node in entries), default=-1)
        # For each node met the edge it was reached by.
        via: dict[int, tuple[int, int]] = {}
        for near, far in leaving:
            if label[home[far]] <= high:
                via.setdefault(home[far], (near, far))
        if not via:
            return [], []
        low = min(label[node] for node in via)
        if self._surely_convex(via, entries, low, high):
            return [], []
        met = self._follow(via, inside, high)
        found = next((node for node in met if node in entries), -1)
        if found < 0:
            return [], []
        return _path(via, home, entries[found], found, inside), met

    def _follow(self, via: dict[int, tuple[int, int]], inside: set[int], high: int) -> list[int]:
        """Walk on from the nodes in ``via``, and note there how each node was reached."""
        met = sorted(via)
        for node in met:
            for edge in self._around_node(node, forwards=True):
                other = self._home[edge[1]]
                self.work += 1
                if other not in via and self._order.label[other] <= high and other not in inside:
                    via[other] = edge
                    met.append(other)
        return met

    def _surely_convex(
        self, exits: Iterable[int], entries: Iterable[int], low: int, high: int
    ) -> bool:
        """Search in both directions for the one that ends sooner; True if no path was met."""
        met, forwards = self._met(set(exits), set(entries), low, high)
        goals = set(entries if forwards else exits)
        return goals.isdisjoint(met)

    def _around(
        self, units: list[int], between: list[int]
    ) -> tuple[Adjacency, bytearray, list[int]]:
        """Cut out the graph of a candidate and what lies between; number it by the order."""
        home = self._home
        inside = set(units)
        names = sorted([*units, *between], key=self._order.label.__getitem__)
        number = {name: place for place, name in enumerate(names)}
        rows = []
        for name in names:
            sources = (home[edge[0]] for edge in self._around_node(name, forwards=False))
            rows.append(list(dict.fromkeys(number[s] for s in sources if s in number)))
        eligible = bytearray(name in inside for name in names)
        return Adjacency.from_predecessors(rows), eligible, names


def _path(
    via: dict[int, tuple[int, int]],
    home: list[int],
    entry: tuple[int, int],
    node: int,
    inside: set[int],
) -> list[int]:
    """Walk back from where a path comes back in to where it left."""
    path = [entry[1], entry[0]]
    while True:
        near, far = via[node]
        if path[-1] != far:
            path.append(far)
        path.append(near)
        if near in inside:
            return path[::-1]
        node = home[near]
