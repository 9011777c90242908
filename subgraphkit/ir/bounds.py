"""Bounds of the whole numbers in a graph: between which two every element of a value lies.

Libraries that keep fewer bits than ONNX gives a type may take what provably fits. Shapes, indices
and masks do: a dimension is not negative and no larger than memory, and what is computed from
bounded numbers is bounded. One pass over the nodes, in order; nothing is run, and of constants no
more than a few thousand elements are read.

Source: interval arithmetic; operators as the ONNX specification defines them.
"""

import math
from collections.abc import Callable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Final

import numpy as np

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir.graph import BoundGraph, Node
from subgraphkit.types import DataType, TensorType

Bounds = tuple[int, int]
"""The least and the greatest that an element may be."""

_LONGEST: Final = 2**31 - 1
"""The largest dimension of a tensor that libraries with 32-bit sizes hold at all."""

_READ: Final = 1 << 16
"""Elements of a constant that are looked at; of a larger one its type is all that is known."""

_BOOLEAN: Final = (0, 1)
_UNKNOWN: Final[Mapping[str, Bounds]] = MappingProxyType({})


def integer_bounds(
    graph: BoundGraph,
    *,
    given: Mapping[str, Bounds] = _UNKNOWN,
    longest: int = _LONGEST,
) -> dict[str, Bounds]:
    """Return the bounds of every value that holds whole numbers or truth values.

    Args:
        graph: The graph.
        given: What is known of inputs, or will be checked before every run.
        longest: The largest size of a dimension that is not known.

    Returns:
        Bounds by name, of constants only where they are read or are outputs; those of its type
        where nothing better is known.
    """
    return _Pass(graph, given, longest).found


def _of_type(dtype: DataType) -> Bounds | None:
    if dtype is DataType.BOOL:
        return _BOOLEAN
    if dtype in _WHOLE:
        limits = np.iinfo(dtype.numpy)
        return int(limits.min), int(limits.max)
    return None


class _Pass:
    """One pass over a graph."""

    def __init__(self, graph: BoundGraph, given: Mapping[str, Bounds], longest: int) -> None:
        self.found: dict[str, Bounds] = {}
        self.longest = longest
        self._graph = graph
        for name in (*graph.inputs, *graph.defaults):
            limits = _of_type(graph.dtype(name))
            if limits is not None:
                self.found[name] = _within(given.get(name, limits), limits)
        for index in graph.order:
            if not graph.is_constant_node(index):
                self._enter(graph.nodes[index])
        for name in graph.outputs:
            self.of(name)

    def _enter(self, node: Node) -> None:
        rule = None if node.domain or node.bodies else _RULES.get(node.op_type)
        for place, name in enumerate(node.outputs):
            limits = _of_type(self._graph.dtype(name)) if name else None
            if limits is None:
                continue
            made = rule(self, node, place) if rule is not None else None
            # What leaves the range of the type wraps around, to anywhere in it.
            self.found[name] = made if made is not None and _is_within(made, limits) else limits

    def of(self, name: str) -> Bounds | None:
        """Return the bounds of a value; None if it is left out or holds no whole numbers."""
        if name in self._graph.constants and name not in self.found:
            limits = self._constant(name)
            if limits is not None:
                self.found[name] = limits
        return self.found.get(name)

    def _constant(self, name: str) -> Bounds | None:
        stored = self._graph.constants[name]
        limits = _of_type(stored.type.dtype)
        count = stored.type.element_count
        if limits is None or count is None or not 0 < count <= _READ:
            return limits
        try:
            array = stored.array()
        except InvalidModelError:
            return limits
        return int(array.min()), int(array.max())

    def input(self, node: Node, place: int) -> Bounds | None:
        """Return the bounds of an input."""
        return self.of(node.inputs[place]) if place < len(node.inputs) else None

    def size(self, name: str, axes: tuple[int, ...] | None = None) -> Bounds:
        """Return bounds of the number of elements of a value, or of those along some axes."""
        shape = self._graph.shape(name)
        if shape is None:
            return 0, self.longest
        dims = [shape[axis] for axis in axes] if axes is not None else shape
        known = [dim for dim in dims if isinstance(dim, int)]
        if len(known) == len(dims):
            return math.prod(known), math.prod(known)
        # No array has more elements than this, in however many dimensions.
        return 0, self.longest


def _is_within(inner: Bounds, outer: Bounds) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _within(bounds: Bounds, limits: Bounds) -> Bounds:
    return max(bounds[0], limits[0]), min(bounds[1], limits[1])


def _union(*several: Bounds | None) -> Bounds | None:
    known = [one for one in several if one is not None]
    if not known or len(known) < len(several):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


_Rule = Callable[[_Pass, Node, int], Bounds | None]


def _first(here: _Pass, node: Node, _: int) -> Bounds | None:
    return here.input(node, 0)


def _all_inputs(here: _Pass, node: Node, _: int) -> Bounds | None:
    return _union(*(here.of(name) for name in node.inputs))


def _chosen(here: _Pass, node: Node, _: int) -> Bounds | None:
    return _union(here.input(node, 1), here.input(node, 2))


def _updated(here: _Pass, node: Node, _: int) -> Bounds | None:
    if node.attribute("reduction", b"none") not in {b"none", "none"}:
        return None
    return _union(here.input(node, 0), here.input(node, 2))


def _with_zero(here: _Pass, node: Node, _: int) -> Bounds | None:
    return _union(here.input(node, 0), (0, 0))


def _padded(here: _Pass, node: Node, _: int) -> Bounds | None:
    has_value = any(node.inputs[2:3])
    return _union(here.input(node, 0), here.input(node, 2) if has_value else (0, 0))


def _truth(here: _Pass, node: Node, _: int) -> Bounds | None:
    del here, node
    return _BOOLEAN


def _cast(here: _Pass, node: Node, _: int) -> Bounds | None:
    made = node.output_type()
    if isinstance(made, TensorType) and made.dtype is DataType.BOOL:
        return _BOOLEAN
    return here.input(node, 0)


def _shape(here: _Pass, node: Node, _: int) -> Bounds | None:
    shape = node.shape(0)
    if shape is None:
        return 0, here.longest
    dims = shape[node.attribute("start", 0) : node.attribute("end", len(shape))]
    sizes = [(dim, dim) if isinstance(dim, int) else (0, here.longest) for dim in dims]
    return _union(*sizes) if sizes else (0, 0)


def _size(here: _Pass, node: Node, _: int) -> Bounds | None:
    return here.size(node.inputs[0])


def _filled(here: _Pass, node: Node, _: int) -> Bounds | None:
    del here
    value = node.attribute("value")
    return (int(value.flat[0]),) * 2 if value is not None and value.size else None


def _one_hot(here: _Pass, node: Node, _: int) -> Bounds | None:
    return here.input(node, 2)


def _place(here: _Pass, node: Node, _: int) -> Bounds | None:
    shape = node.shape(0)
    dims = shape if shape is not None else (None,)
    sizes = [dim if isinstance(dim, int) else here.longest for dim in dims]
    return 0, max([*sizes, 1]) - 1


def _place_along(here: _Pass, node: Node, axis: int) -> Bounds:
    shape = node.shape(0)
    size = shape[axis] if shape else None
    return 0, max(size if isinstance(size, int) else here.longest, 1) - 1


def _place_of_most(here: _Pass, node: Node, _: int) -> Bounds | None:
    return _place_along(here, node, node.attribute("axis", 0))


def _place_of_top(here: _Pass, node: Node, place: int) -> Bounds | None:
    if place:
        return _place_along(here, node, node.attribute("axis", -1))
    return here.input(node, 0)


def _range(here: _Pass, node: Node, _: int) -> Bounds | None:
    start, limit = here.input(node, 0), here.input(node, 1)
    return _union(start, limit)


def _pairs(function: Callable[[int, int], int]) -> _Rule:
    """Return the rule of an operator whose extremes are at the ends of both operands."""

    def rule(here: _Pass, node: Node, _: int) -> Bounds | None:
        left, right = here.input(node, 0), here.input(node, 1)
        if left is None or right is None:
            return None
        ends = [function(a, b) for a, b in product(left, right)]
        return min(ends), max(ends)

    return rule


def _divided(here: _Pass, node: Node, _: int) -> Bounds | None:
    left, right = here.input(node, 0), here.input(node, 1)
    if left is None or right is None or right[0] <= 0 <= right[1]:
        return None
    ends = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in product(left, right)]
    return min(*ends, 0), max(*ends, 0)


def _rest(here: _Pass, node: Node, _: int) -> Bounds | None:
    right = here.input(node, 1)
    if right is None or right[0] <= 0:
        return None
    most = right[1] - 1
    return (-most if node.attribute("fmod", 0) else 0), most


def _negated(here: _Pass, node: Node, _: int) -> Bounds | None:
    found = here.input(node, 0)
    return None if found is None else (-found[1], -found[0])


def _absolute(here: _Pass, node: Node, _: int) -> Bounds | None:
    found = here.input(node, 0)
    if found is None:
        return None
    low, high = found
    return 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))


def _sign(here: _Pass, node: Node, _: int) -> Bounds | None:
    del here, node
    return -1, 1


def _extreme(function: Callable[..., int]) -> _Rule:
    def rule(here: _Pass, node: Node, _: int) -> Bounds | None:
        found = [here.of(name) for name in node.inputs]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(found):
            return None
        return function(low for low, _ in known), function(high for _, high in known)

    return rule


def _sum(here: _Pass, node: Node, _: int) -> Bounds | None:
    found = [here.of(name) for name in node.inputs]
    if any(one is None for one in found):
        return None
    return sum(one[0] for one in found if one), sum(one[1] for one in found if one)


def _clipped(here: _Pass, node: Node, _: int) -> Bounds | None:
    found = here.input(node, 0)
    low, high = here.input(node, 1), here.input(node, 2)
    if found is None or (low is None and _has(node, 1)) or (high is None and _has(node, 2)):
        return None
    ends = found
    if low is not None:
        ends = max(ends[0], low[0]), max(ends[1], low[1])
    if high is not None:
        ends = min(ends[0], high[0]), min(ends[1], high[1])
    return ends


def _has(node: Node, place: int) -> bool:
    return place < len(node.inputs) and bool(node.inputs[place])


def _relu(here: _Pass, node: Node, _: int) -> Bounds | None:
    found = here.input(node, 0)
    return None if found is None else (max(found[0], 0), max(found[1], 0))


def _summed(here: _Pass, node: Node, _: int) -> Bounds | None:
    """Bound a sum of at most as many elements as there are, none of them included."""
    found = here.input(node, 0)
    if found is None:
        return None
    _, count = here.size(node.inputs[0])
    return min(found[0] * count, 0, found[0]), max(found[1] * count, 0, found[1])


def _reduced(here: _Pass, node: Node, _: int) -> Bounds | None:
    """Bound a maximum or minimum; of nothing, it is an end of the type."""
    low, _ = here.size(node.inputs[0])
    return here.input(node, 0) if low > 0 else None


_WHOLE: Final = frozenset(
    {DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64}
    | {DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64}
)

_MOVING: Final = (
    "Compress", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
    "Identity", "Reshape", "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile",
    "Transpose", "Unsqueeze",
)  # fmt: skip
_ASKING: Final = (
    "And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not",
    "Or", "Xor",
)  # fmt: skip

_RULES: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(_MOVING, _first),
    **dict.fromkeys(_ASKING, _truth),
    "Abs": _absolute,
    "Add": _pairs(int.__add__),
    "ArgMax": _place_of_most,
    "ArgMin": _place_of_most,
    "Cast": _cast,
    "Clip": _clipped,
    "Concat": _all_inputs,
    "ConstantOfShape": _filled,
    "CumSum": _summed,
    "Div": _divided,
    "EyeLike": _truth,
    "Max": _extreme(max),
    "Min": _extreme(min),
    "Mod": _rest,
    "Mul": _pairs(int.__mul__),
    "Neg": _negated,
    "NonZero": _place,
    "OneHot": _one_hot,
    "Pad": _padded,
    "Range": _range,
    "ReduceMax": _reduced,
    "ReduceMin": _reduced,
    "ReduceSum": _summed,
    "Relu": _relu,
    "ScatterElements": _updated,
    "ScatterND": _updated,
    "Shape": _shape,
    "Sign": _sign,
    "Size": _size,
    "Sub": _pairs(int.__sub__),
    "Sum": _sum,
    "TopK": _place_of_top,
    "Trilu": _with_zero,
    "Where": _chosen,
}
"""By operator, a function from its inputs to the bounds of an output."""
