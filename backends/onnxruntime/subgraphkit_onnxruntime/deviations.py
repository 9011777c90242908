"""Nodes that ONNX Runtime takes and then fails at, or answers other than ONNX defines.

Each was found on ONNX Runtime 1.31, with ONNX's own test cases or those of the conformance kit for
numbers that a narrower type rounds. They are refused, so that a backend
behind this one runs them.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import numpy as np
import onnx.parser

from subgraphkit.backend import RegionFallback
from subgraphkit.ir import Node, body_graphs, integer_bounds
from subgraphkit.types import DataType
from subgraphkit_onnxruntime import windows
from subgraphkit_onnxruntime.foreign import FOREIGN_CHECKS
from subgraphkit_onnxruntime.library import onnxruntime
from subgraphkit_onnxruntime.places import grid_problem, pad_problem, takes_parts
from subgraphkit_onnxruntime.resizing import copied, cut_fractions, resize_problem


def deviation(node: Node) -> str:
    """Return what is wrong with ONNX Runtime's way of running a node; empty if nothing is known."""
    fragile = (op_type := node.op_type) in FAILS_ON_NOTHING
    maker = RegionFallback.emptied_by(node) if fragile else None
    read = node.inputs if op_type == "Einsum" else node.inputs[:1]
    if maker is not None or (fragile and any(0 in (node.graph.shape(name) or ()) for name in read)):
        which = f", which {maker.op_type} may leave" if maker is not None else ""
        return f"of nothing{which}, it makes 0, fails or ends the process"
    check = (FOREIGN_CHECKS if node.domain else _CHECKS).get(op_type)
    found = check(node) if check is not None else ""
    return found or windows.empties_pools(node)


@cache
def cuts_products_off() -> bool:
    """Say whether uint8 times int8 is added up in 16 bits here, as without VNNI; tried once.

    ``session.x64quantprecision`` mends that where the int8 is constant, and only there.
    """
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (uint8[4, 64] x, int8[64, 16] w) '
        "=> (int32[4, 16] y) { y = MatMulInteger(x, w) }"
    )
    written, providers = model.SerializeToString(), ["CPUExecutionProvider"]
    session = onnxruntime().InferenceSession(written, providers=providers)
    x, w = np.full((4, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    return bool((session.run(None, {"x": x, "w": w})[0] != 64 * 255 * 127).any())


def _product_of_bytes(node: Node) -> str:
    place = 1 if node.op_type == "MatMulInteger" else 3
    if node.dtype(place).label != "int8":
        return ""
    factor, is_signed = node.constant(place), node.dtype(0).label == "int8"
    if factor is None and not is_signed and cuts_products_off():
        return "uint8 times int8 that is not constant is cut off at 16 bits on this processor"
    has_kernel = node.op_type == "MatMulInteger" or node.opset >= _MIXED[node.op_type]
    is_small = factor is None or (abs(factor.astype(int)) <= _FACTOR).all()
    is_remade = is_signed and not has_kernel and not is_small and cuts_products_off()
    text = "int8 times a large int8 is made int8 times uint8 here, for which it has no kernel"
    return text if is_remade else ""


def _matrices_of_bytes(node: Node) -> str:
    is_plain = node.op_type == "MatMulInteger"
    if any(_is_vector(node, place) for place in ((2,) if is_plain else (1, 2, 6, 7))):
        return "scales and zero points of rows are an error"
    summed = (*(node.shape(0) or ())[-1:], *(node.shape(1 if is_plain else 3) or ())[-2:][:1])
    is_sum = any(isinstance(size, int) and size for size in summed)
    if not is_sum and (0 in summed or RegionFallback.emptied_by(node)):
        return "sums of nothing are left unwritten"
    return _product_of_bytes(node)


_FARTHEST: Final = [np.iinfo(np.int32).max, np.iinfo(np.int64).max]
_MIXED: Final = {"QLinearConv": sys.maxsize, "QLinearMatMul": 21}
"""Operators, and from which operator set on it has a kernel for int8 times uint8."""
_FACTOR: Final = 64
"""The largest whose sums fit 16 bits, so that ONNX Runtime leaves it as it is."""
ENDS_ON_NOTHING: Final = frozenset(
    {"ConvTranspose", "Einsum", "GRU", "InstanceNormalization", "LSTM", "MatMulInteger", "RNN"}
    | {"NegativeLogLikelihoodLoss", "QLinearMatMul", "ReduceMean", "RoiAlign", "Unique"}
    | {"DynamicQuantizeLSTM", "FeatureVectorizer", "QAttention", "QLinearAveragePool"}
)
"""Operators that end the process where they are fed nothing, or make 0 of it."""
FAILS_ON_NOTHING: Final = frozenset(
    ENDS_ON_NOTHING - {"MatMulInteger", "QLinearMatMul", "RoiAlign"}
    | {"GlobalAveragePool", "GlobalMaxPool", "GridSample"}
)
_ANY: Final = -(2**63), 2**63
_SHORT: Final = {"bfloat16", "bool", "float16"}
_EXPANDED: Final = 27
_FED_AXIS: Final = 20
_FILLED: Final = 12
_SUMS: Final = ("L1", "Mean", "Prod", "Sum", "SumSquare")
_WHOLE: Final = ("Einsum", "Pow", *map("Reduce{}".format, _SUMS))
_EMPTY: Final = ("GlobalLpPool", "LRN", *map("{}Normalization".format, ("Group", "Layer", "RMS")))
_SCALED: Final = frozenset({"affine", "scaledtanh", "thresholdedrelu"})


def _attention(node: Node) -> str:
    if node.dtype(0) is DataType.DOUBLE:
        return "double precision is scaled by what is rounded to a float"
    if _has(node.inputs, 4) and not _has(node.outputs, 1):
        return "a past whose successor nobody wants is an error"
    if _has(node.inputs, 3) and _has(node.inputs, 6):
        return "a mask must cover the padding of keys and values as well"
    queries, keys = ((node.shape(place) or ("any",) * 2)[-2] for place in range(2))
    may_be_one = queries != keys and (queries == 1 or not isinstance(queries, int))
    shows = _has(node.outputs, 3) or (_has(node.inputs, 4) and may_be_one)
    text = "what is_causal hides is seen by a single query, and handed out as finite scores"
    return text if node.attribute("is_causal", 0) and shows else ""


def _cast(node: Node) -> str:
    made = node.graph.dtype(node.outputs[0]).label
    is_fraction = node.dtype(0).label.startswith(("bfloat", "double", "float"))
    if is_fraction and made in {"int4", "string", "uint4"}:
        return "fractions are rounded to four bits and not cut, or written with eight digits"
    maker, reads = node.producer(0), [name for one in node.consumers() for name in one.captures]
    again = maker is not None and maker.op_type.startswith("Cast")
    is_left_out = node.outputs[0] in reads or (is_fraction and made in {"int8", "uint8"})
    text = "a cast of a cast is left out, although it rounds or a body reads it"
    return text if again and is_left_out else ""


def _conv_integer(node: Node) -> str:
    if node.dtype(0).label == "int8" and node.dtype(1).label == "uint8" and cuts_products_off():
        return "int8 by filters of uint8 is cut off at 16 bits on this processor"
    return "zero points of weights must be one scalar" if _is_vector(node, 3) else ""


def _dequantize(node: Node) -> str:
    if not node.is_constant(0):
        is_signed = not _is_unsigned_to_it(node, node.inputs[0])
        return _ALONG * _is_vector(node, 1) if is_signed else _NO_ZERO_POINT
    is_last = (node.attribute("axis", 1) + 1) % len(node.shape(0) or (1,)) == 0
    turns = [one for one in node.consumers() if one.op_type == "Transpose"]
    readers = (one for turn in turns for one in turn.consumers()) if is_last else node.consumers()
    products = [one for one in readers if one.op_type == "MatMul" and _is_of_dequantized(one)]
    summed = products and _is_vector(node, 1) and not node.attribute("block_size", 0)
    return "scales of the rows that a product of two dequantized factors adds up" if summed else ""


def _is_of_dequantized(product: Node) -> bool:
    makers = [maker and maker.op_type for maker in map(product.producer, (0, 1))]
    return {*makers} <= {"DequantizeLinear", "Transpose"}


def is_fed_sum(node: Node) -> bool:
    """Say whether a node adds up int64 that is fed, and so can be looked at before every run."""
    is_fed = node.op_type == "ReduceSum" and node.inputs[0] in node.graph.inputs
    return is_fed and node.dtype(0).label == "int64"


def _int64_through_double(node: Node) -> str:
    if node.dtype(0).label != "int64" or is_fed_sum(node):
        return ""
    low, high = integer_bounds(node.graph).get(node.outputs[0], _ANY)
    return BEYOND_DOUBLES if max(-low, high) > 2**53 else ""


def _quantize(node: Node) -> str:
    if node.dtype(0) is DataType.FLOAT16:
        return "quotients are not rounded to half precision"
    return _NO_ZERO_POINT if _is_unsigned_to_it(node, node.outputs[0]) else ""


def _is_unsigned_to_it(node: Node, value: str) -> bool:
    """Say whether other numbers than uint8 have no zero point to tell their type."""
    return not _has(node.inputs, 2) and node.graph.dtype(value) is not DataType.UINT8


_WRITTEN_OVER: Final = "running means and variances are written over what was fed"
BEYOND_DOUBLES: Final = "int64 is computed in double precision, which rounds beyond 2^53"
_ALONG: Final = "scales along an axis of what is computed, which what it fuses does not take"
_PLACED: Final = "indices are taken to be those of the default output shape"
_FAR: Final = "dilations of one or three axes put patches elsewhere"
_DROPPED: Final = "of a scalar, the axes of constants beside it are dropped"
_PARTS: Final = "of texts it copies the first of each part alone"
_OF_ROWS: Final = "rows of one element each, at which a run fails"
_EXPONENTIALS: Final = "its exponentials overflow, or are cut to whole numbers"
_IN_FLOAT: Final = "whole numbers of 32 and 64 bits, computed in 24"
_UNSPLIT: Final = "nothing is split into nothing"
_HEARD: Final = "keepdims is heard although sizes are stated"
_BEHIND: Final = "an axis behind the last is an error"
_RATIOS: Final = ("Hardmax", "LogSoftmax", "Softmax")
_NO_ZERO_POINT: Final = "without a zero point, what is moved before or behind is taken for uint8"


def _empty(node: Node) -> str:
    if node.op_type == "LRN" and len(node.shape(0) or ()) - 4:
        return "channels of anything but images are an error"
    is_empty = 0 in (node.shape(0) or ())[1:]
    return "tensors without elements are an error, or end the process" if is_empty else ""


def _empty_product(node: Node) -> str:
    is_empty = 0 in (*(node.shape(0) or ()), *(node.shape(1) or ()))
    return "products of nothing, which are anything behind numbers of 8 bits" if is_empty else ""


def _sum(node: Node) -> str:
    made = len(node.graph.shape(node.outputs[0]) or ())
    means = (one and one.op_type == "ReduceMean" for one in map(node.producer, range(2)))
    less = any(mean and len(node.shape(place) or ()) < made for place, mean in enumerate(means))
    return "a mean of fewer axes, which it joins to a norm that drops the others" if less else ""


def _reduce_bool(node: Node) -> str:
    shape = (0,) if node.shape(0) is None else node.shape(0) or ()
    is_bare = node.dtype(0).label == "bool" and 0 in shape
    return "booleans cannot be reduced over nothing" if is_bare else ""


def _scan(node: Node) -> str:
    axes = node.attribute("scan_output_axes", None) or ()
    for axis, name in zip(axes, node.outputs[-len(axes) :], strict=False):
        sizes = node.graph.shape(name) or (None,)
        if axis and name and not all(isinstance(size, int) and size for size in sizes):
            return "along another axis than the first, results without elements end the process"
    body = node.bodies["body"]
    shapes = [getattr(body.types.get(name), "shape", None) for name in body.outputs]
    if None in shapes:
        return "a body of which the rank of a result is not known before running"
    is_open = not all(isinstance(size, int) for shape in shapes for size in shape or ())
    may_fold = is_open and any(one.op_type == "If" for one in body.nodes)
    return "a branch may leave a constant where a size is open, which fails" if may_fold else ""


def _bodies(node: Node) -> str:
    for body in body_graphs(node):
        if len({*body.outputs}) < len(body.outputs) and node.op_type != "Loop":
            return "a body names a value twice, and one of the two stays unwritten"
        for one in body.nodes:
            is_pool, ceils = one.op_type in windows.POOLS, one.attribute("ceil_mode", 0)
            if is_pool and (ceils or windows.makes_an_element(one)):
                return "of windows in a body it makes more than there are, or expects them"
            if problem := (deviation(one) or BEYOND_DOUBLES * is_fed_sum(one)):
                return f"in a body, {one.label}: {problem}"
    return ""


def _dropout(node: Node) -> str:
    mask = node.outputs[1] if node.opset < _FILLED and _has(node.outputs, 1) else ""
    read = {name for one in node.consumers() for name in (*one.inputs, *one.captures) if name}
    is_read = mask in read or node.graph.is_output(mask)
    return "a mask that keeps all is handed out as 0" if is_read else ""


def _infinite(node: Node) -> str:
    """Look for what it multiplies the filters of a convolution by, before it adds up."""
    for place, maker in enumerate(map(node.producer, range(2))):
        factor = node.constant(1 - place) if maker is not None and maker.op_type == "Conv" else None
        if factor is not None and not np.isfinite(factor).all():
            return "infinity times what is convolved, by which it multiplies the filters"
    return ""


def _loop(node: Node) -> str:
    body, carried = node.bodies["body"], max(len(node.inputs) - 2, 0)
    for inner, name in zip(body.outputs[1 + carried :], node.outputs[carried:], strict=False):
        shape = getattr(body.types.get(inner), "shape", None)
        if shape is None and len(node.graph.shape(name) or ()) > 1:
            return "of a body that states no rank, results without rounds have one axis"
    return ""


def _recurrent(node: Node) -> str:
    named = [name.lower() for name in node.attribute("activations", ())]
    scaled = [name for name in named if name in _SCALED]
    stated = [len(node.attribute(f"activation_{name}", ())) for name in ("alpha", "beta")]
    if len(scaled) > stated[0] or len(scaled) - scaled.count("thresholdedrelu") > stated[1]:
        return f"{scaled[0]} without a stated alpha or beta, for which it takes 0"
    is_double = node.dtype() is DataType.DOUBLE and node.op_type != "RNN"
    return "double precision is not computed, and a run fails" if is_double else ""


def _scatter(node: Node) -> str:
    fails = node.attribute("reduction", "none") != "none" and node.dtype(0).label in _SHORT
    return "shorter types than a float are not reduced, and a run fails" if fails else ""


def _division(node: Node) -> str:
    if node.dtype(0).label not in {"int32", "int64"}:
        return ""
    bounds = integer_bounds(node.graph)
    (low, high), (least, _) = (bounds.get(name, _ANY) for name in reversed(node.inputs))
    is_safe = low > -1 or high < -1 or least > np.iinfo(node.dtype(0).numpy).min
    return "" if is_safe else "the least integer by -1 ends the process"


def _slice(node: Node) -> str:
    ends, steps = node.constant(2), node.constant(4) if _has(node.inputs, 4) else np.ones(1)
    is_far = np.True_ if ends is None else np.isin(ends, _FARTHEST)
    is_back = np.True_ if steps is None else steps < 0
    far = "the greatest number is taken for the end before the first element"
    return far if (is_far & is_back).any() else ""


def _half_spectrum(node: Node) -> str:
    if not (node.attribute("inverse", 0) and node.attribute("onesided", 0)):
        return ""
    length, axis = (node.constant(place) for place in (1, 2))
    bins = None if length is None else length.item() // 2 + 1
    at = node.attribute("axis", 1) if node.opset < _FED_AXIS else -2
    sizes = (node.shape(0) or ())[at if axis is None else axis.item() :]
    is_told = axis is not None or not _has(node.inputs, 2)
    is_safe = (is_told and bins in sizes[:1]) or not _has(node.inputs, 1)
    return "" if is_safe else "half a spectrum of another length is mirrored in the wrong place"


def _stft(node: Node) -> str:
    length = node.constant(3) if _has(node.inputs, 3) else np.ones(1)
    is_safe = length is not None and (length > 0).all()
    return "" if is_safe else "a frame of no length ends the process"


def _clip(node: Node) -> str:
    is_joined = _has(node.inputs, 2) and getattr(node.producer(2), "op_type", "") == "Relu"
    return "a bound made by Relu, which is taken for what is clipped" if is_joined else ""


def _has(values: tuple[str, ...], place: int) -> bool:
    return place < len(values) and bool(values[place])


def _of_scalar(node: Node) -> str:
    near, behind = [node.producer(0) or node], [node]
    fed = {near[0].shape(at) for at in range(len(near[0].inputs)) if not near[0].is_constant(at)}
    for _ in range(3 * (fed == {()} and node.op_type == "Erf")):
        behind = [reader for one in behind for reader in one.consumers()]
        near += behind + [p for one in behind for p in map(one.producer, (0, 1)) if p]
    stored = (one.shape(at) for one in near for at in range(len(one.inputs)) if one.is_constant(at))
    return _DROPPED if fed == {()} and any(stored) else ""


def _is_whole(node: Node) -> bool:
    return node.dtype().label.endswith(("int32", "int64"))


def _is_vector(node: Node, place: int) -> bool:
    shape = node.shape(place)
    return _has(node.inputs, place) and (shape is None or (len(shape) > 0 and shape != (1,)))


_CHECKS: Final[Mapping[str, Callable[[Node], str]]] = {
    "Add": _sum,
    **dict.fromkeys(_WHOLE, _int64_through_double),
    "Attention": _attention,
    "BatchNormalization": lambda n: _WRITTEN_OVER if n.attribute("training_mode", 0) else "",
    **dict.fromkeys(("RoiAlign", *_EMPTY), _empty),
    **dict.fromkeys(("Gemm", "MatMul"), _empty_product),
    **dict.fromkeys((*windows.POOLS, "Conv"), lambda n: windows.window_problem(n) or _empty(n)),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "Clip": _clip,
    "Col2Im": lambda n: _FAR if max(d := n.attribute("dilations", [1])) > 1 and len(d) % 2 else "",
    "ConvInteger": lambda node: windows.window_problem(node) or _conv_integer(node),
    "ConvTranspose": windows.stated_size,
    "DequantizeLinear": _dequantize,
    "DFT": _half_spectrum,
    "Div": _division,
    "Dropout": _dropout,
    **dict.fromkeys(("Erf", "Sigmoid"), _of_scalar),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    "Gather": lambda n: _PARTS * (n.dtype(0) is DataType.STRING and takes_parts(n)),
    "GridSample": grid_problem,
    **dict.fromkeys(("MatMulInteger", "QLinearMatMul"), _matrices_of_bytes),
    "If": _bodies,
    "InstanceNormalization": lambda n: "" if (n.shape(0) or "any")[2:] else _OF_ROWS,
    "Loop": lambda node: _bodies(node) or _loop(node),
    "Mul": _infinite,
    "MeanVarianceNormalization": lambda _: "of equal numbers it makes NaN",
    "MaxUnpool": lambda node: _PLACED if _has(node.inputs, 2) else "",
    "NonZero": lambda node: "" if node.shape(0) else "a scalar is taken for a vector of one",
    "Pad": pad_problem,
    "QLinearConv": lambda node: windows.window_problem(node) or _product_of_bytes(node),
    "QuantizeLinear": _quantize,
    "ReduceLogSumExp": lambda n: _EXPONENTIALS if n.opset >= _EXPANDED or _is_whole(n) else "",
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _reduce_bool),
    "Resize": resize_problem,
    "Scan": lambda node: _bodies(node) or _scan(node),
    **dict.fromkeys(("ScatterElements", "ScatterND"), _scatter),
    "Shrink": lambda n: _IN_FLOAT if _is_whole(n) else "",
    "Slice": _slice,
    "STFT": _stft,
    "Upsample": lambda node: cut_fractions(node) or copied(node),
    **dict.fromkeys(_RATIOS, lambda n: _BEHIND * (n.attribute("axis", 1) == len(n.shape(0) or ()))),
    "StringSplit": lambda n: _UNSPLIT if n.attribute("delimiter", "") else "",
    "SplitToSequence": lambda n: _HEARD * (_has(n.inputs, 1) and not n.attribute("keepdims", 1)),
}
