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
    if not all(isinstance(x, np.ndarray) and x.flags.c_contiguous for x in (one, other)):
        return False
    first, second = ((x.ctypes.data, x.shape, x.dtype) for x in (one, other))
    return first == second


def owner_of(array: Any) -> Any:
    """Return the array of the host that owns the memory of one; None if that is not known."""
    while isinstance(array, np.ndarray) and not array.flags.owndata:
        array = array.base
    return array if isinstance(array, np.ndarray) else None


def overlap(one: Any, other: Any) -> bool:
    """Say whether two arrays may share memory, as far as they say where they are."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.may_share_memory(one, other))
    # To ask an array on a device where it is may cost it something.
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return False
    first, second = _extent(one), _extent(other)
    return bool(first and second and first[0] < second[1] and second[0] < first[1])


def overlaps(some: Sequence[Any], others: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the places of those that may share memory; as ``overlap``, but all at once."""
    bounds = ([_extent(x) or (id(x), id(x) + 1) for x in arrays] for arrays in (some, others))
    (low, high), (start, end) = (np.array(one, np.uint64).reshape(-1, 2).T for one in bounds)
    near = np.argwhere((low[:, None] < end) & (start < high[:, None])).tolist()
    return [(one, other) for one, other in near if overlap(some[one], others[other])]


def _extent(value: Any) -> tuple[int, int] | None:
    """Return the first address of an array and the one after its last."""
    if isinstance(value, np.ndarray):
        return np.lib.array_utils.byte_bounds(value)
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except (RuntimeError, TypeError):  # torch's, for tensors it does not describe
        return None
    if interface is None:
        return None
    shape, size = interface["shape"], np.dtype(interface["typestr"]).itemsize
    strides = interface.get("strides")
    start = interface["data"][0]
    if 0 in shape:
        return start, start
    if strides is None:
        return start, start + int(np.prod(shape, dtype=np.int64)) * size
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low, high = sum(min(one, 0) for one in steps), sum(max(one, 0) for one in steps)
    return start + low, start + high + size


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
