"""Dependencies between nodes as flat integer arrays, with a topological order.

The predecessors of node ``i`` are ``preds[pred_start[i]:pred_start[i + 1]]``. Successors are stored
alike (compressed sparse rows). A million nodes take some 20 MB; dictionaries of sets take a
gigabyte. A plain loop over a slice is the fastest walk in Python.
"""

import heapq
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

_Member = TypeVar("_Member", int, str)


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """A directed graph over nodes ``0 .. count - 1``; parallel edges are kept once.

    Attributes:
        count: Number of nodes.
        pred_start: ``count + 1`` offsets into ``preds``.
        preds: Predecessors, ascending in order of first use by the node.
        succ_start: ``count + 1`` offsets into ``succs``.
        succs: Successors, ascending.
    """

    count: int
    pred_start: "array[int]"
    preds: "array[int]"
    succ_start: "array[int]"
    succs: "array[int]"

    @classmethod
    def from_predecessors(cls, predecessors: Iterable[Sequence[int]]) -> "Adjacency":
        """Build from the predecessors of each node, without duplicates, node by node."""
        pred_start = array("i", [0])
        preds = array("i")
        for row in predecessors:
            preds.extend(row)
            pred_start.append(len(preds))
        count = len(pred_start) - 1
        succ_start, succs = _transpose(count, pred_start, preds)
        return cls(count, pred_start, preds, succ_start, succs)

    def predecessors(self, node: int) -> "array[int]":
        """Return the nodes that ``node`` waits for."""
        return self.preds[self.pred_start[node] : self.pred_start[node + 1]]

    def successors(self, node: int) -> "array[int]":
        """Return the nodes that wait for ``node``."""
        return self.succs[self.succ_start[node] : self.succ_start[node + 1]]

    def topological_order(self) -> "array[int] | None":
        """Order the nodes so that every node follows its predecessors.

        If the numbering already is such an order, it is returned unchanged. Otherwise the smallest
        number that is ready comes first, so the result depends on the graph alone.

        Returns:
            The order, or None if the graph has a cycle.

        Source:
            A. B. Kahn, "Topological sorting of large networks", CACM 5(11), 1962.
        """
        pred_start, preds = self.pred_start, self.preds
        if all(
            preds[edge] < node
            for node in range(self.count)
            for edge in range(pred_start[node], pred_start[node + 1])
        ):
            return array("i", range(self.count))
        waiting = [pred_start[node + 1] - pred_start[node] for node in range(self.count)]
        ready = [node for node in range(self.count) if not waiting[node]]
        order = array("i")
        while ready:
            node = heapq.heappop(ready)
            order.append(node)
            for successor in self.successors(node):
                waiting[successor] -= 1
                if not waiting[successor]:
                    heapq.heappush(ready, successor)
        return order if len(order) == self.count else None

    def find_cycle(self) -> list[int]:
        """Return the nodes of one cycle in edge order, or an empty list if there is none."""
        waiting = [self.pred_start[node + 1] - self.pred_start[node] for node in range(self.count)]
        stack = [node for node in range(self.count) if not waiting[node]]
        while stack:
            for successor in self.successors(stack.pop()):
                waiting[successor] -= 1
                if not waiting[successor]:
                    stack.append(successor)
        node = next((node for node in range(self.count) if waiting[node]), None)
        if node is None:
            return []
        # Every node left over has a predecessor left over, so walking upwards must repeat a node.
        seen: dict[int, int] = {}
        path: list[int] = []
        while node not in seen:
            seen[node] = len(path)
            path.append(node)
            node = next(pred for pred in self.predecessors(node) if waiting[pred])
        return path[seen[node] :][::-1]


def unite_groups(groups: Iterable[Sequence[_Member]]) -> list[list[_Member]]:
    """Unite groups that share a member; return each ascending, in the order of their first."""
    root: dict[_Member, _Member] = {}
    for group in groups:
        for member in group:
            root.setdefault(member, member)
            low, high = sorted((find_root(root, group[0]), find_root(root, member)))
            root[high] = low
    found: dict[_Member, list[_Member]] = {}
    for member in sorted(root):
        found.setdefault(find_root(root, member), []).append(member)
    return list(found.values())


def find_root(root: Any, member: _Member) -> _Member:
    """Return the root of a member, perhaps over several steps; ways are shortened."""
    while root[member] != member:
        root[member] = root[root[member]]
        member = root[member]
    return member


def _transpose(
    count: int, start: "array[int]", targets: "array[int]"
) -> "tuple[array[int], array[int]]":
    made_by, starts = np.frombuffer(targets, np.intc), np.frombuffer(start, np.intc)
    read_by = np.repeat(np.arange(count, dtype=np.intc), starts[1:] - starts[:-1])
    transposed_start = array("i", [0])
    transposed_start.frombytes(
        np.bincount(made_by, minlength=count).cumsum(dtype=np.intc).tobytes()
    )
    # A stable order keeps those that read one node ascending.
    transposed = array("i")
    transposed.frombytes(read_by[np.argsort(made_by, kind="stable")].tobytes())
    return transposed_start, transposed
