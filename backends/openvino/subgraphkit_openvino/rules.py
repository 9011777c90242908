"""Refusals of nodes that OpenVINO would take, because the numbers would be others.

Each rule was found by comparing with ONNX's own test cases or with the reference implementation,
and says what would be wrong.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from subgraphkit.backend import Refusal, RegionFallback
from subgraphkit.ir import BoundGraph, Node, body_graphs
from subgraphkit.types import DataType, TensorType
from subgraphkit_openvino.geometry import dots_problem, pool_problem, resize_problem
from subgraphkit_openvino.guarding import MADE_UP
from subgraphkit_openvino.integers import WholeNumbers
from subgraphkit_openvino.library import rounds_to_bfloat16
from subgraphkit_openvino.memory import ELEMENT_TYPES
from subgraphkit_openvino.uses import MOVES, USES, is_fixed, is_idle, is_stored, turned_products

_RANDOM: Final = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
_OUT_OF_LINE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Bernoulli", "Multinomial", *_RANDOM), "draws other random numbers"),
    "BitShift": "shifts without a sign, and saturates instead of dropping bits",
    **dict.fromkeys(("DFT", "STFT"), "is exact to four digits only"),
    "LpNormalization": "adds to the norm, so that small rows stay smaller",
    "NonMaxSuppression": "also suppresses boxes that lie exactly on the threshold",
    "Shrink": "multiplies what is dropped by 0, which is NaN of infinities",
    "ThresholdedRelu": "multiplies what is below by 0, which is NaN of infinities",
}
"""Operators that OpenVINO implements, and what it does otherwise."""

_CHANNELS: Final = 2
_PACKED_ONCE: Final = Refusal(
    "op_unsupported",
    "transposed weights that another product reads as they are; OpenVINO mixes them",
)

LOSES_NAN: Final = frozenset(
    {"Celu", "Clip", "Exp", "Gelu", "GlobalMaxPool", "Greater", "GreaterOrEqual", "HardSigmoid"}
    | {"HardSwish", "LogSoftmax", "Max", "MaxPool", "Min", "ReduceLogSumExp", "Relu", "Softmax"}
    | {"ReduceMax", "ReduceMin", "TopK"}
)
"""Operators that make a number or a truth of NaN in OpenVINO, or NaN of a number; or that begin at
the last finite number, so that an infinity is lost."""


def refusals(graph: BoundGraph, numbers: WholeNumbers | None) -> dict[int, Refusal]:
    """Return the nodes that OpenVINO must not be asked about, each with the reason.

    ``numbers``: The whole numbers in it; None if 64-bit numbers may be computed in 32 bits.
    """
    turned = turned_products(graph)
    rules: list[Callable[[Node], Refusal | None]] = [_types, _operator]
    rules.append(lambda n: _PACKED_ONCE if n.id in turned else None)
    if numbers is not None:
        rules += [_doubles, numbers.refusal]
    if graph.table.bodies:
        rules.append(lambda n: _inside(n, numbers))
    found = {}
    for node in graph.nodes:
        if graph.is_constant_node(node.id):
            continue
        answers = (rule(node) for rule in rules)
        refusal = next((answer for answer in answers if answer is not None), None)
        if refusal is not None:
            found[node.id] = refusal
    return found


def _inside(node: Node, numbers: WholeNumbers | None) -> Refusal | None:
    """Refuse nodes with a body in which something is refused."""
    for body in body_graphs(node):
        within = numbers.inside(body) if numbers is not None else None
        for refused, refusal in refusals(body, within).items():
            text = f"in a body, {body.nodes[refused].label}: {refusal.text}"
            return Refusal(refusal.code, text)
        if any(one.op_type == "IsNaN" for one in body.nodes):
            return Refusal("op_unsupported", "a body asks for NaN, which OpenVINO loses around it")
    return None


def _types(node: Node) -> Refusal | None:
    """Refuse values that are no tensors of a type and rank that OpenVINO takes."""
    if node.bodies and node.op_type != "If":
        return Refusal("op_unsupported", "bodies of loops are left to others")
    for name in filter(None, (*node.inputs, *(out for out in node.outputs if _is_read(node, out)))):
        type_ = node.graph.types.get(name)
        if not isinstance(type_, TensorType):
            return Refusal("dtype", f"{name!r} is {type_}, OpenVINO takes dense tensors")
        if type_.dtype not in ELEMENT_TYPES:
            return Refusal("dtype", f"{name!r} is {type_.dtype}, which is not handed over")
        if node.bodies and type_.dtype in _HALVES:
            return Refusal("dtype", f"{name!r} has 16 bits, and OpenVINO's first run goes wrong")
        if type_.shape is None:
            return Refusal("dynamic_shape", f"the rank of {name!r} is not known before running")
    return _empty(node)


def _empty(node: Node) -> Refusal | None:
    """Refuse tensors without elements; maxima over none are wrong, and nothing is gained."""
    read = {"Concat": 0, "Einsum": len(node.inputs), "Gemm": 2, "MatMul": 2}.get(node.op_type, 1)
    data = (*node.inputs[:read], *node.outputs)
    is_empty = any(0 in (node.graph.shape(name) or ()) for name in data if name)
    return Refusal("shape", "tensors without elements are left to others") if is_empty else None


def _doubles(node: Node) -> Refusal | None:
    kinds = (node.graph.dtype(name) for name in (*node.inputs, *node.outputs) if name)
    told = "float64, which OpenVINO computes in float32"
    return Refusal("dtype", told) if DataType.DOUBLE in kinds else None


def _operator(node: Node) -> Refusal | None:
    """Refuse what OpenVINO is known to compute otherwise than ONNX says."""
    if (otherwise := _OUT_OF_LINE.get(node.qualified_op_type)) is not None:
        return Refusal("op_unsupported", f"OpenVINO {otherwise}")
    maker = RegionFallback.emptied_by(node) if node.op_type in MADE_UP else None
    if maker is not None:
        text = f"what {maker.op_type} may leave nothing of, of which OpenVINO makes numbers"
        return Refusal("shape", text)
    found = _PROBLEMS[op](node) if (op := node.qualified_op_type) in _PROBLEMS else ""
    return Refusal("attribute", found) if found else None


def _attention(node: Node) -> str:
    if len(list(filter(None, node.inputs))) > len("QKV") or len(node.outputs) > 1:
        return "masks, caches and scores, which OpenVINO combines otherwise"
    heads = [(node.shape(place) or (None,) * 4)[1:-2] for place in range(2)]
    if not all(isinstance(n, int) for found in heads for n in found):
        return "a count of heads known only at a run, at which OpenVINO fails"
    if _is_one_by_one(node):
        return "stored factors one by one, at which OpenVINO fails"
    other = sorted(set(node.attributes) - _READ)
    return f"attribute {other[0]}, which OpenVINO does not read" if other else ""


def _foreign(node: Node) -> str:
    """Look at an operator of ONNX Runtime's that has more attributes than OpenVINO reads."""
    if node.op_type == "Attention" and not any(node.inputs[2:3]):
        return "no bias, without which OpenVINO ends the process"
    if node.op_type == "MultiHeadAttention":
        counts = [(node.shape(place) or (None, place))[1] for place in range(2)]
        is_cut = node.attribute("unidirectional", 0) and counts[0] != counts[1]
        return "a mask of later keys, of which there are other numbers" if is_cut else ""
    name = next(filter(node.attributes.get, _UNREAD), "")
    return f"attribute {name}, which OpenVINO does not read" if name else ""


def _idle_epsilon(node: Node) -> str:
    is_lost = node.dtype(0) is DataType.FLOAT16 and not np.float16(node.attribute("epsilon", 0.0))
    return "an epsilon of which 16 bits leave nothing, so that rows of 0 are NaN" if is_lost else ""


def _is_one_by_one(node: Node) -> bool:
    places = range(len(node.inputs))
    sizes = {size for place in places for size in node.shape(place) or (None,)}
    return sizes == {1} and any(map(node.is_constant, places))


def _group_normalization(node: Node) -> str:
    if node.shape(1) == (1,):
        return "a single channel, which OpenVINO fails to compile"
    made = {one.op_type for one in node.consumers() if not any(map(one.is_constant, range(2)))}
    told = "Div or Sub by what is known when running, at which OpenVINO crashes"
    return told if made & {"Div", "Sub"} else ""


def _fused_gemm(node: Node) -> str:
    word = node.attribute("activation", "")
    return "" if word in {"Relu", "LeakyRelu"} else f"activation {word or 'none'}, made Relu"


def _mat_mul(node: Node) -> str:
    x, y = node.shape(0) or (), node.shape(1) or ()
    counts = x[:-2] or x  # of products, or of rows, which OpenVINO then counts as such
    is_open = node.is_constant(1) and not all(isinstance(n, int) for n in counts)
    if len(y) > _CHANNELS and (is_open or _is_one_by_one(node)):
        return "stored factors for a count that is open, or one by one, at which OpenVINO fails"
    is_deep = len(y) > max(len(x), 2) or (len(y) > _AXES and set(y[:-2]) == {1})
    for place, is_odd in enumerate((len(x) > _CHANNELS, is_deep)):
        maker = node.producer(place) if is_odd else None
        if maker is not None and maker.op_type == "DequantizeLinear" and maker.is_constant(0):
            return "stored numbers of 8 bits for several products, which OpenVINO mixes up"
    return ""


def _zeros(node: Node) -> str:
    zeros = [name for name in ("alpha", "beta", "gamma") if node.attribute(name) == 0]
    return f"{zeros[0]} of 0, for which OpenVINO takes the default" if zeros else ""


def _quantize(node: Node) -> str:
    scale, axis, shape = node.constant(1), node.attribute("axis", 1), node.shape(0)
    if node.dtype(0) in _HALVES:
        return "quotients of few bits, which OpenVINO does not round to them"
    if any(node.inputs[2:3]) and not node.is_constant(2):
        return "a zero point known when running, behind which OpenVINO rounds"
    if scale is not None and scale.size > 1:
        if not shape or len(shape) == 1 or axis not in {0, 1}:
            return "scales of a vector or along a third axis, with which OpenVINO fails or crashes"
        if not isinstance(shape[axis], int):
            return "scales along an axis of open size, which OpenVINO takes for those of another"
    if scale is not None:
        is_finite = bool((np.abs(scale.astype(np.float64)) <= _LARGEST_SCALE).all())
        return "" if is_finite else "a scale so large that OpenVINO's limits of what fits overflow"
    return "a scale known when running, by which OpenVINO divides with another rounding of ties"


def _slice(node: Node) -> str:
    if len(node.inputs) > _AXES and node.inputs[_AXES] and not node.is_constant(_AXES):
        return "axes known when running, at which OpenVINO crashes"
    steps, starts, ends = map(node.constant, (4, 1, 2))
    if steps is not None and steps.size and not -_INT32 <= steps.min() <= steps.max() <= _INT32:
        return "steps beyond 32 bits, at which OpenVINO crashes"
    axes, shape = node.constant(_AXES), node.shape(0) or ()
    sizes = shape if axes is None else [shape[axis] for axis in axes]
    told = zip(starts, ends, sizes, strict=False) if starts is not None and ends is not None else ()
    if any(a < 0 < b < _INT32 and not isinstance(size, int) for a, b, size in told):
        return "from an open end to one that is not, beyond which OpenVINO writes"
    return ""


def _split(node: Node) -> str:
    shape, sizes = node.shape(0), node.attribute("split", node.constant(1))
    if sizes is not None and 0 in sizes:
        return "a part of no size, which OpenVINO fails to make"
    if node.attribute("num_outputs") is None or shape is None:
        return ""
    length = shape[node.attribute("axis", 0)]
    return "" if isinstance(length, int) else "a length that may not be divided evenly"


def _cast(node: Node) -> str:
    made, maker, before = node.graph.dtype(node.outputs[0]), node.producer(0), _cast_before(node)
    if made is DataType.BFLOAT16 and node.dtype(0) is not made and not rounds_to_bfloat16():
        return "a cast to bfloat16, which OpenVINO does not round to the nearest here"
    if maker is not None and {made, node.dtype(0)} == {DataType.INT8, DataType.UINT8}:
        return "8 bits that are computed, of which OpenVINO keeps what has no other sign"
    while maker is not None and maker.op_type in {"Identity", "Transpose"}:
        maker = maker.producer(0)
    is_arg = maker is not None and maker.op_type in {"ArgMax", "ArgMin"}  # to OpenVINO a TopK
    if made is DataType.BOOL and maker is not None and (is_arg or len(maker.outputs) > 1):
        return "a cast to bool of one of several results, which OpenVINO does not compile"
    rounds = before is not None and before.dtype(0) not in {*_HALVES, DataType.BOOL}
    if not rounds or node.dtype(0) not in _HALVES:
        return ""
    return "what was rounded to a half just before, which OpenVINO leaves out"


def _clip(node: Node) -> str:
    if set(node.shape(0) or ()) == {1} and is_stored(node, 0):
        return "one stored element, to which a bound that is fed gives another shape"
    is_bounded = node.opset >= _NEWER or node.attributes.keys() >= {"min", "max"}
    return "" if is_bounded else "no bound on one side, where OpenVINO lets infinity pass"


def _non_zero(node: Node) -> str:
    cast = _cast_before(node)
    while cast is not None:
        read, made = cast.dtype(0), node.graph.dtype(cast.outputs[0])
        if read in _FLOATS and made not in {read, DataType.BOOL, DataType.DOUBLE}:
            return f"a cast to {made.label} just before, which OpenVINO leaves out"
        cast = _cast_before(cast)
    return ""


def _cast_before(node: Node) -> Node | None:
    """Return the cast that made what a node reads, if it was only moved since."""
    maker = node.producer(0)
    while maker is not None and maker.op_type in MOVES - {"Cast"}:
        maker = maker.producer(0)
    return maker if maker is not None and maker.op_type in {"Cast", "CastLike"} else None


def _p_relu(node: Node) -> str:
    shape, slope = node.shape(0) or (), node.shape(1) or ()
    if len(shape) > _CHANNELS and len(slope) == 1 and slope[0] != 1:
        return "slopes for the last axis, which OpenVINO applies to the channels"
    told = "slopes that are computed, which OpenVINO may apply to numbers above 0 as well"
    return told if node.constant(1) is None else ""


def _mod(node: Node) -> str:
    is_exact = not node.attribute("fmod", 0) or node.dtype(0).label.startswith(("int", "uint"))
    return "" if is_exact else "remainders of fractions, which OpenVINO rounds otherwise"


def _fed_axes(node: Node) -> str:
    is_fed = node.is_constant(0) and len(node.inputs) > 1 and not node.is_constant(1)
    return "a constant and axes that are fed, with which OpenVINO fails" if is_fed else ""


def _norm(node: Node) -> str:
    if node.op_type == "ReduceL1" and node.attribute("axes") is not None:
        return "axes as an attribute, for which OpenVINO adds up all there is"
    told = "noop_with_empty_axes, for which OpenVINO hands numbers on as they are"
    return told if is_idle(node) else ""


def _top_k(node: Node) -> str:
    count = node.constant(1)
    is_none = count is not None and not count.any()
    return "none of the largest, which OpenVINO fails to make" if is_none else ""


def _unique(node: Node) -> str:
    if not node.attribute("sorted", 1):
        return "no order, in which OpenVINO makes zeros"
    return "" if is_fixed(node) else "sizes known when running, with which OpenVINO fails"


def _is_read(node: Node, value: str) -> bool:
    """Say whether anybody wants an output of a node."""
    readers = node.consumers()
    return node.graph.is_output(value) or any(value in (*n.inputs, *n.captures) for n in readers)


_HALVES: Final = frozenset({DataType.FLOAT16, DataType.BFLOAT16})
_FLOATS: Final = _HALVES | {DataType.FLOAT, DataType.DOUBLE, DataType.UNDEFINED}
_READ: Final = {"is_causal", "kv_num_heads", "q_num_heads", "scale", "softcap", "softmax_precision"}
_LARGEST_SCALE: Final = float(np.finfo(np.float32).max) / (1 << 16)
_AXES: Final = 3
_NEWER: Final = 11
"""The operator set from which on bounds are inputs, and OpenVINO counts indices below 0."""
_INT32: Final = (1 << 31) - 1


_CHOSEN: Final = "a condition that chooses itself, which OpenVINO does not compile"
_OF_ONE: Final = "a mask of a single number, which OpenVINO does not compile"
_OF_ROWS: Final = "rows of one element each, which OpenVINO leaves unwritten"
_FOREIGN: Final = ("Attention", "FusedMatMul", "MultiHeadAttention")
_UNREAD: Final = ("do_rotary", "scale", "transBatchA", "transBatchB")
_LOST: Final = "stored regions of a stored picture, whose shape OpenVINO loses"
_PROBLEMS: Final[Mapping[str, Callable[[Node], str]]] = {
    **USES,
    "Attention": _attention,
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), pool_problem),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "Clip": _clip,
    "Dropout": lambda n: _OF_ONE if n.shape(0) == () and len(n.outputs) > 1 else "",
    "Einsum": dots_problem,
    "GroupNormalization": _group_normalization,
    "Hardmax": lambda _: "one of several equal numbers, of which it may take another",
    **dict.fromkeys(("HardSigmoid", "Selu"), _zeros),
    "InstanceNormalization": lambda n: "" if (n.shape(0) or "any")[2:] else _OF_ROWS,
    "MatMul": lambda node: _mat_mul(node) or USES["MatMul"](node),
    "MaxRoiPool": lambda n: _LOST if all(map(n.is_constant, (0, 1))) else USES["MaxRoiPool"](n),
    "Mod": lambda node: _mod(node) or USES["Mod"](node),
    "NonZero": _non_zero,
    "OneHot": lambda node: "" if node.opset >= _NEWER else "indices that may be below 0",
    "PRelu": _p_relu,
    "QuantizeLinear": _quantize,
    **dict.fromkeys(("ReduceL1", "ReduceL2"), _norm),
    **dict.fromkeys(("Resize", "Upsample"), resize_problem),
    "Reshape": lambda node: _fed_axes(node) or USES["Reshape"](node),
    "SimplifiedLayerNormalization": lambda n: "no epsilon" * ("epsilon" not in n.attributes),
    "Slice": lambda node: _slice(node) or USES["Slice"](node),
    "SpaceToDepth": lambda n: "mode CRD, never read" if n.attribute("mode", "") == "CRD" else "",
    "Split": _split,
    "Squeeze": _fed_axes,
    "TopK": _top_k,
    "Unique": _unique,
    "Where": lambda n: _CHOSEN if n.inputs[0] in n.inputs[1:] else "",
    **{f"com.microsoft::{op}": _foreign for op in _FOREIGN},
    "com.microsoft::SkipSimplifiedLayerNormalization": _idle_epsilon,
    "com.microsoft::DequantizeLinear": USES["DequantizeLinear"],
    "com.microsoft::FusedConv": USES["Conv"],
    "com.microsoft::FusedGemm": lambda node: _fused_gemm(node) or USES["Gemm"](node),
    "com.microsoft::QuantizeLinear": _quantize,
}
"""By operator, a function that says what a node asks for that OpenVINO computes otherwise."""
