"""Uses of operators that OpenVINO 2026.4 takes and computes otherwise, found with random graphs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np

from subgraphkit.ir import BoundGraph, Node, body_graphs
from subgraphkit.types import DataType
from subgraphkit_openvino.geometry import far_window, lost_point, other_steps, padded_point

_CORNERS: Final = 4
_PEEPHOLES: Final = 7
_LENGTHS: Final = 4
_MADE_SCALE: Final = 6
_SCALES: Final = (1, 4, _MADE_SCALE)
_SUMMAND: Final = 2
_VOLUME: Final = 3
_PRODUCTS: Final = frozenset({"Conv", "ConvTranspose", "Einsum", "FusedGemm", "Gemm", "MatMul"})


def turned_products(graph: BoundGraph) -> set[int]:
    """Return products that read their weights transposed where another reads them as they are."""
    readers: dict[str, dict[bool, list[int]]] = {}
    for node in graph.nodes:
        if node.op_type in _PRODUCTS and len(node.inputs) > 1:
            is_turned = node.op_type == "ConvTranspose" or bool(node.attribute("transB", 0))
            readers.setdefault(node.inputs[1], {}).setdefault(is_turned, []).append(node.id)
    return {one for ways in readers.values() if len(ways) > 1 for one in ways[True]}


def is_stored_otherwise(nodes: Iterable[Node]) -> bool:
    """Say whether OpenVINO (2026.4), once exported, forgets the number of cosines of halves."""

    def makers(node: Node) -> list[str]:
        return [one.op_type for place in range(2) if (one := node.producer(place))]

    for node in nodes:
        if any(is_stored_otherwise(body.nodes) for body in body_graphs(node)):
            return True
        joins = node.op_type == "Concat" and makers(node) == ["Sub", "Add"]
        if joins and (first := node.producer(0)) and makers(first) == ["Mul", "Mul"]:
            return True
    return False


def _compress(node: Node) -> str:
    """Refuse what keeps nothing, for certain: the process ends."""
    condition = node.constant(1)
    is_empty = 0 in (node.shape(1) or ()) or (condition is not None and not condition.any())
    return "a condition that keeps nothing, which ends the process" if is_empty else ""


def _turned_halves(node: Node) -> str:
    """Refuse rotary positions for more rows than are turned."""
    maker, read = node.producer(0), node.graph.shape(node.outputs[0]) or ()
    if maker is None or maker.op_type != "Neg":
        return ""
    made = [one.graph.shape(one.outputs[0]) for one in node.consumers() if one.op_type == "Mul"]
    pairs = (pair for one in made for pair in zip(read, one or (), strict=False))
    spread = any(isinstance(size, int) and size != before for before, size in pairs)
    return "positions of more rows than it turns, which OpenVINO leaves out" if spread else ""


def _conv(node: Node) -> str:
    """Refuse filters of open size; of one channel, unlike dilations, and steps to one column."""
    place = 3 if node.op_type == "QLinearConv" else 1
    maker = node.producer(place)
    made = maker is not None and maker.op_type == "DequantizeLinear" and maker
    if not is_fixed(node, place) or (made and not all(map(made.is_constant, _steps(made, 0)))):
        return "filters of an open size, or of steps that are fed, at which OpenVINO fails"
    filters, strides = node.shape(place) or (), tuple(node.attribute("strides", None) or ())
    is_other = node.attribute("group", 1) > 1 and node.dtype() is not DataType.BFLOAT16
    if filters[1:2] != (1,) or is_other:
        return ""
    if len(filters) > _VOLUME + 1 and len(set(node.attribute("dilations", None) or ())) > 1:
        return "dilations of a volume of one channel that differ, of which OpenVINO takes others"
    width = (node.graph.shape(node.outputs[0]) or (None,))[-1]
    is_wide = len(strides) < _VOLUME - 1 or (isinstance(width, int) and width > 1)
    told = "steps along a last axis that is left with one element, with which OpenVINO adds others"
    return "" if is_wide or strides[-2] > 1 or strides[-1] == 1 else told


def _turned_columns(node: Node) -> str:
    """Refuse a stored row for the open columns of a product with a turned factor."""
    maker, sizes = node.producer(1), node.graph.shape(node.outputs[0]) or (0,)
    if maker is None or maker.op_type != "Transpose" or isinstance(sizes[-1], int):
        return ""
    read = [(one, place) for one in node.consumers() for place in range(len(one.inputs))]
    same = [(one, place) for one, place in read if one.dtype(place) is node.dtype()]
    rows = (one.shape(place) or () for one, place in same if one.is_constant(place))
    told = "a stored row for the open columns of a turned factor, which it fails to compile"
    return told if any(row[-1:] > (1,) for row in rows) else ""


def is_stored(node: Node, place: int, steps: int = 8) -> bool:
    """Say whether an input is stored, or made in a few steps of what is, and of nothing else."""
    maker = node.producer(place) if steps and not node.is_constant(place) else None
    if maker is None or not maker.inputs:
        return node.is_constant(place)
    return all(is_stored(maker, at, steps - 1) for at, name in enumerate(maker.inputs) if name)


def _behind_state(node: Node) -> str:
    """Refuse a number behind the last state of one direction, which OpenVINO lays out anew."""
    other = node.shape(1) if len(node.inputs) > 1 else ()
    if other is not None and any(size != 1 for size in other):
        return ""
    name, maker = node.inputs[0], node.producer(0)
    while maker is not None and maker.op_type in MOVES:
        name, maker = maker.inputs[0], maker.producer(0)
    if maker is None or maker.op_type not in _RECURRENT or name == maker.outputs[0]:
        return ""
    told = "a number behind the last state of a direction, of which OpenVINO loses the shape"
    return "" if maker.attribute("direction", "") == _BOTH_WAYS else told


def _quantised_maxima(node: Node) -> str:
    """Refuse maxima that are quantised in the kernel that looks for them, in 8 bits then."""
    readers = list(node.consumers())
    while len(readers) == 1 and readers[0].op_type in MOVES:
        readers = list(readers[0].consumers())
    quantised = any(reader.op_type == "QuantizeLinear" for reader in readers)
    return "maxima that are quantised, which OpenVINO looks for in 8 bits" if quantised else ""


def _conv_transpose(node: Node) -> str:
    sizes = (node.shape(0) or (None,) * 3)[2:]
    is_same = node.attribute("auto_pad", "").startswith("SAME")
    made = (node.graph.shape(node.outputs[0]) or ())[2:]
    if any(isinstance(old, int) and not new for old, new in zip(sizes, made, strict=False)):
        return "padding that leaves nothing, at which OpenVINO fails to compile"
    if node.attribute("output_shape", None):
        odd = is_same or node.attribute("group", 1) > 1 or node.attribute("output_padding", None)
        return "" if is_fixed(node) and not odd else "a stated shape, which OpenVINO pads otherwise"
    told = "padding to the same size of an open size, which OpenVINO leaves out"
    return told if is_same and not all(isinstance(size, int) for size in sizes) else ""


def _gemm(node: Node) -> str:
    if node.attribute("transA", 0) and is_stored(node, 0):
        return "a stored factor that is transposed, which OpenVINO takes as it lies"
    if len(node.inputs) > _SUMMAND and not is_fixed(node, 1):
        return "a factor of an open size, to whose product OpenVINO fails to add something"
    return ""


def _filters(node: Node) -> str:
    if problem := padded_point(node) or _result_steps(node):
        return problem
    several = any((node.shape(at) or (1,)) != (1,) for at in (_SCALES[1], _SCALES[1] + 1))
    return "scales or zero points of filters, which OpenVINO applies elsewhere" if several else ""


def is_fixed(node: Node, place: int = 0) -> bool:
    """Say whether all sizes of an input are known."""
    return all(isinstance(size, int) for size in node.shape(place) or (None,))


def _result_steps(node: Node) -> str:
    if not node.is_constant(_MADE_SCALE) or not node.is_constant(_MADE_SCALE + 1):
        return "a scale or zero point of the result that is fed, behind which OpenVINO rounds"
    if any(node.dtype(place) is not DataType.FLOAT for place in _SCALES):
        return "scales of 16 bits, for which OpenVINO fails to compile"
    scales = [node.constant(place) for place in _SCALES]
    wide = np.concatenate([np.float64(np.pi if one is None else one).reshape(-1) for one in scales])
    has_few_digits = np.array([f"{one:.2g}" for one in wide]).astype(np.float32) == wide
    if not has_few_digits.all() or not (wide * 2**20 % 1).any():  # or sums of halves
        return ""
    return "scales of few digits, whose halves between steps OpenVINO rounds otherwise"


def is_idle(node: Node) -> bool:
    """Say whether a reduction is along no axes, and not along all of them."""
    axes = node.constant(1)
    has_axes = axes.size if axes is not None else any(node.inputs[1:])
    return bool(node.attribute("noop_with_empty_axes", 0)) and not has_axes


def _logarithm(node: Node) -> str:
    """Look for axes that are left out on purpose, or an attribute still, and for open sizes."""
    if node.opset >= _SOFTMAX_OF_ONE_AXIS and node.attribute("axes") is not None:
        return "axes as an attribute, instead of which OpenVINO takes all, or ends the process"
    if is_idle(node):
        return "noop_with_empty_axes, for which OpenVINO takes no logarithm"
    return "" if is_fixed(node) else "open sizes, with which OpenVINO takes it over all axes"


def _dequantize(node: Node) -> str:
    if node.attribute("block_size", 0) and not is_fixed(node):
        return "blocks along an open size, with which OpenVINO fails to run"
    maker, rank = node.producer(0), len(node.shape(0) or (1,))
    is_made = node.shape(1) not in {(), (1,)} and maker and maker.op_type == "QuantizeLinear"
    if maker and is_made and (maker.attribute("axis", 1) - node.attribute("axis", 1)) % rank:
        return "scales of another axis than QuantizeLinear has, whose axis OpenVINO takes"
    is_short = node.is_constant(0) and node.dtype(1) is not DataType.FLOAT
    if is_short and node.dtype(0).label.endswith(("16", "32")):
        return "stored numbers that OpenVINO rounds to the 16 bits of their scale"
    return _fed_steps(node, 0)


def _fed_steps(node: Node, stored: int) -> str:
    """Refuse stored numbers whose scale or zero point is not: the second run is another."""
    is_fed = is_stored(node, stored) and not all(map(node.is_constant, _steps(node, stored)))
    return "stored numbers of a fed scale or zero point, which OpenVINO changes" if is_fed else ""


def _steps(node: Node, of: int) -> list[int]:
    return [at for at in (of + 1, of + 2) if any(node.inputs[at : at + 1])]


def _lrn(node: Node) -> str:
    if node.attribute("bias", 1.0) < 1 or node.attribute("size", 0) % 2 == 0:
        return "a bias below 1 or an even size, for which OpenVINO adds up other channels"
    return "" if is_fixed(node) else "sizes known when running, for which OpenVINO has no kernel"


def _layer_norm(node: Node) -> str:
    shape = node.shape(0) or (None,)
    ranks = {len(one) for place in (1, 2) if (one := node.shape(place)) is not None}
    are_fixed = all(is_fixed(node, place) for place in range(len(node.inputs)))
    if are_fixed or ranks <= {len(shape) - node.attribute("axis", -1) % len(shape)}:
        return ""
    return "a scale or shift along further axes of open size, which OpenVINO fails to apply"


def _variadic(node: Node) -> str:
    if node.opset >= _BROADCASTING or set(node.shape(0) or (1,)) != {1}:
        return _behind_state(node)
    return "single numbers, for which OpenVINO fails to compile versions before broadcasting"


def _pad(node: Node) -> str:
    for reader in node.consumers():
        is_same = reader.attribute("auto_pad", "NOTSET").startswith("SAME")
        if (is_same and not is_fixed(node)) or reader.op_type == "ConvTranspose":
            return "padding before other padding, with which OpenVINO joins it wrongly"
    if len(node.inputs) > 1 and not is_fixed(node, 1):
        return "an open number of pads, with which OpenVINO fails to compile"
    if len(node.inputs) <= _SUMMAND or not node.inputs[_SUMMAND]:
        return ""
    if not is_stored(node, _SUMMAND):
        return "a value known when running, in place of which OpenVINO pads with anything"
    value = np.asarray(node.constant(_SUMMAND) or 0.0)
    is_rounded = value.dtype.kind == "i" and (value.astype(np.float32) != value).any()
    return "a value that OpenVINO rounds to the 24 bits of float32" if is_rounded else ""


def _recurrent(node: Node) -> str:
    """Refuse peepholes, coupled gates, and sizes that are open where they must not be."""
    if len(node.inputs) > _PEEPHOLES and node.inputs[_PEEPHOLES]:
        return "peepholes, which OpenVINO leaves out"
    if name := next(filter(node.attributes.get, _MISREAD), ""):
        return _MISREAD[name]
    if (maker := node.producer(0)) and not maker.attribute("keepdims", 1):
        return "what a reduction makes of fewer axes, whose sizes of 1 OpenVINO takes for others"
    if problem := _weights(node):
        return problem
    has_state = any(map(node.is_constant, range(_LENGTHS + 1, len(node.inputs))))
    if has_state and not isinstance((node.shape(0) or (None, None))[1], int):
        return "a stored first state of an open batch, with which OpenVINO fails to compile"
    told = "lengths beside an open size, behind which OpenVINO goes on"
    return told if any(node.inputs[_LENGTHS : _LENGTHS + 1]) and not is_fixed(node) else ""


def _weights(node: Node) -> str:
    words = tuple(node.attribute("activations", None) or ())
    if words[: len(words) // 2] * 2 != words and node.attribute("direction", "") == _BOTH_WAYS:
        return "other activations on the way back, for which OpenVINO takes those of the way there"
    if not is_fixed(node, 1) or not is_fixed(node, 2):
        return "weights of an open size, which OpenVINO fails to compile"
    makers = (node.producer(place) for place in range(1, min(_LENGTHS, len(node.inputs))))
    few = any(one is not None and one.op_type == "DequantizeLinear" for one in makers)
    return "weights of few bits, which OpenVINO fails to compile" if few else ""


def _reshape(node: Node) -> str:
    """Refuse sums laid out with a size of 1, and an open batch of a plane that joins channels."""
    read, made = node.shape(0) or (), node.graph.shape(node.outputs[0]) or ()
    maker = node.producer(0)
    while maker is not None and maker.op_type in {"Cast", "Dropout", "Identity"}:
        maker = maker.producer(0)
    drops = maker is not None and not maker.attribute("keepdims", 1)
    if drops and len(read) == len(made) and read != made and 1 in made:
        return "a reduction laid out with a size of 1, which OpenVINO leaves as it was"
    is_plane = len(read) == _CORNERS and all(isinstance(size, int) for size in read[1:])
    if not is_plane or not 0 <= len(made) - _CORNERS <= 1 or isinstance(made[1], int):
        return ""
    turned = any(one.op_type == "Transpose" for one in node.consumers())
    return "what OpenVINO takes for shuffled channels, and fails to compile" if turned else ""


def _roi_align(node: Node) -> str:
    if node.attribute("mode", "avg") == "max":
        return "mode max, which OpenVINO computes after interpolating"
    if node.attribute("sampling_ratio", 0) < 1:
        return "a count of points that follows the region, which OpenVINO takes from elsewhere"
    return _open_regions(node, _CORNERS)


def _open_regions(node: Node, columns: int) -> str:
    told = "regions of an open shape, which OpenVINO refuses"
    return "" if (node.shape(1) or ())[-1:] == (columns,) else told


def _softmax(node: Node) -> str:
    if node.opset >= _SOFTMAX_OF_ONE_AXIS:
        return ""
    behind = (node.shape(0) or ())[node.attribute("axis", 1) + 1 or len(node.shape(0) or ()) :]
    is_of_one = node.shape(0) is not None and all(dim == 1 for dim in behind)
    return "" if is_of_one else "all axes from one on together, as opsets before 13 have it"


def _sigmoid(node: Node) -> str:
    maker, readers = node.producer(0), node.consumers()
    if maker is None or maker.op_type != "Mul" or all(one.op_type != "Mul" for one in readers):
        return ""
    fed = any(set(maker.shape(at) or ()) == {1} and not maker.is_constant(at) for at in range(2))
    return "a fed factor of one element, of which OpenVINO fails to make Swish" if fed else ""


def _slice(node: Node) -> str:
    """Refuse what surely takes nothing along an axis of open size: other axes get lost as well."""
    starts, ends, steps = map(node.constant, (1, 2, 4))
    is_back = steps is not None and (steps < 0).any()
    if is_fixed(node) or starts is None or ends is None or is_back:
        return ""
    is_empty = ((starts >= ends) & ((starts < 0) == (ends < 0))).any()
    return "a slice that takes nothing, of which OpenVINO loses the shape" if is_empty else ""


_BROADCASTING: Final = 8
"""The operator set from which on Max, Mean, Min and Sum broadcast."""
_SOFTMAX_OF_ONE_AXIS: Final = 13
"""The operator set from which on Softmax goes along one axis."""

_RECURRENT: Final = ("GRU", "LSTM", "RNN")
_BOOL, _WIDENED = DataType.BOOL, "truths, or places of few bits, which OpenVINO widens"
_BOTH_WAYS: Final = "bidirectional"
_MISREAD: Final = {
    "layout": "batches first, which OpenVINO lays out otherwise",
    "input_forget": "gates that are coupled, which OpenVINO takes one by one",
}
MOVES: Final = frozenset(
    {"Cast", "Concat", "Dropout", "Expand", "Flatten", "Gather", "Identity", "Reshape"}
    | {"Slice", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Operators across which a layout is carried."""

USES: Final[Mapping[str, Callable[[Node], str]]] = {
    **dict.fromkeys(("Add", "Div", "Mod", "Mul", "Neg", "Pow", "Sub"), _behind_state),
    "Compress": _compress,
    "Concat": _turned_halves,
    "Conv": lambda n: _conv(n) or far_window(n) or padded_point(n),
    "ConvInteger": lambda n: _conv(n) or far_window(n) or padded_point(n),
    "ConvTranspose": lambda n: _conv_transpose(n) or lost_point(n),
    "DequantizeLinear": _dequantize,
    "Gemm": lambda node: _gemm(node) or other_steps(node),
    "GlobalMaxPool": _quantised_maxima,
    "GridSample": lambda n: _WIDENED * (n.dtype(0) is _BOOL or n.dtype(1) is not DataType.FLOAT),
    "IsInf": lambda n: "" if n.shape(0) == () or is_fixed(n) else "open sizes, where it finds none",
    "LRN": _lrn,
    "LayerNormalization": _layer_norm,
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), _variadic),
    "Gather": other_steps,
    "MatMul": lambda n: _turned_columns(n) or other_steps(n),
    "MaxRoiPool": lambda node: _open_regions(node, _CORNERS + 1),
    **dict.fromkeys(_RECURRENT, _recurrent),
    "Pad": _pad,
    "QLinearConv": lambda n: _conv(n) or far_window(n, 3) or _filters(n),
    "QLinearMatMul": lambda n: _result_steps(n) or _fed_steps(n, 0) or _fed_steps(n, 3),
    **dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp"), _logarithm),
    **dict.fromkeys(("Flatten", "Reshape"), _reshape),
    "RoiAlign": _roi_align,
    "Sigmoid": _sigmoid,
    "Slice": _slice,
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
}
"""By operator, what says what a use asks for that OpenVINO computes otherwise."""
