"""The graph of the regions: components, contracting groups of units and numbering the result.

A partitioning can run exactly if the graph that remains after contracting every region to one node,
the *quotient*, has no cycle. Convexity of every region alone is not enough: two convex regions can
still wait on each other.
"""

import heapq
from array import array
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np

from subgraphkit.ir import Adjacency
from subgraphkit.ir.adjacency import find_root
from subgraphkit.partitioning.algorithms.levels import Longs, as_array


def labelled_components(adjacency: Adjacency, labels: Sequence[int]) -> list[int]:
    """Join units of one label along edges; return, by unit, the first of its component.

    ``labels``: By unit, a number; 0 for units that stay alone.
    """
    root = list(range(adjacency.count))
    preds = adjacency.preds.tolist()
    start = 0
    for unit, end in enumerate(adjacency.pred_start[1:]):
        if label := labels[unit]:
            for other in preds[start:end]:
                if labels[other] == label:
                    first, second = find_root(root, other), find_root(root, unit)
                    root[max(first, second)] = min(first, second)
        start = end
    # A root is never larger than its members, so one ascending pass resolves every chain.
    for unit, parent in enumerate(root):
        root[unit] = root[parent]
    return root


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
        self._path: list[tuple[int, Iterator[int]]] = []
        self._found = self._closed = 0

    def run(self, origin: int) -> None:
        low, component, path = self.low, self.component, self._path
        self._enter(origin)
        while path:
            node, edges = path[-1]
            for successor in edges:
                if not low[successor]:
                    self._enter(successor)
                    break
                if low[successor] < low[node] and component[successor] < 0:
                    low[node] = low[successor]
            else:
                path.pop()
                if path and low[node] < low[path[-1][0]]:
                    low[path[-1][0]] = low[node]
                if low[node] == self._entered[node]:
                    self._close(node)

    def _enter(self, node: int) -> None:
        self._found += 1
        self.low[node] = self._entered[node] = self._found
        self._open.append(node)
        self._path.append((node, iter(self._rows[node])))

    def _close(self, node: int) -> None:
        while self.component[node] < 0:
            self.component[self._open.pop()] = self._closed
        self._closed += 1


def split_to_size(
    adjacency: Adjacency, region: list[int], max_nodes: int, *, connected: bool = False
) -> list[list[int]]:
    """Cut the order of a region into the fewest parts of at most ``max_nodes`` units, about equal.

    The parts can run one after the other in place of the region, because they are slices of a
    topological order.
    """
    count = -(-len(region) // max_nodes)
    ends = [len(region) * part // count for part in range(count + 1)]
    parts = [region[start:end] for start, end in pairwise(ends)]
    if connected:
        return [piece for part in parts for piece in weak_components(adjacency, part)]
    return parts


# How often one group per strong component is dropped, before half of those that are left are.
_ROUNDS_ONE_BY_ONE = 8


class CyclicGroupsError(ValueError):
    """Groups cannot be contracted because they would wait on each other."""


class Contraction(NamedTuple):
    """A graph in which groups of units have become one unit each."""

    adjacency: Adjacency
    unit_of: "array[int]"
    members: list[list[int]]


def contract(adjacency: Adjacency, groups: Sequence[Sequence[int]]) -> Contraction:
    """Contract every group to one unit and renumber topologically; CyclicGroupsError if they wait.

    Units in no group stay as they are. Of the possible next units, the one with the smallest first
    member comes first. So the new numbering stays as close to the old as possible.
    """
    home, leaders = _number_units(_firsts(adjacency.count, groups))
    small = _quotient(adjacency, home, len(leaders))
    order = np.asarray(_emit(small), dtype=np.int64)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    members: list[list[int]] = [[leader] for leader in leaders[order].tolist()]
    for group in groups:
        members[number[home[group[0]]]] = sorted(group)
    unit_of = as_array(number[home])
    return Contraction(_quotient(small, number, len(order)), unit_of, members)


def run_order(adjacency: Adjacency, groups: Sequence[Sequence[int]]) -> list[int]:
    """Return the indices of ``groups`` in an order in which they can run; else CyclicGroupsError.

    Of the possible next groups, the one with the smallest first unit comes first.
    """
    home, leaders = _number_units(_firsts(adjacency.count, groups))
    small = _quotient(adjacency, home, len(leaders))
    index = [-1] * len(leaders)
    for position, group in enumerate(groups):
        index[home[group[0]]] = position
    order = (index[leader] for leader in _emit(small))
    return [position for position in order if position >= 0]


def contract_groups(
    adjacency: Adjacency, fixed: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]
) -> tuple[Contraction, list[Sequence[int]], list[Sequence[int]]]:
    """Contract ``fixed``, and all groups but the latest on every cycle.

    Strong components do not touch each other, so one round works on all of them. After some rounds,
    a remaining one loses half of its groups at a time. So the whole takes near-linear time. This
    returns the contraction, the groups in it, and those left out.
    """
    kept, dropped = list(groups), list[Sequence[int]]()
    for attempt in count():
        try:
            return contract(adjacency, [*fixed, *kept]), kept, dropped
        except CyclicGroupsError:
            at_fault: set[int] = set()
            for cyclic in cyclic_groups(adjacency, [*fixed, *kept]):
                own = [group - len(fixed) for group in cyclic if group >= len(fixed)]
                most = 1 if attempt < _ROUNDS_ONE_BY_ONE else -(-len(own) // 2)
                at_fault.update(own[-most:])
            if not at_fault:
                raise
            dropped += [kept[group] for group in sorted(at_fault, reverse=True)]
            kept = [group for index, group in enumerate(kept) if index not in at_fault]
    raise AssertionError  # the count has no end


def cyclic_groups(adjacency: Adjacency, groups: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the indices of the groups on cycles, ascending, by strong component of the quotient.

    Every component of several nodes has at least one group, and each of its groups lies on a cycle
    in it.
    """
    component, sizes = _strong_components(adjacency, _firsts(adjacency.count, groups))
    found: dict[int, list[int]] = {}
    for index, group in enumerate(groups):
        number = int(component[group[0]])
        if sizes[number] > 1:
            found.setdefault(number, []).append(index)
    return list(found.values())


def cyclic_sets(adjacency: Adjacency, first: Sequence[int]) -> list[list[int]]:
    """Return the sets of units whose groups wait on each other, ascending.

    ``first``: By unit, the first one of its group.
    """
    component, sizes = _strong_components(adjacency, np.asarray(first, dtype=np.int64))
    found: dict[int, list[int]] = {}
    tied = np.flatnonzero(sizes[component] > 1)
    for unit, number in zip(tied.tolist(), component[tied].tolist(), strict=True):
        found.setdefault(number, []).append(unit)
    return list(found.values())


def _strong_components(adjacency: Adjacency, first: Longs) -> tuple[Longs, Longs]:
    """Return the strong component of each unit's group, and how many groups are in each."""
    home, leaders = _number_units(first)
    small = _quotient(adjacency, home, len(leaders))
    succs, start = small.succs.tolist(), small.succ_start.tolist()
    rows = [succs[begin:end] for begin, end in pairwise(start)]
    component = np.asarray(strong_components(rows), dtype=np.int64)
    return component[home], np.bincount(component)


def _firsts(size: int, groups: Sequence[Sequence[int]]) -> Longs:
    first = np.arange(size)
    for group in groups:
        if len(group) > 1:
            first[np.asarray(group)] = min(group)
    return first


def _number_units(first: Longs) -> tuple[Longs, Longs]:
    """Number units and groups by their first members; return those numbers and first members."""
    # A unit that is its own first member leads; numbering the leaders needs no sorting.
    leads = first == np.arange(len(first))
    return (np.cumsum(leads) - 1)[first], np.flatnonzero(leads)


def _quotient(adjacency: Adjacency, home: Longs, size: int) -> Adjacency:
    widths = np.diff(np.asarray(adjacency.pred_start))
    target = home[np.repeat(np.arange(adjacency.count), widths)]
    source = home[np.asarray(adjacency.preds, dtype=np.int64)]
    crossing = source != target
    source, target = source[crossing], target[crossing]
    _, first = np.unique(target * size + source, return_index=True)
    source, target = source[first], target[first]
    by_target, by_source = np.lexsort((first, target)), np.lexsort((target, source))
    before = _offsets(target, size), as_array(source[by_target])
    after = _offsets(source, size), as_array(target[by_source])
    return Adjacency(size, *before, *after)


def _offsets(keys: Longs, size: int) -> "array[int]":
    return as_array(np.append(0, np.cumsum(np.bincount(keys, minlength=size))))


def _emit(small: Adjacency) -> list[int]:
    """Order the nodes of the quotient topologically, always the smallest that is ready."""
    waiting = [end - start for start, end in pairwise(small.pred_start)]
    succs, succ_start = small.succs.tolist(), small.succ_start.tolist()
    order: list[int] = []
    # Nodes whose turn in the scan passed while they waited; smaller than all still to come.
    late: list[int] = []
    for scanned in range(small.count):
        if waiting[scanned]:
            continue
        late.append(scanned)
        while late:
            node = heapq.heappop(late)
            order.append(node)
            for successor in succs[succ_start[node] : succ_start[node + 1]]:
                waiting[successor] -= 1
                if not waiting[successor] and successor <= scanned:
                    heapq.heappush(late, successor)
    if len(order) < small.count:
        raise CyclicGroupsError
    return order
