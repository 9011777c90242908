"""Bounds of the whole numbers in a graph: every element of a value lies between its two.

Libraries that keep fewer bits than ONNX may take values that provably fit. Shapes, indices and
masks do. A dimension is not negative and no larger than memory, and results from bounded numbers
are bounded. So are reals made of sizes, or by curves with ends. One pass goes over the nodes in
order and runs nothing. Of a constant, it reads no more than a few thousand elements.

Source: interval arithmetic; operators as the ONNX specification defines them.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import ceil, floor, isfinite, prod
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir.costs import PASSING_ON, elements
from subgraphkit.ir.graph import Graph, Node
from subgraphkit.types import DataType, Dim, TensorType

Bounds = tuple[int, int]
"""The least and the greatest that an element may be."""

# The largest dimension of a tensor that libraries with 32-bit sizes hold at all.
_LONGEST: Final = 2**31 - 1

# Elements of a constant that are read; a larger one has the bounds of its type.
_READ: Final = 1 << 16
FEW: Final = 64

# Reals are bounded, by whole numbers around them, if they are made of sizes and curves with ends.
_REAL: Final = frozenset({DataType.DOUBLE, DataType.FLOAT})
_REALS: Final = -(2**62), 2**62

_BOOLEAN: Final = (0, 1)
_UNKNOWN: Final[Mapping[str, Bounds]] = MappingProxyType({})
_kept: Final[WeakKeyDictionary[Graph, Mapping[str, Bounds]]] = WeakKeyDictionary()


def integer_bounds(
    graph: Graph, *, given: Mapping[str, Bounds] = _UNKNOWN, longest: int = _LONGEST
) -> Mapping[str, Bounds]:
    """Return the bounds of every value that holds whole numbers or truth values.

    Those of which nothing is given are kept as long as the graph.

    Args:
        graph: The graph.
        given: Bounds of inputs that are known, or will be checked before every run.
        longest: The largest size of a dimension that is not known.

    Returns:
        Bounds by name; those of the type if nothing better is known. Constants are there only if
        they are read or are outputs.
    """
    if given or longest != _LONGEST:
        return BoundsPass(graph, given, longest).found
    if graph not in _kept:
        _kept[graph] = BoundsPass(graph, given, longest).found
    return _kept[graph]


def _of_type(dtype: DataType) -> Bounds | None:
    if dtype is DataType.BOOL:
        return _BOOLEAN
    if dtype in _WHOLE:
        limits = np.iinfo(dtype.numpy)
        return int(limits.min), int(limits.max)
    return None


class BoundsPass:
    """One pass over a graph."""

    def __init__(self, graph: Graph, given: Mapping[str, Bounds], longest: int) -> None:
        self.found: dict[str, Bounds] = {}
        self._longest = longest
        self._counts: set[str] = set()  # made of sizes, constants and curves with ends
        self.graph = graph
        for name in (*graph.inputs, *graph.defaults):
            if (limits := _of_type(graph.dtype(name))) is not None:
                low, high = given.get(name, limits)
                self.found[name] = max(low, limits[0]), min(high, limits[1])
        for index in graph.order:
            if not graph.is_constant_node(index):
                self.enter(graph.nodes[index])
        for name in graph.outputs:
            self.of(name)

    def enter(self, node: Node) -> None:
        """Take the bounds of what a node makes."""
        rule = None if node.domain or node.bodies else _RULES.get(node.op_type)
        counts, constants = self._counts, self.graph.constants
        is_sized = node.op_type in {"Shape", "Size", *_CURVES}
        if is_sized or all(name in counts or name in constants for name in node.inputs if name):
            counts.update(node.outputs)
        for place, name in enumerate(node.outputs):
            dtype = self.graph.dtype(name) if name else DataType.UNDEFINED
            limits = _REALS if dtype in _REAL and name in counts else _of_type(dtype)
            if limits is None:
                continue
            made = rule(self, node, place) if rule is not None else None
            if made is not None and limits[0] <= made[0] and made[1] <= limits[1]:
                # float32 rounds large numbers
                slack = [abs(end) >> 22 if limits is _REALS else 0 for end in made]
                self.found[name] = made[0] - slack[0], made[1] + slack[1]
            elif limits is not _REALS:
                # Numbers outside the range of the type wrap around, to anywhere in it.
                self.found[name] = limits

    def of(self, name: str) -> Bounds | None:
        """Return the bounds of a value; None if it is left out or holds no whole numbers."""
        if name in self.graph.constants and name not in self.found:
            limits = self._constant(name)
            if limits is not None:
                self.found[name] = limits
        return self.found.get(name)

    def _constant(self, name: str) -> Bounds | None:
        stored = self.graph.constants[name]
        limits, is_real = _of_type(stored.type.dtype), stored.type.dtype in _REAL
        count, most = stored.type.element_count, FEW if is_real else _READ
        if (limits is None and not is_real) or count is None or not 0 < count <= most:
            return limits
        try:
            return _around(stored.array())
        except InvalidModelError:
            return limits

    def input(self, node: Node, place: int) -> Bounds | None:
        """Return the bounds of an input."""
        return self.of(node.inputs[place]) if place < len(node.inputs) else None

    def sizes(self, _name: str) -> Bounds:
        """Return bounds of each size of a value that is not known."""
        return 0, self._longest

    def size(self, name: str) -> Bounds:
        """Return bounds of the number of elements of a value."""
        shape = self.graph.shape(name)
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            # No array has more elements than this, in however many dimensions.
            return self.sizes(name)
        return (elements(shape),) * 2


def _around(array: Any) -> Bounds | None:
    low, high = array.min().item(), array.max().item()
    return (floor(low), ceil(high)) if isfinite(low) and isfinite(high) else None


def _union(*several: Bounds | None) -> Bounds | None:
    known = [one for one in several if one is not None]
    if not known or len(known) < len(several):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


_Rule = Callable[[BoundsPass, Node, int], Bounds | None]


def _one_of(*places: int, zero: bool = False) -> _Rule:
    """Return the rule of an operator that copies elements of these inputs, all if none is named."""

    def rule(here: BoundsPass, node: Node, _: int) -> Bounds | None:
        found = [here.input(node, place) for place in places or range(len(node.inputs))]
        return _union(*found, *([(0, 0)] if zero else []))

    return rule


def _ends(function: Callable[[Sequence[int]], int], ends: Callable[..., Any] = zip) -> _Rule:
    """Return the rule of an operator whose extremes are at the ends of its operands.

    ``ends``: ``zip`` if the result grows with every operand, and ``product`` if not.
    """

    def rule(here: BoundsPass, node: Node, _: int) -> Bounds | None:
        found = [one for name in node.inputs if (one := here.of(name)) is not None]
        if not found or len(found) < len(node.inputs):
            return None
        made = list(map(function, ends(*found)))
        return min(made), max(made)

    return rule


def _within_ends(low: int, high: int) -> _Rule:
    return lambda *_: (low, high)


def _scatter_bounds(here: BoundsPass, node: Node, place: int) -> Bounds | None:
    if node.attribute("reduction", b"none") not in {b"none", "none"}:
        return None
    return _one_of(0, 2)(here, node, place)


def _pad_bounds(here: BoundsPass, node: Node, place: int) -> Bounds | None:
    has_value = any(node.inputs[2:3])
    return (_one_of(0, 2) if has_value else _one_of(0, zero=True))(here, node, place)


def _cast(here: BoundsPass, node: Node, _: int) -> Bounds | None:
    made = node.output_type()
    if isinstance(made, TensorType) and made.dtype is DataType.BOOL:
        return _BOOLEAN
    return here.input(node, 0)


def _shape(here: BoundsPass, node: Node, _: int) -> Bounds | None:
    if (shape := node.shape(0)) is None:
        return here.sizes(node.inputs[0])
    dims = shape[node.attribute("start", 0) : node.attribute("end", len(shape))]
    sizes = [(dim, dim) if isinstance(dim, int) else here.sizes(node.inputs[0]) for dim in dims]
    return _union(*sizes) if sizes else (0, 0)


def _fill_bounds(_: BoundsPass, node: Node, _place: int) -> Bounds | None:
    value = node.attribute("value")
    return _around(value) if value is not None and value.size else None


def _place(axis: int | None) -> _Rule:
    """Return the rule of an operator that makes places along an axis; along any if that is None."""

    def rule(here: BoundsPass, node: Node, output: int) -> Bounds | None:
        if node.op_type == "TopK" and not output:
            return here.input(node, 0)
        shape = node.shape(0)
        _, longest = here.sizes(node.inputs[0])
        dims: Sequence[Dim] = (None,) if shape is None else shape
        if axis is not None:
            dims = (shape[node.attribute("axis", axis)],) if shape else (None,)
        return 0, max([1, *(dim if isinstance(dim, int) else longest for dim in dims)]) - 1

    return rule


def _quotient_bounds(here: BoundsPass, node: Node, _: int) -> Bounds | None:
    left, right = here.input(node, 0), here.input(node, 1)
    if left is None or right is None or right[0] <= 0 <= right[1]:
        return None
    if here.graph.dtype(node.outputs[0]) in _REAL:
        ends = [end for a, b in product(left, right) for end in (a // b, -(-a // b))]
        return min(ends), max(ends)
    ends = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in product(left, right)]
    return min(*ends, 0), max(*ends, 0)


def _rest(here: BoundsPass, node: Node, _: int) -> Bounds | None:
    right = here.input(node, 1)
    if right is None or right[0] <= 0:
        return None
    most = right[1] - (here.graph.dtype(node.outputs[0]) not in _REAL)
    return (-most if node.attribute("fmod", 0) else 0), most


def _absolute(here: BoundsPass, node: Node, _: int) -> Bounds | None:
    if (found := here.input(node, 0)) is None:
        return None
    low, high = found
    return 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))


def _clip_bounds(here: BoundsPass, node: Node, _: int) -> Bounds | None:
    ends = None if node.attributes else here.input(node, 0)  # older ones state their limits so
    for place, nearest in ((1, max), (2, min)):
        limit = here.input(node, place)
        if ends is None or (limit is None and any(node.inputs[place : place + 1])):
            return None
        if limit is not None:
            ends = nearest(ends[0], limit[0]), nearest(ends[1], limit[1])
    return ends


def _sum_bounds(here: BoundsPass, node: Node, _: int) -> Bounds | None:
    """Bound a sum of at most as many elements as there are, none of them included."""
    if (found := here.input(node, 0)) is None:
        return None
    _, count = here.size(node.inputs[0])
    return min(found[0] * count, 0, found[0]), max(found[1] * count, 0, found[1])


def _extreme_bounds(here: BoundsPass, node: Node, _: int) -> Bounds | None:
    """Bound a maximum or minimum; of nothing, it is an end of the type."""
    low, _ = here.size(node.inputs[0])
    return here.input(node, 0) if low > 0 else None


_WHOLE: Final = frozenset(one for one in DataType if one.is_native and one.numpy.kind in "iu")

_ASKING: Final = (
    "And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not",
    "Or", "Xor",
)  # fmt: skip

# Curves with ends. Of other logarithms than of finite numbers, ONNX defines no whole number.
_CURVES: Final[Mapping[str, Bounds]] = {
    "Cos": (-1, 1), "Erf": (-1, 1), "Log": (-746, 710), "Sigmoid": (0, 1), "Sin": (-1, 1),
    "Softmax": (0, 1), "Tanh": (-1, 1),
}  # fmt: skip

# By operator, a function from its inputs to the bounds of an output.
_RULES: Final[Mapping[str, _Rule]] = {
    **{op_type: _within_ends(*ends) for op_type, ends in _CURVES.items()},
    **dict.fromkeys((*PASSING_ON, "Compress", "ReverseSequence"), _one_of(0)),
    **dict.fromkeys(("Ceil", "Floor", "Round"), _one_of(0)),
    **dict.fromkeys((*_ASKING, "EyeLike"), _within_ends(*_BOOLEAN)),
    **dict.fromkeys(("ArgMax", "ArgMin"), _place(0)),
    **dict.fromkeys(("CumSum", "ReduceSum"), _sum_bounds),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _extreme_bounds),
    **dict.fromkeys(("ScatterElements", "ScatterND"), _scatter_bounds),
    **dict.fromkeys(("Add", "Sum"), _ends(sum)),
    "Abs": _absolute,
    "Cast": _cast,
    "Clip": _clip_bounds,
    "Concat": _one_of(),
    "ConstantOfShape": _fill_bounds,
    "Div": _quotient_bounds,
    "Max": _ends(max),
    "Min": _ends(min),
    "Mod": _rest,
    "Mul": _ends(prod, product),
    "Neg": _ends(lambda ends: -ends[0], product),
    "NonZero": _place(None),
    "OneHot": _one_of(2),
    "Pad": _pad_bounds,
    "Range": _one_of(0, 1),
    "Relu": _ends(lambda ends: max(*ends, 0)),
    "Shape": _shape,
    "Sign": _within_ends(-1, 1),
    "Size": lambda here, node, _: here.size(node.inputs[0]),
    "Sub": _ends(lambda ends: ends[0] - ends[1], product),
    "TopK": _place(-1),
    "Trilu": _one_of(0, zero=True),
    "Where": _one_of(1, 2),
}
