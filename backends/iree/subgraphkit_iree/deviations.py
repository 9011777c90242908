"""Uses of operators that IREE 3.13 takes and computes otherwise than ONNX says, each with a reason.

Found with the official cases of ONNX's operators and with the conformance kit. What IREE refuses by
itself is not here.
"""

from collections.abc import Callable, Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import Final

import numpy as np

import subgraphkit as sk

__all__ = ["LOSES_NAN", "deviation"]

LOSES_NAN: Final = frozenset({"Clip", "Max", "Min", "Sign"})
"""Operators that make a number of NaN."""


def deviation(node: sk.Node) -> str:
    """Return why a node that IREE takes is not to be given to it; an empty text if it is."""
    rule = _RULES.get(node.op_type)
    return (rule(node) if rule else "") or _repeated(node)


_REPEATING: Final = frozenset(
    {
        *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal"),
        *("Expand", "Gemm", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMul"),
        *("MatMulInteger", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "PRelu"),
        *("QLinearMatMul", "Sub", "Sum", "Where", "Xor"),
    }
)


def _repeated(node: sk.Node) -> str:
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
        shapes = [shape[:-2] for shape in shapes if shape and len(shape) > 1]
    for dims in zip_longest(*(reversed(shape) for shape in shapes if shape), fillvalue=1):
        sizes = [dim for dim in dims if dim != 1]
        if len(sizes) > 1 and (len(set(sizes)) > 1 or None in sizes):
            return "sizes of which one may be 1 at a run; IREE says ahead which are repeated"
    return ""


def _indices(node: sk.Node) -> str:
    """Look whether all indices are in range, because IREE does not, and reads what is there."""
    data, indices = node.shape(0), node.constant(1)
    if indices is None:
        return "indices that are not constant; IREE does not look whether they are in range"
    if data is None:
        return "indices into an array whose rank is not known"
    if node.op_type in {"GatherND", "ScatterND"}:
        batch = node.attribute("batch_dims", 0)
        columns = [(data[batch + k], indices[..., k]) for k in range(indices.shape[-1])]
    else:
        columns = [(data[node.attribute("axis", 0)], indices)]
    for size, column in columns:
        if not isinstance(size, int):
            return "indices into a dimension that is not known before running"
        if column.size and not (-size <= column.min() and column.max() < size):
            return "an index that is out of range"
    return ""


_WITH_AXES: Final = (
    *(f"Reduce{what}" for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min")),
    *("ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze"),
)


def _axes(node: sk.Node) -> str:
    """Look for axes that are fed: IREE guesses them from the shape that is declared."""
    fed = node.input_type(1) is not None and node.constant(1) is None
    return "axes that are fed, which IREE guesses" if fed else ""


_EXPONENTS: Final = frozenset(range(6))


def _power(node: sk.Node) -> str:
    """Take what becomes products; else it is exp(y * log(x)), which is NaN for negative x."""
    exponent = node.constant(1)
    if exponent is None:
        return "an exponent that is not constant; IREE makes NaN of negative numbers"
    if exponent.size == 1 and exponent.item() in _EXPONENTS:
        return ""
    return "an exponent other than a whole number from 0 to 5"


def _divided(node: sk.Node) -> str:
    """Look whether whole numbers may be divided by 0, because the processor then ends the program.

    It does so for the smallest number divided by -1 as well.
    """
    if node.dtype().label.startswith(("float", "bfloat")):
        return "the remainder of floats, which IREE rounds" if node.op_type == "Mod" else ""
    divisor = node.constant(1)
    if divisor is None:
        return "a divisor that is not constant; where it is 0, IREE's code ends the program"
    return "a divisor that is 0 or -1" if np.isin(divisor, (0, -1)).any() else ""


def _shifted(node: sk.Node) -> str:
    by, bits = node.constant(1), node.dtype().bits
    if by is not None and ((by >= 0) & (by < bits)).all():
        return ""
    return f"shifts by less than 0 or more than {bits - 1} bits, of which LLVM makes anything"


def _training(node: sk.Node) -> str:
    if node.input_type(2) is None:
        return ""
    on = node.constant(2)
    return "" if on is not None and not on.any() else "a training mode"


def _weighted(node: sk.Node) -> str:
    return "" if node.input_type(2) is None else "weights of classes; where some are 0, it divides"


def _sampled(node: sk.Node) -> str:
    mode = node.attribute("mode", "linear")
    return "" if mode in {"linear", "bilinear"} else f"mode {mode}, which takes other places"


def _recurrent(node: sk.Node) -> str:
    """Take the plain ones; the importer drops what it does not know of the others."""
    if any(node.input_type(place) is not None for place in (4, 7)):
        return "lengths of sequences or peepholes"
    odd = {"activations", "activation_alpha", "activation_beta", "clip", "input_forget"}
    found = sorted(odd & node.attributes.keys())
    if found or node.attribute("layout", 0):
        return f"attribute {found[0] if found else 'layout'}"
    return ""


def _stacked(node: sk.Node) -> str:
    ranks = {len(node.shape(place) or ()) for place in (0, 3)}
    return "" if ranks == {2} else "matrices in a stack"


def _unsigned(node: sk.Node) -> str:
    """Look for bytes without a sign and without zero points: IREE reads them with a sign then."""
    if node.input_type(2) is not None or node.input_type(3) is not None:
        return ""
    both = {node.dtype(place).label for place in (0, 1)} == {"uint8"}
    return "two matrices of uint8 without zero points" if both else ""


def _ignoring(attribute: str, known: str) -> Callable[[sk.Node], str]:
    """Take the one value that the importer knows; it does not look at the attribute."""

    def rule(node: sk.Node) -> str:
        value = node.attribute(attribute, known)
        return "" if value == known else f"{attribute}={value}, which IREE computes as {known}"

    return rule


def _negated(node: sk.Node) -> str:
    is_whole = node.dtype().label.startswith(("int", "uint"))
    return "whole numbers, which IREE negates as fractions" if is_whole else ""


def _averaged(node: sk.Node) -> str:
    """Look whether a window may reach beyond the padding, by which IREE divides as well."""
    counts = node.attribute("ceil_mode", 0) and node.attribute("count_include_pad", 0)
    return "windows beyond the padding that is counted" if counts else ""


def _ordered(node: sk.Node) -> str:
    is_unsigned = node.dtype().label.startswith("uint")
    return "numbers without a sign, which IREE orders as if they had one" if is_unsigned else ""


def _always(reason: str) -> Callable[[sk.Node], str]:
    return lambda _: reason


_RULES: Final[Mapping[str, Callable[[sk.Node], str]]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND"),
            _indices,
        ),
        **dict.fromkeys(
            ("Cos", "Sin", "Tan"),
            _always("angles above some hundreds come out wrong, and large ones as infinity"),
        ),
        **dict.fromkeys(
            ("Acosh", "Asinh", "Cosh", "Sinh"), _always("it overflows before its result does")
        ),
        **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
        **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _weighted),
        **dict.fromkeys(("Div", "Mod"), _divided),
        **dict.fromkeys(_WITH_AXES, _axes),
        "AveragePool": _averaged,
        "BitShift": _shifted,
        "Det": _always("it makes NaN of matrices that want rows exchanged"),
        "Dropout": _training,
        "Gelu": _ignoring("approximate", "none"),
        "GridSample": _sampled,
        "SpaceToDepth": _ignoring("mode", "DCR"),
        "QLinearMatMul": _stacked,
        "ReverseSequence": _always("it cannot be compiled"),
        "MatMulInteger": _unsigned,
        "Neg": _negated,
        "TopK": _ordered,
        "LpNormalization": _always("it makes NaN of a row of zeros"),
        "Pow": _power,
    }
)
