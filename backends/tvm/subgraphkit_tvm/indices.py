"""Inputs that hold indices, and how far those may reach.

TVM's code does not check an index: one out of range reads or writes somewhere else in memory.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from subgraphkit.ir import Node, Subgraph, integer_bounds

_Limits = tuple[Sequence[int], Sequence[int]]
"""The least and the greatest index, for each place in the last axis or for all of them."""

_ALONG_AN_AXIS: Final = frozenset({"Gather", "GatherElements", "Scatter", "ScatterElements"})
_ALONG_SEVERAL: Final = frozenset({"GatherND", "ScatterND"})
_INDEXED: Final = _ALONG_AN_AXIS | _ALONG_SEVERAL | {"ReverseSequence"}


def _find_indices(node: Node) -> tuple[str, _Limits] | None:
    """Return the input of a node that holds indices, and how far they may reach."""
    if node.op_type not in _INDEXED:
        return None
    shape = node.shape(0) or ()
    sizes: Sequence[Any] = ()
    place, from_the_end = 1, True
    if node.op_type in _ALONG_AN_AXIS:
        sizes = [shape[node.attribute("axis", 0)]] if shape else []
    elif node.op_type in _ALONG_SEVERAL:
        indices, first = node.shape(1) or (0,), node.attribute("batch_dims", 0)
        sizes = shape[first : first + int(indices[-1] or 0)]
    elif node.op_type == "ReverseSequence":
        from_the_end = False
        sizes = [int(shape[node.attribute("time_axis", 0)] or 0) + 1]
    if not sizes:
        return None
    least = [-size if from_the_end else 0 for size in sizes]
    return node.inputs[place], (least, [size - 1 for size in sizes])


def index_problem(node: Node) -> str:
    """Return why the indices of a node might reach too far; empty if they do not.

    Those that are fed are checked before every run.
    """
    held, graph = _find_indices(node), node.graph
    if held is None or held[0] in graph.inputs or held[0] in graph.defaults:
        return ""
    name, limits = held
    if name in graph.constants:
        fits = _fit(graph.constants[name].array(), limits)
    else:
        known = integer_bounds(graph).get(name)
        fits = known is not None and max(limits[0]) <= known[0] and known[1] <= min(limits[1])
    return "" if fits else f"indices {name!r} may be out of range, and TVM does not look"


class IndexWatch:
    """Refuses indices that are fed to a region and reach too far."""

    def __init__(self, subgraph: Subgraph) -> None:
        nodes: Iterable[Node] = subgraph.members
        found = dict.fromkeys(
            (held[0], tuple(held[1][0]), tuple(held[1][1]))
            for held in map(_find_indices, nodes)
            if held is not None and held[0] in subgraph.inputs
        )
        self.limits = [(subgraph.inputs.index(name), (low, high)) for name, low, high in found]
        self._names = subgraph.inputs

    def check(self, inputs: Sequence[Any]) -> None:
        """Make sure that TVM stays inside of its arrays; else IndexError."""
        for place, limits in self.limits:
            if not _fit(inputs[place], limits):
                low, high = max(limits[0]), min(limits[1])
                raise IndexError(
                    f"indices in {self._names[place]!r} are out of bounds: from "
                    f"{inputs[place].min()} to {inputs[place].max()}, expected {low} to {high}"
                )


def _fit(array: Any, limits: _Limits) -> bool:
    if not array.size:
        return True
    if len(limits[0]) == 1:
        return bool(limits[0][0] <= array.min() and array.max() <= limits[1][0])
    least, most = np.array(limits[0]), np.array(limits[1])
    return bool((array >= least).all() and (array <= most).all())
