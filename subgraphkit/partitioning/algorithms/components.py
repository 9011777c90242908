"""Weak components of sets of units, strong components of a quotient, and pieces of a region.

A weak component of the claimed units that lies on no cycle of the quotient can be one region as it
is, in some best partitioning. Only the strong components of several nodes need work, each on its
own: a path between two of its nodes never leaves it.

Source:
    R. E. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1(2), 1972.
"""

from array import array
from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.arrays import Nets


def claimed_components(adjacency: Adjacency, eligible: bytearray) -> list[int]:
    """Join eligible units along edges."""
    root = list(range(adjacency.count))
    preds = adjacency.preds.tolist()
    start = 0
    for unit, end in enumerate(adjacency.pred_start[1:]):
        if eligible[unit]:
            for other in preds[start:end]:
                if eligible[other]:
                    first, second = _find(root, other), _find(root, unit)
                    if first < second:
                        root[second] = first
                    else:
                        root[first] = second
        start = end
    # A root is never larger than what hangs on it, so one ascending pass resolves every chain.
    for unit, parent in enumerate(root):
        root[unit] = root[parent]
    return root


def _find(root: list[int], unit: int) -> int:
    while root[unit] != unit:
        root[unit] = root[root[unit]]
        unit = root[unit]
    return unit


def weak_components(adjacency: Adjacency, units: Sequence[int]) -> list[list[int]]:
    """Divide a set of units where no edge inside it joins them."""
    home = dict.fromkeys(units, -1)
    components: list[list[int]] = []
    for origin in units:
        if home[origin] >= 0:
            continue
        home[origin] = len(components)
        component = [origin]
        for unit in component:
            for other in (*adjacency.predecessors(unit), *adjacency.successors(unit)):
                if home.get(other, 0) < 0:
                    home[other] = len(components)
                    component.append(other)
        components.append(sorted(component))
    return components


def strong_components(rows: Sequence[Sequence[int]]) -> list[int]:
    """Number the strong components of a graph."""
    walk = _Walk(rows)
    for origin in range(len(rows)):
        if not walk.low[origin]:
            walk.run(origin)
    return walk.component


class _Walk:
    """The state of the depth-first walk.

    Attributes:
        component: For each node the number of its strong component, or -1 while that is open.
        low: The earliest entered node known to be reached; 0 for nodes not entered.
    """

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.component = [-1] * len(rows)
        self.low = [0] * len(rows)
        self._rows = rows
        self._entered = [0] * len(rows)
        self._open: list[int] = []
        self._found = 0
        self._closed = 0

    def run(self, origin: int) -> None:
        low, component, rows = self.low, self.component, self._rows
        path, edges = [origin], [iter(rows[origin])]
        self._enter(origin)
        while path:
            node = path[-1]
            for successor in edges[-1]:
                if not low[successor]:
                    self._enter(successor)
                    path.append(successor)
                    edges.append(iter(rows[successor]))
                    break
                if low[successor] < low[node] and component[successor] < 0:
                    low[node] = low[successor]
            else:
                path.pop()
                edges.pop()
                if path and low[node] < low[path[-1]]:
                    low[path[-1]] = low[node]
                if low[node] == self._entered[node]:
                    self._close(node)

    def _enter(self, node: int) -> None:
        self._found += 1
        self.low[node] = self._entered[node] = self._found
        self._open.append(node)

    def _close(self, node: int) -> None:
        while True:
            member = self._open.pop()
            self.component[member] = self._closed
            if member == node:
                break
        self._closed += 1


def find_cyclic_sets(adjacency: Adjacency, home: Sequence[int]) -> list[list[int]]:
    """Find the sets of units whose groups wait on each other."""
    tied = _prune(adjacency, home)
    if not tied:
        return []
    number, rows = _rows_of_groups(adjacency, home, tied)
    component = strong_components(rows)
    sizes = [0] * len(rows)
    for part in component:
        sizes[part] += 1
    cyclic: dict[int, list[int]] = {}
    for unit in tied:
        part = component[number[home[unit]]]
        if sizes[part] > 1:
            cyclic.setdefault(part, []).append(unit)
    return list(cyclic.values())


def _rows_of_groups(
    adjacency: Adjacency, home: Sequence[int], units: list[int]
) -> tuple[list[int], list[list[int]]]:
    """Number the groups of some units and list, for each, the groups it feeds."""
    number = [-1] * adjacency.count
    rows: list[list[int]] = []
    for unit in units:
        if number[home[unit]] < 0:
            number[home[unit]] = len(rows)
            rows.append([])
    succs, start = adjacency.succs.tolist(), adjacency.succ_start.tolist()
    for unit in units:
        node = number[home[unit]]
        for successor in succs[start[unit] : start[unit + 1]]:
            other = number[home[successor]]
            if other >= 0 and other != node:
                rows[node].append(other)
    return number, rows


def _prune(adjacency: Adjacency, home: Sequence[int]) -> list[int]:
    """Return the units on, or between, cycles of the quotient, ascending."""
    succs, succ_start = adjacency.succs.tolist(), adjacency.succ_start.tolist()
    preds, pred_start = adjacency.preds.tolist(), adjacency.pred_start.tolist()
    tied = _prune_one_way(list(range(adjacency.count)), home, (succs, succ_start))
    if tied:
        tied = _prune_one_way(tied, home, (preds, pred_start))
    return tied


def _prune_one_way(
    units: list[int], home: Sequence[int], edges: tuple[list[int], list[int]]
) -> list[int]:
    """Drop the groups that can be reached by nothing but dropped groups, over and over."""
    targets, start = edges
    waiting, members = _count_waiting(units, home, edges)
    ready = [group for group, count in enumerate(waiting) if not count]
    while ready:
        group = ready.pop()
        waiting[group] = -1
        for unit in members.get(group, (group,)):
            for target in targets[start[unit] : start[unit + 1]]:
                other = home[target]
                if other != group and waiting[other] > 0:
                    waiting[other] -= 1
                    if not waiting[other]:
                        ready.append(other)
    return [unit for unit in units if waiting[home[unit]] > 0]


def _count_waiting(
    units: list[int], home: Sequence[int], edges: tuple[list[int], list[int]]
) -> tuple[list[int], dict[int, list[int]]]:
    """Count the edges into each group, -1 for groups not among them; list larger groups."""
    targets, start = edges
    waiting = [-1] * (len(start) - 1)
    members: dict[int, list[int]] = {}
    for unit in units:
        group = home[unit]
        waiting[group] = 0
        if group != unit:
            members.setdefault(group, [group]).append(unit)
    for unit in units:
        group = home[unit]
        for target in targets[start[unit] : start[unit + 1]]:
            other = home[target]
            if other != group and waiting[other] >= 0:
                waiting[other] += 1
    return waiting, members


# -- pieces of a region that is too large, cut where the fewest bytes are alive --------------------


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
