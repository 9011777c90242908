"""Uses of operators that IREE 3.13 takes and computes otherwise than ONNX says, each with a reason.

Found with the official cases of ONNX's operators and with the conformance kit. What IREE refuses by
itself is not here.
"""

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Final

import numpy as np

import subgraphkit as sk
from subgraphkit_iree import windows
from subgraphkit_iree.feeding import index_problem, is_fed, scatter_problem, size_problem
from subgraphkit_iree.windows import are_fixed

LOSES_NAN: Final = frozenset({"Clip", "Max", "Min", "Sign"})
"""Operators that turn NaN into a number."""


def deviation(node: sk.Node) -> str:
    """Return why IREE must not get a node that it takes; an empty text if it may."""
    rule = _RULES.get(node.op_type)
    problem = rule(node) if rule else _ALWAYS.get(node.op_type, "")
    made = (node.dtype(at).label for at, it in enumerate(node.inputs) if it and node.producer(at))
    unrounded = "bfloat16 of another operator, which IREE may leave unrounded"
    return problem or _open_repeats(node) or (unrounded if "bfloat16" in made else "")


_REPEATING: Final = frozenset(
    {"Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal"}
    | {"Expand", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMul"}
    | {"MatMulInteger", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "PRelu"}
    | {"QLinearMatMul", "Sub", "Sum", "Where", "Xor"}
)


def _open_repeats(node: sk.Node) -> str:
    """Look for sizes that may be 1 or more at a run: IREE says ahead which inputs are repeated."""
    if node.op_type not in _REPEATING:
        return ""
    shapes = [node.shape(place) for place in range(len(node.inputs))]
    if node.op_type == "Expand":
        wanted = node.constant(1)
        shapes = [shapes[0], None if wanted is None else tuple(wanted.tolist())]
        if wanted is None:
            return "a shape that is fed; IREE says ahead which axes are repeated"
    if "MatMul" in node.op_type:
        if _has_none(node):
            return "a factor of nothing, by which IREE's compiler divides"
        shapes = [shape[:-2] for shape in shapes if shape and len(shape) > 1]
    for dims in zip_longest(*(reversed(shape) for shape in shapes if shape), fillvalue=1):
        sizes = [dim for dim in dims if dim != 1]
        if len(sizes) > 1 and (len(set(sizes)) > 1 or None in sizes):
            return "sizes of which one may be 1 at a run; IREE says ahead which are repeated"
    return ""


def _einsum(node: sk.Node) -> str:
    is_fixed = all(are_fixed(node, place) for place in range(len(node.inputs)))
    is_taken = is_fixed and not _has_none(node)
    return "" if is_taken else "factors of nothing, or of open sizes, which IREE may take for 1"


def _has_none(node: sk.Node) -> bool:
    return any(0 in (node.shape(place) or ()) for place in range(len(node.inputs)))


_WITH_AXES: Final = (
    *(f"Reduce{what}" for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min")),
    *("ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze"),
)


def _axes(node: sk.Node) -> str:
    """Look for short fractions that are added up, and axes: it guesses fed ones by the shape."""
    fed = node.input_type(1) is not None and node.constant(1) is None
    adds = node.op_type.startswith("Reduce") and node.op_type not in {"ReduceMax", "ReduceMin"}
    if adds and node.dtype().bits == 16:  # noqa: PLR2004 (float16 and bfloat16)
        return "fractions of 16 bits, which IREE rounds after each that it adds"
    if fed:
        return "axes that are fed, which IREE guesses"
    return _open_sum(node) if node.op_type in _SUMS else ""


_SUMS: Final = frozenset(("ReduceL1", "ReduceSum", "ReduceSumSquare"))


def _open_sum(node: sk.Node) -> str:
    """Look for some axes of open sizes, added up at once: what else reads the terms gets others."""
    axes, rank = node.attribute("axes", node.constant(1)), len(node.shape(0) or ())
    is_several = axes is not None and 1 < np.size(axes) < rank
    return "a sum over some axes of open sizes" if is_several and not are_fixed(node) else ""


def _reshape(node: sk.Node) -> str:
    """Look for open sizes that are more than merged: IREE takes one for another, or all for 1."""
    wanted, shape = node.constant(1), node.shape(0) or ()
    if wanted is None or wanted.size == 1:
        return size_problem(node)
    mixed = [dim for at, dim in enumerate(shape) if at >= wanted.size or wanted[at]]
    known = [dim for dim in mixed if isinstance(dim, int)]
    kept = [0, *wanted.tolist()]
    for dim in reversed(shape):
        if len(kept) == 1 or kept[-1] != dim or dim == 1:
            break
        kept.pop()
    merges = kept[-1] == -1 and not any(kept[:-1])
    return "" if merges or len(mixed) <= len(known) + 1 else "open sizes that are mixed"


def _open_pads(node: sk.Node) -> str:
    pads, mode = node.attribute("pads", node.constant(1)), node.attribute("mode", "constant")
    if pads is None or min(pads, default=0) < 0:
        return "pads that may be below 0; IREE writes beside its array"
    shape = node.shape(0) or ()
    widths = [max(pair) for pair in zip(pads, pads[len(shape) :], strict=False)]
    within = len(pads) == 2 * len(shape) and all(
        not width or (isinstance(dim, int) and dim > (0 if mode == "edge" else width))
        for dim, width in zip(shape, widths, strict=True)
    )
    return "" if mode == "constant" or within else "pads that may be wider than what they repeat"


def _rounded_sizes(node: sk.Node) -> str:
    """Look for sizes that are rounded, of which the importer forgets what was rounded.

    Open ones that are resized, of a batch or channels, it takes for the new ones.
    """
    data, wanted = node.shape(0), node.constant(3)
    scales = node.constant(len(node.inputs[:3]) - 1)
    resized = "a batch or channels that are resized"
    if wanted is not None and wanted.size:
        return "" if all(isinstance(dim, int) for dim in (data or (None,))[:2]) else resized
    if scales is None or data is None or len(scales) != len(data):
        return "scales or sizes that are fed, or not of all axes"
    mode = node.attribute("coordinate_transformation_mode")
    sizes = [dim if isinstance(dim, int) else 1 for dim in data]
    minds = mode in {"align_corners", "half_pixel_symmetric"}
    if minds and (np.multiply(sizes, scales) % 1).any():
        return f"coordinates by {mode}, and sizes that are rounded"
    return resized if (scales[:2] != 1).any() else ""


_EXPONENTS: Final = frozenset(range(6))


def _power(node: sk.Node) -> str:
    """Take what becomes products; else it is exp(y * log(x)), which is NaN for negative x."""
    if (exponent := node.constant(1)) is None:
        return "an exponent that is not constant; IREE makes NaN of negative numbers"
    if exponent.size == 1 and exponent.item() in _EXPONENTS:
        return ""
    return "an exponent other than a whole number from 0 to 5"


def _unsigned(node: sk.Node) -> str:
    return "numbers without a sign, read with one" if node.dtype().label[0] == "u" else ""


def _zero_divisors(node: sk.Node) -> str:
    """Look whether whole numbers may be divided by 0, because the processor then ends the program.

    It does so for the smallest number divided by -1 as well.
    """
    if node.dtype().label.startswith(("float", "bfloat")):
        return "the remainder of floats, which IREE rounds" if node.op_type == "Mod" else ""
    if problem := _unsigned(node):
        return problem
    if (divisor := node.constant(1)) is None:
        return "a divisor that is not constant; where it is 0, IREE's code ends the program"
    return "a divisor that is 0 or -1" if np.isin(divisor, (0, -1)).any() else ""


def _wide_shifts(node: sk.Node) -> str:
    by, bits = node.constant(1), node.dtype().bits
    safe = by is not None and ((by >= 0) & (by < bits)).all()
    return "" if safe else f"shifts by less than 0 or more than {bits - 1} bits, made of anything"


def _training(node: sk.Node) -> str:
    on = node.constant(2)
    return "a training mode" if any(node.inputs[2:]) and (on is None or on.any()) else ""


def _recurrent(node: sk.Node) -> str:
    """Take the plain ones; the importer drops what it does not know of the others."""
    if any(node.input_type(place) is not None for place in (4, 7)):
        return "lengths of sequences or peepholes"
    if not are_fixed(node):
        return "sizes that are open; IREE mixes it up with other operators of its module"
    odd = {"activations", "activation_alpha", "activation_beta", "clip", "input_forget"}
    found = sorted(odd & node.attributes.keys())
    return f"attribute {(*found, 'layout')[0]}" if found or node.attribute("layout", 0) else ""


def _matrix_stacks(node: sk.Node) -> str:
    if node.dtype(1).bits == 16:  # noqa: PLR2004 (float16 and bfloat16)
        return "scales of 16 bits, in which IREE computes"
    ranks = {len(node.shape(place) or ()) for place in (0, 3)}
    return "" if ranks == {2} else "matrices in a stack"


def _hardmax(node: sk.Node) -> str:
    is_last = node.attribute("axis", 1) == len(node.shape(0) or ()) - 1
    along_one = node.opset >= 13  # noqa: PLR2004 (from here on it goes along one axis)
    return "" if is_last or along_one else "the largest of several axes together"


def _unsigned_bytes(node: sk.Node) -> str:
    """Look for bytes without a sign and without zero points: IREE reads them with a sign then."""
    rows = node.shape(2) or () if any(node.inputs[2:3]) else ()
    if len(rows) == 1 != rows[0]:
        return "zero points of rows, which IREE takes for those of columns"
    both = {node.dtype(place).label for place in (0, 1)} == {"uint8"}
    return "two matrices of uint8 without zero points" if both and not any(node.inputs[2:]) else ""


def _ignoring(attribute: str, known: str | int) -> Callable[[sk.Node], str]:
    """Take the one value that the importer knows; it does not look at the attribute."""

    def rule(node: sk.Node) -> str:
        value = node.attribute(attribute, known)
        return "" if value == known else f"{attribute}={value}, which IREE computes as {known}"

    return rule


_MOST_ORDERED: Final = 256


def _sort_problem(node: sk.Node) -> str:
    if node.dtype().label.startswith("uint"):
        return "numbers without a sign, which IREE orders as if they had one"
    size = (node.shape(0) or (None,))[node.attribute("axis", -1)]
    if not (isinstance(size, int) and size <= _MOST_ORDERED):
        return f"an axis that is open or above {_MOST_ORDERED}; IREE's time is that of all pairs"
    return size_problem(node)


def _slice(node: sk.Node) -> str:
    """Refuse to go back from beyond the end: IREE reads what lies there."""
    steps, starts = map(node.constant, (4, 1))
    if steps is None:
        return "steps that are fed" if any(node.inputs[4:]) else ""
    shape, axes = node.shape(0) or (), node.constant(3)
    for at, axis in enumerate(range(len(steps)) if axes is None else axes):
        size, first = shape[axis], None if starts is None else starts[at]
        is_inside = first is not None and (first < 0 or (isinstance(size, int) and first < size))
        if steps[at] < 0 and not is_inside:
            return "a way back from beyond the end, from where IREE reads"
    return ""


def _last_index(node: sk.Node) -> str:
    size = (node.shape(0) or ("",))[node.attribute("axis", 0)]
    is_open = node.attribute("select_last_index", 0) and not isinstance(size, int)
    return "the last of equals along an open size, from the end of another" if is_open else ""


def _split(node: sk.Node) -> str:
    several = len(set(node.attribute("split") or (0,))) > 1
    return "parts of several sizes, which IREE makes alike" if several else size_problem(node)


def _shortened(node: sk.Node) -> str:
    return "float64, in part rounded to float32" if node.dtype().label == "float64" else ""


_ALWAYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Acosh", "Asinh", "Cosh", "Sinh"), "it overflows before its result does"),
    "Atanh": "digits of small numbers are lost",
    "CenterCropPad": "it crops by padding with less than nothing",
    **dict.fromkeys(("Cos", "Sin", "Tan"), "it gets angles above some hundreds wrong"),
    "Det": "it makes NaN of matrices that want rows exchanged",
    "GridSample": "it reads what is beyond the edge",
    "LpNormalization": "it makes NaN of a row of zeros",
    "LpPool": "it takes the strides of one axis for another",
    "NegativeLogLikelihoodLoss": "it does not look whether labels are in range",
    "NonMaxSuppression": "it keeps boxes whose scores are too low",
    "ReverseSequence": "it cannot be compiled",
    "SoftmaxCrossEntropyLoss": "it does not look whether labels are in range",
    "TfIdfVectorizer": "it counts nothing",
}
_SCALED_BIAS: Final = "a bias, which IREE scales otherwise"
_OWN_COORDINATES: Final = "a mode other than nearest, for which IREE has coordinates of its own"
_OTHER_CHANNELS: Final = "sizes that are open, or even: it sums other channels"
_OPEN_PLANES: Final = "planes of open size, of which what is summed behind is wrong"

_RULES: Final[Mapping[str, Callable[[sk.Node], str]]] = {
    **dict.fromkeys(("HardSwish", "LayerNormalization"), _shortened),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), index_problem),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), scatter_problem),
    **dict.fromkeys(("ArgMax", "ArgMin"), _last_index),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    **dict.fromkeys(("ConstantOfShape", "Range", "Tile"), size_problem),
    "Split": _split,
    **dict.fromkeys(("Div", "Mod"), _zero_divisors),
    **dict.fromkeys(_WITH_AXES, _axes),
    "ReduceL1": lambda n: _unsigned(n) or _axes(n),
    "ReduceL2": lambda n: _shortened(n) or _axes(n),
    **dict.fromkeys(("Abs", "Clip", "PRelu"), _unsigned),
    "AveragePool": windows.average_problem,
    "BatchNormalization": _ignoring("training_mode", 0),
    "BitShift": _wide_shifts,
    "Conv": lambda n: "open filters" if not are_fixed(n, 1) else windows.window_problem(n),
    "ConvTranspose": windows.padded_before,
    "Dropout": _training,
    "Hardmax": _hardmax,
    "Gelu": _ignoring("approximate", "none"),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _ignoring("mode", "DCR")),
    "MaxPool": lambda n: _unsigned(n) or windows.largest_problem(n),
    "Pad": _open_pads,
    "QLinearMatMul": _matrix_stacks,
    "ConvInteger": windows.window_problem,
    "QLinearConv": lambda n: _SCALED_BIAS if any(n.inputs[8:]) else windows.window_problem(n, 3),
    "QuantizeLinear": lambda n: "quotients of 16 bits" if "16" in n.dtype().label else "",
    "NonZero": lambda n: "" if is_fed(n, 0) else "constants, all of which it takes for not 0",
    "Reshape": _reshape,
    "Resize": _rounded_sizes,
    "MatMulInteger": _unsigned_bytes,
    "Gemm": lambda n: "" if are_fixed(n, 2) and not _has_none(n) else "an open or empty operand",
    "Einsum": _einsum,
    "InstanceNormalization": lambda n: "" if are_fixed(n, first=2) else _OPEN_PLANES,
    "LRN": lambda n: "" if are_fixed(n) and n.attribute("size") % 2 else _OTHER_CHANNELS,
    "Neg": lambda n: "whole numbers, negated as fractions" if n.dtype().label[:3] == "int" else "",
    "STFT": windows.frames_problem,
    "Slice": _slice,
    "TopK": _sort_problem,
    "Upsample": lambda n: (
        _OWN_COORDINATES if n.attribute("mode", "") == "linear" else _rounded_sizes(n)
    ),
    "Pow": _power,
}
