"""Whole numbers that OpenVINO gets right.

On the processor, OpenVINO computes with int32, and much of that in float32:

* int64 and uint64 lose their upper half;
* 8 bits saturate where ONNX wraps around;
* comparisons, quotients, remainders and sums of int32 are exact to 24 bits only.

Indices, axes and sizes are small, so nothing is lost there. Other nodes of whole numbers are taken
for one of two reasons. Either they have been seen to be exact, or they are exact while the numbers
that a caller feeds fit into 24 bits. Token ids, masks and rates do. That is checked before every
run, and another backend runs what does not fit (see ``guards``).
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Refusal, Unsupported
from subgraphkit.ir import BoundGraph, Bounds, Node, Subgraph, body_graphs, integer_bounds
from subgraphkit.types import DataType
from subgraphkit_openvino import indices

_WHOLE: Final = frozenset(one for one in DataType if one.is_native and one.numpy.kind in "iu")
_NUMBERS: Final = frozenset(DataType) - {DataType.BOOL, DataType.STRING, DataType.UNDEFINED}
_WIDE: Final = frozenset({DataType.INT64, DataType.UINT32, DataType.UINT64})
_UNSIGNED: Final = frozenset(one for one in _WHOLE if one.numpy.kind == "u")
_OF_16_BITS: Final = frozenset({DataType.INT16, DataType.UINT16})
_COMPARED: Final = Refusal("dtype", "whole numbers, which OpenVINO compares in float32 here")
_ROUNDED: Final = Refusal("dtype", "16-bit steps, which OpenVINO rounds otherwise")
_NARROW: Final = frozenset({DataType.INT8, DataType.INT16, DataType.UINT8, DataType.UINT16})

_EXACT: Final = 1 << 24
"""Whole numbers up to here are exact in float32."""

_READ: Final = 1024  # bytes: what is larger, a bundle leaves to its engines
_24_BITS: Final = -_EXACT, _EXACT
_MASK: Final = 0, 1
"""What is fed and counted up says which tokens are there; their positions fit then."""
_WIDEST: Final = 1 << 63
_32_BITS: Final = -(2**31) + 1, 2**31 - 1
"""Without the least int32, which negated is itself, and cast to bool is false."""

_CHECKED: Final = frozenset({DataType.INT32, DataType.INT64})
"""Types of which the numbers that enter a region are checked."""

_ENDS: Final = frozenset({1, 2, 3, 4})
"""Inputs of Slice that may be out of range, and then mean as far as there is. Where they are
constants, OpenVINO narrows them to what means the same."""

_COUNTING: Final = frozenset({"ArgMax", "ArgMin", "NonZero", "Shape", "Size", "TopK"})
"""Operators whose whole outputs are small, whatever their inputs hold."""

_ORDERING: Final = frozenset({"ArgMax", "ArgMin", "TopK"})  # they compare what they read

_MOVING: Final = frozenset(
    {"Cast", "CastLike", "Compress", "Concat", "ConstantOfShape", "DepthToSpace", "Expand"}
    | {"EyeLike", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "OneHot"}
    | {"Pad", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"}
    | {"Transpose", "Unsqueeze", "Where"}
)
"""Operators that move numbers about; exact up to 32 bits."""

_EXACT_IN_INT32: Final = frozenset(
    {"Abs", "Add", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Max", "Min", "Mul"}
    | {"Neg", "Sign", "Sub"}
)
"""Operators that compute and wrap around like int32."""

_EXACT_IF_SMALL: Final = _EXACT_IN_INT32 | {
    *("Clip", "CumSum", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod"),
    *("Pow", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Relu"),
    *("ReverseSequence", "Sum", "Trilu"),
}

_QUANTISED: Final = frozenset(
    {"ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv"}
    | {"QLinearMatMul", "QuantizeLinear"}
)
"""Operators whose 8-bit numbers are meant for a library like this one."""


class WholeNumbers:
    """The whole numbers in a graph, as far as they are known.

    Attributes:
        trusting: Nodes that were not refused because of what is checked before every run.
    """

    def __init__(self, graph: BoundGraph, given: Mapping[str, Bounds] | None = None) -> None:
        self.trusting: set[int] = set()
        self._graph = graph
        self._small: dict[str, bool] = {}
        self._is_outermost = given is None
        if given is None:
            fed = (*graph.inputs, *graph.defaults)
            given = {name: _24_BITS for name in fed if graph.dtype(name) in _CHECKED}
            given |= dict.fromkeys(indices.summed_values(graph) & given.keys(), _MASK)
        elsewhere = {**given, **_indexing(graph, given)} if self._is_outermost else given
        self._bounds = integer_bounds(graph, given=elsewhere, longest=_EXACT - 1024)
        self._leaving = _leaving(graph)
        for index in graph.order:
            node = graph.nodes[index]
            if not graph.is_constant_node(index):
                small = self._makes_small(node)
                self._small.update((name, small) for name in node.outputs if name)

    def inside(self, body: BoundGraph) -> "WholeNumbers":
        """Return the whole numbers in a body, which are bounded if those around it are."""
        return WholeNumbers(body, self._bounds)

    def refusal(self, node: Node) -> Refusal | None:
        """Return why the whole numbers a node reads and makes would come out wrong, if so."""
        op_type = node.op_type
        known = self._index_bounds(node)
        is_sized = self._is_sized(node)
        is_proven = is_sized or self._is_bounded_when_run(node)
        if problem := "" if is_proven else indices.index_problem(node, known):
            return Refusal("shape", problem)
        checks = known is not None or is_sized
        if node.op_type in indices.UNCHECKED and checks and not node.is_constant(1):
            self.trusting.add(node.id)
        read = self._read(node)
        made = [name for name in node.outputs if self._graph.dtype(name) in _WHOLE]
        if op_type in _COUNTING or not (read or made):
            cut = op_type in _ORDERING or (op_type == "NonZero" and node.dtype(0) in _WIDE)
            return self._judge_order(node, read) if cut else None
        if op_type in _QUANTISED:
            dtypes = {self._graph.dtype(name) for name in (*read, *made)}
            return _long_sum(node) if dtypes.isdisjoint(_OF_16_BITS) else _ROUNDED
        is_small = all(map(self._is_small, (*read, *made)))
        if is_small and (op_type in _MOVING or op_type in _EXACT_IF_SMALL):
            return None
        # What only says where to look and what to mask is small; what a caller gets back is data.
        if self._leaving.isdisjoint(node.outputs) and self._is_bounded(op_type, (*read, *made)):
            self.trusting.add(node.id)
            return None
        return self._misfit(node, read, made)

    def _judge_order(self, node: Node, read: Sequence[str]) -> Refusal | None:
        """Refuse an order of numbers that may need more than the 24 bits of float32."""
        if all(map(self._is_small, read)):
            return None
        if not all(self._is_small(name) or self._is_within(name, _24_BITS) for name in read):
            return _COMPARED
        self.trusting.add(node.id)
        return None

    def _misfit(self, node: Node, read: Sequence[str], made: Sequence[str]) -> Refusal | None:
        """Say which of the numbers of a node are too large, or may be, if they are."""
        op_type = node.op_type
        dtypes = {self._graph.dtype(name) for name in (*read, *made)}
        if op_type in {"Cast", "CastLike"} and node.dtype(0) in _WHOLE - _WIDE:
            dtypes.discard(DataType.INT64)
        if wide := sorted(dtype.label for dtype in dtypes & _WIDE):
            return Refusal("dtype", f"{wide[0]} that may need more than the 31 bits OpenVINO keeps")
        if op_type in _MOVING or (op_type in _EXACT_IN_INT32 and dtypes == {DataType.INT32}):
            return self._judge_move(node)
        labels = ", ".join(sorted(dtype.label for dtype in dtypes))
        return Refusal("dtype", f"{labels}, which OpenVINO computes in float32 or saturates here")

    def guards(self, subgraph: Subgraph) -> tuple[tuple[int, int, int], ...]:
        """Return what has to hold of the inputs of a region for its whole numbers to come out."""
        nodes = [self._graph.nodes[node] for node in subgraph.nodes]
        trusts = any(map(self.trusts, nodes))
        indexed = indices.index_limits(nodes, _24_BITS)
        found = []
        for place, name in enumerate(subgraph.inputs):
            low, high = indexed.get(name, (-_WIDEST, _WIDEST))
            if self._graph.dtype(name) not in _CHECKED or self._is_small(name):
                continue
            if trusts or name in indexed:
                least, most = self._bounds[name]
                found.append((place, max(low, least), min(high, most)))
        return tuple(found)

    def sized_guards(self, subgraph: Subgraph) -> tuple[tuple[int, int, int], ...]:
        """Return inputs of a region whose numbers are indices along an axis of another input.

        Raises:
            Unsupported: The indices, or the size of their axis, do not enter the region.
        """
        places = {name: place for place, name in enumerate(subgraph.inputs)}
        axes = {
            size: (place, axis)
            for place, name in enumerate(subgraph.inputs)
            for axis, size in enumerate(self._graph.shape(name) or ())
        }
        found = []
        for node in filter(self._is_sized, subgraph.members):
            name, size = indices.source(node, places), indices.open_axis(node)
            if name not in places or size not in axes:
                raise Unsupported(indices.OPEN, nodes=[node.id], code="shape")
            found.append((places[name], *axes[size]))
        return tuple(found)

    def _is_sized(self, node: Node) -> bool:
        """Say whether fed indices can be compared with the size of their axis before every run."""
        is_asked = node.op_type in indices.UNCHECKED and self._is_outermost
        size = indices.open_axis(node) if is_asked else ""
        fed = (*self._graph.inputs, *self._graph.defaults)
        name = indices.source(node, ()) if size else ""
        is_fed = name in fed and self._graph.dtype(name) in _CHECKED
        return is_fed and any(size in (self._graph.shape(one) or ()) for one in fed)

    def trusts(self, node: Node) -> bool:
        """Say whether a node, or one in its bodies, is right only if what enters is checked."""
        if self._graph.is_constant_node(node.id):
            return False
        inner = ((self.inside(body), body) for body in body_graphs(node))
        if any(within.trusts(one) for within, body in inner for one in body.nodes):
            return True
        return self.refusal(node) is None and node.id in self.trusting

    def _index_bounds(self, node: Node) -> Bounds | None:
        """Return the bounds of the indices of a node; None if they are checked before every run."""
        name = node.inputs[1] if len(node.inputs) > 1 else ""
        constant = self._graph.constants.get(name)
        is_index = node.op_type in indices.INDICES
        if is_index and constant is not None and constant.type.dtype in _CHECKED:
            array = constant.array()
            return (int(array.min()), int(array.max())) if array.size else (0, 0)
        is_fed = self._is_outermost and name in (*self._graph.inputs, *self._graph.defaults)
        return None if is_fed else self._bounds.get(name)

    def _is_bounded_when_run(self, node: Node) -> bool:
        """Say whether places are computed; ``keep_places_inside`` bounds those.

        Numbers that are fed, and only moved or added, are left to what reports them.
        """
        is_deep = node.op_type == "GatherND" and isinstance((node.shape(1) or ("",))[-1], int)
        if not is_deep and node.op_type != "ScatterElements":
            return False
        waiting = [node.inputs[1]]
        while waiting:
            name = waiting.pop()
            at = self._graph.producers.get(name)
            if at is None and name not in self._graph.constants:
                return False
            maker = self._graph.nodes[at] if at is not None else None
            if maker is not None and maker.op_type in _MOVING | _EXACT_IN_INT32 | {"CumSum"}:
                waiting += self._read(maker)
        return True

    def _is_bounded(self, op_type: str, names: Iterable[str]) -> bool:
        """Say whether the numbers that a node reads and makes fit what it computes in."""
        is_exact = op_type in _MOVING or op_type in _EXACT_IN_INT32
        limits = _32_BITS if is_exact else _24_BITS
        fits = all(self._is_small(name) or self._is_within(name, limits) for name in names)
        return fits and (is_exact or op_type in _EXACT_IF_SMALL)

    def _is_within(self, name: str, limits: Bounds) -> bool:
        low, high = self._bounds.get(name, (0, 0))
        return self._graph.dtype(name) in _CHECKED and limits[0] <= low and high <= limits[1]

    def _judge_move(self, node: Node) -> Refusal | None:
        read, made = node.dtype(0), self._graph.dtype(node.outputs[0])
        if made in _OF_16_BITS and read in _WHOLE and not np.can_cast(read.numpy, made.numpy):
            return Refusal("dtype", "a cast to 16 bits, where OpenVINO keeps what lies beyond them")
        if made is not DataType.BOOL or read is not DataType.INT32:
            return None
        return Refusal("dtype", "a cast to bool, of which OpenVINO makes false of the least int32")

    def _makes_small(self, node: Node) -> bool:
        op_type = node.op_type
        if op_type in _COUNTING:
            return True
        if not _NARROW.isdisjoint(map(self._graph.dtype, node.outputs)):
            # it may leave its 8 or 16 bits, and wraps around there
            return op_type == "Cast" and self._fits_type(node)
        if op_type in {"Cast", "CastLike"}:
            dtype, is_unsigned = node.dtype(0), self._graph.dtype(node.outputs[0]) in _UNSIGNED
            if is_unsigned and dtype not in _UNSIGNED:
                return self._fits_type(node)  # less than 0 becomes more than there is
            # made of sizes, or by curves with ends
            is_bounded = dtype not in _WHOLE and self._is_within(node.outputs[0], _24_BITS)
            is_few = dtype in _NARROW | {DataType.BOOL}
            return is_bounded or is_few or self._is_small(node.inputs[0])
        if op_type in {"ConstantOfShape", "EyeLike"}:
            value = node.attribute("value")
            return value is None or _fits(value)
        moves = op_type in _MOVING or op_type in _EXACT_IF_SMALL
        return moves and all(map(self._is_small, self._read(node, _NUMBERS)))

    def _fits_type(self, node: Node) -> bool:
        low, high = self._bounds.get(node.inputs[0], (-_WIDEST, _WIDEST))
        there = np.iinfo(self._graph.dtype(node.outputs[0]).numpy)
        return node.dtype(0) is DataType.BOOL or (there.min <= low and high <= there.max)

    def _read(self, node: Node, kinds: Container[DataType] = _WHOLE) -> list[str]:
        """Return the inputs of a node that are whole, or of other kinds, and no indices."""
        steering = indices.INDICES.get(node.op_type, frozenset())
        if node.op_type == "Slice":
            steering = frozenset(filter(node.is_constant, _ENDS))
        return [
            name
            for place, name in enumerate(node.inputs)
            if place not in steering and self._graph.dtype(name) in kinds
        ]

    def _is_small(self, name: str) -> bool:
        if name not in self._small:
            it = self._graph.constants.get(name)
            counts = it is not None and it.type.dtype in _NUMBERS
            few = it is not None and (it.type.dtype in _WHOLE or (it.type.nbytes or 0) <= _READ)
            self._small[name] = counts and few and it is not None and _fits(it.array())
        return self._small[name]


def _indexing(graph: BoundGraph, given: Mapping[str, Bounds]) -> dict[str, Bounds]:
    """Return how far fed numbers may go that are only moved until they are indices.

    Larger ones would be out of range. So they are checked before every run.
    """
    found: dict[str, Bounds] = {}
    for node in map(graph.nodes.__getitem__, graph.order):
        limits = indices.reach(node) if node.op_type in indices.UNCHECKED else None
        if limits is None:
            continue
        name = indices.source(node, ())
        if name in given:
            least, most = found.get(name, given[name])
            found[name] = max(least, limits[0]), min(most, limits[1])
    return found


def _leaving(graph: BoundGraph) -> set[str]:
    """Return the whole numbers and truth values that end up among the outputs as such."""
    kinds = {*_WHOLE, DataType.BOOL}
    found = {name for name in graph.outputs if graph.dtype(name) in kinds}
    for node in reversed(graph.order):
        if not found.isdisjoint(graph.table.outputs[node]):
            found.update(name for name in graph.read_by(node) if graph.dtype(name) in kinds)
    return found


def _long_sum(node: Node) -> Refusal | None:
    """Refuse sums of 8-bit products that may leave what float32 can hold."""
    if node.op_type not in {"ConvInteger", "MatMulInteger"}:
        return None
    if (shape := node.shape(1)) is None:
        return Refusal("rank", "a sum of an unknown number of products, which are added in float32")
    summed = shape[1:] if node.op_type == "ConvInteger" else shape[-2:-1] or shape
    known = [dim for dim in summed if isinstance(dim, int)]
    if len(known) == len(summed) and prod(known) <= _EXACT // 255**2:
        return None
    return Refusal("shape", f"sums of {list(summed)} products, which OpenVINO adds in float32")


def _fits(array: Any) -> bool:
    """Say whether all numbers are exact in float32."""
    numbers = np.asarray(array).astype(np.float64)
    return not numbers.size or bool(numbers.max() <= _EXACT and numbers.min() >= -_EXACT)
