"""Weak and strong components, and pieces of a region that is too large.

Source:
    R. E. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1(2), 1972.
"""

from collections.abc import Sequence
from itertools import pairwise

from subgraphkit.ir import Adjacency


def labelled_components(adjacency: Adjacency, labels: Sequence[int]) -> list[int]:
    """Join units of one label along edges; return, by unit, the first of its component.

    ``labels``: By unit, a number; 0 for what stays alone.
    """
    root = list(range(adjacency.count))
    preds = adjacency.preds.tolist()
    start = 0
    for unit, end in enumerate(adjacency.pred_start[1:]):
        label = labels[unit]
        if label:
            for other in preds[start:end]:
                if labels[other] == label:
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
