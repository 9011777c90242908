"""Places of QuantizeLinear and DequantizeLinear, for int8 and float8, and the scales to them.

Inputs of Conv, ConvTranspose, Gemm and MatMul are quantized. Their results are not: bias,
normalisation and activation run in the same kernel. Of the two sides of a residual Add, the longer
one ends in a convolution, which does the Add as well. Only the other side is quantized. Behind a
matrix product, the other side is the stream of a transformer from end to end. It stays, because in
int8 its few large elements would drown all others.

Source: "Working with Quantized Types" in NVIDIA's TensorRT documentation, and the ONNX quantizer of
NVIDIA ModelOpt, with its rules for nodes that do not pay.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from subgraphkit.ir.adjacency import unite_groups
from subgraphkit.rewriting.draft import Draft, attribute, label_of
from subgraphkit.rewriting.ranges import Range, Ranges
from subgraphkit.rewriting.records import QUANTIZED, Kept, Precision
from subgraphkit.types import DataType, TensorType

PRODUCTS: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
# Fewer channels, rows or columns than this leave int8 units idle.
_FEW: Final = 16

# Elements of a kernel beyond which there are no convolutions in float8.
_LARGEST_KERNEL: Final = 32
_MULTIPLE: Final = 8
_NARROW: Final = 3
_MATRIX: Final = 2
_SIDES: Final = 2
# Products whose kernel does a residual Add.
_ADDING: Final = frozenset({"Conv", "ConvTranspose"})

_SMALLEST_THRESHOLD: Final = 1e-7 * 127


@dataclass(frozen=True, slots=True)
class Place:
    """A node that is to read int8.

    Attributes:
        data: Which input is a computed value to be quantized.
        weight: Which input is a constant to be quantized; None for an Add.
        axis: The axis of the weight with a scale each.
    """

    node: onnx.NodeProto
    data: int
    weight: int | None = None
    axis: int = 0


def places(draft: Draft, precision: Precision, ranges: Ranges) -> tuple[list[Place], list[Kept]]:
    """Find the nodes to quantize, and say of every other product why not."""
    found, kept = [], []
    for node in draft.nodes:
        if node.op_type not in PRODUCTS or node.domain:
            continue
        why = _unfit(node, draft, precision) or _unfit_value(node.input[0], ranges, precision)
        if why:
            kept.append(Kept(label_of(node), node.op_type, *why, step="quantize"))
        else:
            found.append(Place(node, 0, 1, _axis(node)))
    return [*found, *_shortcuts(draft, found, precision, ranges)], kept


def _unfit(node: onnx.NodeProto, draft: Draft, precision: Precision) -> tuple[str, str] | None:
    if unwanted := precision.why_unwanted(node.op_type, draft.names_of(node)):
        return "user", unwanted
    data, weight = node.input[0], node.input[1]
    if weight not in draft.constants or weight in draft.pinned:
        computed = node.op_type == "MatMul" and data not in draft.constants
        return ("attention", "") if computed else ("weight", f"{weight!r} is computed")
    if data in draft.constants or not draft.is_float(data) or not draft.is_float(weight):
        return "weight", f"{data!r} is constant or no float32"
    if not np.isfinite(draft.array(weight)).all():
        return "weights", f"{weight!r} holds NaN or infinity"
    if node.op_type in {"Gemm", "MatMul"}:
        return _unfit_matrix(node, draft)
    return _unfit_conv(node, draft, precision)


def _unfit_matrix(node: onnx.NodeProto, draft: Draft) -> tuple[str, str] | None:
    shape = draft.array(node.input[1]).shape
    if len(shape) != _MATRIX:
        return "weight", f"a weight of rank {len(shape)}"
    if min(shape) < _FEW:
        return "small", f"a weight of {shape[0]} x {shape[1]}"
    rows = draft.shape(node.input[0])
    if attribute(node, "transA", 0):
        rows = tuple(reversed(rows or ()))
    # one row: every weight is read for one product, so reading takes the time
    is_one = rows and all(dim == 1 for dim in rows[:-1])
    return ("small", "a vector times a matrix") if is_one else None


def _unfit_conv(node: onnx.NodeProto, draft: Draft, precision: Precision) -> tuple[str, str] | None:
    shape, group = draft.array(node.input[1]).shape, attribute(node, "group", 1)
    if precision.kind == "fp8" and np.prod(shape[2:]) > _LARGEST_KERNEL:
        return "kernel", f"a kernel of {list(shape[2:])}"
    to, read = shape[0], shape[1] * group
    if node.op_type == "ConvTranspose":
        to, read = shape[1] * group, shape[0]
    if group > 1:
        is_unfit = to % _MULTIPLE or min(shape[2:], default=1) < _NARROW
        text = f"{group} groups, {to} channels, kernel {list(shape[2:])}"
        return ("channels", text) if is_unfit else None
    is_first = node.input[0] in {value.name for value in draft.frame.graph.input}
    is_unfit = to < _FEW or (read < _FEW and not (is_first and to % _MULTIPLE == 0))
    return ("channels", f"{read} channels to {to}") if is_unfit else None


def _axis(node: onnx.NodeProto) -> int:
    """Return the axis of a weight along which the results lie."""
    if node.op_type == "Gemm":
        return 0 if attribute(node, "transB", 0) else 1
    return 0 if node.op_type == "Conv" else 1


def _unfit_value(value: str, ranges: Ranges, precision: Precision) -> tuple[str, str] | None:
    if (found := ranges.values.get(value)) is None:
        return "range", repr(value)
    if found.threshold < _SMALLEST_THRESHOLD:
        return "constant", repr(value)
    snr = math.inf if found.snr_db is None or precision.kind != "int8" else found.snr_db
    is_coarse = snr < precision.min_input_snr
    return ("coarse", f"{value!r} would be held at {snr:.1f} dB") if is_coarse else None


def _shortcuts(
    draft: Draft, found: Sequence[Place], precision: Precision, ranges: Ranges
) -> Iterator[Place]:
    """Find the Adds that join a quantized convolution with a shortcut."""
    quantized = {id(place.node) for place in found if place.node.op_type in _ADDING}
    producers, read = draft.producers(), draft.readers()
    depths = _depths(draft)
    for node in draft.nodes:
        if not _joins(node, draft):
            continue
        ends = [
            side
            for side, value in enumerate(node.input)
            if id(_product(value, draft, producers, read)) in quantized
        ]
        if not ends or precision.why_unwanted(node.op_type, draft.names_of(node)):
            continue
        backbone = max(ends, key=lambda side: depths.get(node.input[side], 0))
        shortcut = 1 - backbone
        value = node.input[shortcut]
        if value != node.input[backbone] and not _unfit_value(value, ranges, precision):
            yield Place(node, shortcut)


def _joins(node: onnx.NodeProto, draft: Draft) -> bool:
    """Say whether a node adds two computed values of one shape."""
    if node.op_type not in {"Add", "Sum"} or len(node.input) != _SIDES:
        return False
    shapes = [draft.shape(name) for name in node.input]
    return shapes[0] == shapes[1] and not any(name in draft.constants for name in node.input)


def _product(value: str, draft: Draft, producers: Any, read: Any) -> onnx.NodeProto | None:
    """Return the product whose kernel makes a value for this reader alone, bias added."""
    node = producers.get(value)
    while node is not None and read[value] == 1 and node.op_type not in PRODUCTS:
        computed = [name for name in node.input if name not in draft.constants]
        if node.op_type != "Add" or len(computed) != 1:
            return None
        value = computed[0]
        node = producers.get(value)
    return node if read[value] == 1 else None


def _depths(draft: Draft) -> dict[str, int]:
    """Return how many nodes the longest path to each value has."""
    depths: dict[str, int] = {}
    for node in draft.nodes:
        depth = 1 + max((depths.get(value, 0) for value in node.input), default=0)
        depths.update((value, depth) for value in node.output if value)
    return depths


_Array = npt.NDArray[Any]


def quantize(
    draft: Draft, found: Sequence[Place], ranges: Ranges, precision: Precision
) -> tuple[str, ...]:
    """Let nodes read int8 or float8, in place.

    A value is quantized once for all its readers, right where it is made. Values that a Concat
    joins share the scale of the whole, so that it can join int8.
    """
    wanted = {place.node.input[place.data] for place in found}
    work = _Quantizing(draft, _shared_thresholds(draft, wanted, ranges, precision), precision.kind)
    for place in found:
        node = place.node
        if place.weight is not None:
            node.input[place.weight] = work.weight(node.input[place.weight], place.axis)
    for place in found:
        place.node.input[place.data] = work.value(place.node.input[place.data])
    draft.nodes[:] = work.arrange()
    return tuple(label_of(place.node) for place in found)


def quantized_weight(weight: _Array, axis: int, kind: str = "int8") -> tuple[_Array, _Array]:
    """Return a weight as int8 from -127 to 127, or float8, and the scale of each channel.

    A channel of zeros has the scale 1.

    Source: ``scale = max|w| / 127``, or 448 for float8, as TensorRT defines it for symmetric
    quantisation.
    """
    dtype, most_of_type = QUANTIZED[kind]
    others = tuple(i for i in range(weight.ndim) if i != axis)
    most = np.abs(weight.astype(np.float64)).max(axis=others, initial=0.0)
    scale = np.where(most > 0, most / most_of_type, 1.0).astype(np.float32)
    # a channel of the smallest numbers has a scale that float32 cannot tell from 0
    scale[scale == 0] = np.finfo(np.float32).tiny
    along = [1] * weight.ndim
    along[axis] = -1
    steps = weight / scale.astype(np.float64).reshape(along)
    steps = np.rint(steps) if kind == "int8" else steps
    return np.clip(steps, -most_of_type, most_of_type).astype(dtype.numpy), scale


def _shared_thresholds(
    draft: Draft, wanted: set[str], ranges: Ranges, precision: Precision
) -> dict[str, float]:
    """Return the threshold of each value, the same for all that one Concat joins."""
    groups = [[value] for value in wanted]
    for node in draft.nodes if wanted else ():
        joined = [value for value in (*node.input, *node.output) if value in wanted]
        groups += [joined] if node.op_type == "Concat" and joined else []
    found: dict[str, float] = {}
    for group in unite_groups(groups):
        most = max(_most(ranges.values[value], precision) for value in group)
        found.update(dict.fromkeys(group, most))
    return found


def _most(found: Range, precision: Precision) -> float:
    """Return the magnitude that the largest number stands for; float8 has no need to cut any."""
    seen = found.magnitude if precision.kind == "fp8" else None
    return found.threshold if seen is None else max(seen, found.threshold)


@dataclass(eq=False)
class _Quantizing:
    """The pairs of nodes that are added, by the value they stand behind."""

    draft: Draft
    thresholds: dict[str, float]
    kind: str
    _behind: dict[str, list[onnx.NodeProto]] = field(default_factory=dict)
    _done: dict[tuple[str, int], str] = field(default_factory=dict)

    def value(self, value: str) -> str:
        """Quantize a computed value; return the value to read in its place."""
        if (value, -1) not in self._done:
            draft = self.draft
            dtype, most = QUANTIZED[self.kind]
            names = self._store_scale(value, np.array(self.thresholds[value] / most, np.float32))
            short = draft.fresh(f"{value}_{self.kind}")
            draft.retype(short, dtype, value)
            node = helper.make_node("QuantizeLinear", [value, *names], [short])
            node.name = draft.fresh(f"quantize_{value}")
            self._done[value, -1] = self._dequantize(value, short, names, [node])
        return self._done[value, -1]

    def _store_scale(self, value: str, scale: _Array) -> tuple[str, str]:
        """Store a scale, and zero points of 0 to it; return their names."""
        zero = np.zeros(scale.shape, QUANTIZED[self.kind][0].numpy)
        point = f"{value}_zero_point"
        return self.draft.store(f"{value}_scale", scale, ""), self.draft.store(point, zero, "")

    def weight(self, value: str, axis: int) -> str:
        """Quantize a weight; return the value to read in its place."""
        if (value, axis) not in self._done:
            draft = self.draft
            array, scale = quantized_weight(draft.array(value), axis, self.kind)
            short = draft.store(f"{value}_{self.kind}", array, value)
            names = self._store_scale(value, scale)
            self._done[value, axis] = self._dequantize("", short, names, [], axis=axis)
        return self._done[value, axis]

    def _dequantize(
        self,
        place: str,
        short: str,
        names: tuple[str, str],
        nodes: list[onnx.NodeProto],
        axis: int | None = None,
    ) -> str:
        long = self.draft.fresh(f"{short.removesuffix(f'_{self.kind}')}_dequantized")
        shape = self.draft.shape(short)
        self.draft.types[long] = TensorType(DataType.FLOAT, shape)
        node = helper.make_node("DequantizeLinear", [short, *names], [long])
        if axis is not None:
            node.attribute.append(helper.make_attribute("axis", axis))
        node.name = self.draft.fresh(f"dequantize_{short}")
        self._behind.setdefault(place, []).extend([*nodes, node])
        return long

    def arrange(self) -> list[onnx.NodeProto]:
        """Return all nodes, each pair behind the producer of its value."""
        behind = dict(self._behind)
        nodes = behind.pop("", [])  # weights come first
        made = {value for node in self.draft.nodes for value in node.output}
        for value in [value for value in behind if value not in made]:
            nodes += behind.pop(value)
        for node in self.draft.nodes:
            nodes.append(node)
            for value in node.output:
                nodes += behind.pop(value, [])
        return nodes
