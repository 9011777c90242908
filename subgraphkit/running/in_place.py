"""Outputs written where an input is, as caches of keys and values grow in place."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from subgraphkit.planning import Plan

_GOES_ON: Final[Mapping[tuple[str, str], Mapping[int, int]]] = {
    ("com.microsoft", "GroupQueryAttention"): {1: 3, 2: 4},
    ("", "ScatterElements"): {0: 0},
    ("", "ScatterND"): {0: 0},
    ("", "TensorScatter"): {0: 0},
}
"""By operator, the outputs that are an input with some of its elements replaced."""

_READS_NO_ELEMENTS: Final = frozenset({"Shape", "Size"})


class Shared(NamedTuple):
    """In place of a buffer: one that is the array of the input ``name``."""

    buffer: Any
    name: str


def is_same_memory(one: Any, other: Any) -> bool:
    """Say whether two arrays of the host are the same elements in the same order."""
    return (
        isinstance(one, np.ndarray)
        and isinstance(other, np.ndarray)
        and one.flags.c_contiguous
        and other.flags.c_contiguous
        and (one.ctypes.data, one.shape, one.dtype) == (other.ctypes.data, other.shape, other.dtype)
    )


def owner_of(array: Any) -> Any:
    """Return the array of the host that owns the memory of one; None if that is not known."""
    while isinstance(array, np.ndarray) and not array.flags.owndata:
        array = array.base
    return array if isinstance(array, np.ndarray) else None


def find_outputs_in_place(plan: Plan) -> Mapping[str, str]:
    """Return the outputs that may be written where an input is, each with the input.

    The node that makes it is then the only one that reads elements of the input, and its operator
    promises it by ``Traits.in_place``.
    """
    graph = plan.graph
    given_out = set(graph.outputs)
    readers = defaultdict(list)
    for node in graph.nodes:
        if node.op_type not in _READS_NO_ELEMENTS:
            for name in node.inputs:
                readers[name].append(node.id)
    candidates = [
        (node, _present(node.outputs, output), _present(node.inputs, place))
        for step in plan.steps
        for node in (step.subgraph.members if step.operator.traits.in_place else ())
        if node.op_type in step.operator.traits.in_place
        for output, place in _GOES_ON.get((node.domain, node.op_type), {}).items()
    ]
    return {
        made: name
        for node, made, name in candidates
        if made in given_out and name in graph.inputs and name not in given_out
        if readers[name] == [node.id]
    }


def _present(names: Sequence[str], place: int) -> str:
    return names[place] if place < len(names) else ""
