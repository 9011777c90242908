"""Operators that look at one element at a time, broadcast operands, or reduce."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit.types import DataType
from subgraphkit_onednn.lowering.draft import DraftTensor, GraphDraft, lowers, require
from subgraphkit_onednn.lowering.folding import folded_into_product

_KINDS: Final[Mapping[str, tuple[str, Mapping[str, float]]]] = {
    "Abs": ("abs", {}),
    "Elu": ("elu", {"alpha": 1.0}),
    "Exp": ("exp", {}),
    "Gelu": ("gelu", {}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": ("hard_swish", {}),
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Relu": ("relu", {}),
    "Round": ("round", {}),
    "Sigmoid": ("sigmoid", {}),
    "Sqrt": ("sqrt", {}),
    "Tanh": ("tanh", {}),
}
"""By operator, the operation of oneDNN and its attributes with ONNX's defaults.

Log, Softplus and Mish are not here: oneDNN computes them by tables that are off by a millionth near
zero, which is all of a small result.
"""

_CLIP_WITH_INPUTS: Final = 11


@lowers(*_KINDS)
def plain(draft: GraphDraft, node: Node) -> None:
    """Lower an operator that oneDNN has under another name; it has the exact GELU alone."""
    is_exact = node.attribute("approximate", "none") == "none"
    require(is_exact, "attribute", "oneDNN computes GELU with erf, not with tanh")
    is_short = node.op_type == "Round" and node.dtype(0) is DataType.BFLOAT16
    require(not is_short, "dtype", "oneDNN ends the process if a reader is joined to this rounding")
    kind, defaults = _KINDS[node.op_type]
    attributes = {name: float(node.attribute(name, value)) for name, value in defaults.items()}
    x, y = draft.value(node.inputs[0]), draft.result(node)
    draft.add(kind, [x], y, **attributes)


@lowers("Reciprocal")
def reciprocal(draft: GraphDraft, node: Node) -> None:
    """Lower one over x as a division; oneDNN has no kernel for the operation alone."""
    x, y = draft.value(node.inputs[0]), draft.result(node)
    # oneDNN broadcasts the second operand of a division only, unless by its reference kernel.
    draft.add("divide", [draft.full(1.0, x.dims, x.dtype), x], y)


@lowers("Neg")
def negation(draft: GraphDraft, node: Node) -> None:
    """Lower a change of sign."""
    _negate(draft, draft.value(node.inputs[0]), draft.result(node))


def _negate(draft: GraphDraft, x: DraftTensor, y: DraftTensor) -> DraftTensor:
    return draft.add("multiply", [x, draft.full(-1.0, (1,) * len(x.dims), x.dtype)], y)


@lowers("Swish")
def swish(draft: GraphDraft, node: Node) -> None:
    """Lower x * sigmoid(alpha * x)."""
    x, y = draft.value(node.inputs[0]), draft.result(node)
    alpha = float(node.attribute("alpha", 1.0))
    factors = [x, draft.full(alpha, (1,) * len(x.dims), x.dtype)]
    inner = draft.add("multiply", factors, draft.like(x)) if alpha != 1 else x
    draft.add("multiply", [draft.add("sigmoid", [inner], draft.like(x)), x], y)


@lowers("Clip")
def clip(draft: GraphDraft, node: Node) -> None:
    """Lower a clip between constants."""
    x, y = draft.value(node.inputs[0]), draft.result(node)
    if node.opset >= _CLIP_WITH_INPUTS:
        low, high = draft.read(node, 1), draft.read(node, 2)
    else:
        low, high = node.attribute("min"), node.attribute("max")
    largest = float(np.finfo(np.float32).max)
    bounds = _number(low, -largest), _number(high, largest)
    require(bounds[0] <= bounds[1], "attribute", f"the bounds {bounds} cross")
    is_finite = all(map(math.isfinite, bounds))
    require(is_finite, "attribute", "a bound is infinite, which oneDNN is not given")
    draft.add("clamp", [x], y, min=bounds[0], max=bounds[1])


def _number(value: Any, default: float) -> float:
    return default if value is None else float(np.asarray(value).astype(np.float32).reshape(()))


_BINARY: Final = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide"}
_FOLDED: Final = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "add"}
_FIRST_BROADCASTING: Final = 7
_SLOW: Final = "oneDNN broadcasts like that in a slow reference kernel alone"
_PRELU_RANK: Final = 5
_EXPONENTS: Final = frozenset({-1.0, 0.5, 2.0})


@lowers(*_BINARY)
def binary(draft: GraphDraft, node: Node) -> None:
    """Lower an operator of two operands."""
    whole = draft.result(node)
    if node.op_type == "Add" and folded_into_product(draft, node, whole):
        return
    y, (a, b) = _laid_out(draft, node, whole)
    require(a.dims == y.dims or node.op_type != "Div", "shape", _SLOW)
    if a.dims != y.dims and node.op_type == "Sub":  # c - x is -x + c, of which c may be broadcast
        made = draft.add("add", [_negate(draft, b, draft.like(y)), a], y)
    else:
        made = draft.add(_BINARY[node.op_type], [a, b], y)
    draft.stand_for(node.outputs[0], made)


@lowers(*_FOLDED)
def variadic(draft: GraphDraft, node: Node) -> None:
    """Lower an operator of any number of operands, two at a time."""
    y, operands = _laid_out(draft, node, draft.result(node))
    kind, is_mean = _FOLDED[node.op_type], node.op_type == "Mean"
    operands.sort(key=lambda one: one.dims != y.dims)  # only the second may be broadcast
    total = operands[0]
    for place, operand in enumerate(operands[1:], 2):
        is_last = place == len(operands) and not is_mean
        dims = tuple(max(pair) for pair in zip(total.dims, operand.dims, strict=True))
        total = draft.add(kind, [total, operand], y if is_last else draft.like(y, dims))
    if is_mean:
        share = draft.full(1 / len(operands), (1,) * len(y.dims), y.dtype)
        draft.add("multiply", [total, share], y)
    elif len(operands) == 1:
        y = total
    draft.stand_for(node.outputs[0], y)


@lowers("Pow")
def power(draft: GraphDraft, node: Node) -> None:
    """Lower a square, a square root or a power of minus one; oneDNN has no kernel for others."""
    x, y = draft.value(node.inputs[0]), draft.result(node)
    exponent = draft.read(node, 1)
    scalar = exponent is not None and exponent.size == 1 and x.dims == y.dims
    require(scalar, "shape", "oneDNN takes one exponent for all elements")
    beta = float(np.asarray(exponent).astype(np.float32).reshape(()))
    require(beta in _EXPONENTS, "attribute", f"oneDNN has no kernel for exponent {beta}")
    if beta < 0:
        reciprocal(draft, node)
    else:
        draft.add("sqrt" if beta < 1 else "square", [x], y)


@lowers("PRelu")
def prelu(draft: GraphDraft, node: Node) -> None:
    """Lower a leaky ReLU with one slope for everything, per channel or per element."""
    x, y = draft.value(node.inputs[0]), draft.result(node)
    # oneDNN ends the process over more
    require(len(x.dims) <= _PRELU_RANK, "rank", f"oneDNN has no PRelu of {len(x.dims)} axes")
    slope = draft.value(node.inputs[1])
    aligned = (1,) * (len(x.dims) - len(slope.dims)) + slope.dims
    slope = draft.view(node.inputs[1], aligned)
    draft.add("prelu", [x, slope], y, data_format="NCX", per_channel_broadcast=False)


def _laid_out(
    draft: GraphDraft, node: Node, y: DraftTensor
) -> tuple[DraftTensor, list[DraftTensor]]:
    """Return the result and the operands, all with the same axes.

    Where an operand is broadcast, axes of length one at the end are left out. With them, oneDNN 3.2
    misreads an operand of one number per channel if it fuses the operation with the one before.
    Where oneDNN has only a reference kernel, neighbouring axes that are broadcast alike become one.
    """
    old = node.opset < _FIRST_BROADCASTING and node.attribute("broadcast", 0)
    require(not old, "opset", "broadcasting along an axis, as before opset 7")
    given, rank = [draft.value(name).dims for name in node.inputs], len(y.dims)
    aligned = [(1,) * (rank - len(dims)) + dims for dims in given]
    axes = list(range(rank))
    if any(1 < math.prod(dims) < math.prod(y.dims) for dims in given):
        while len(axes) > 1 and y.dims[axes[-1]] == 1:
            axes.pop()
    fits = [["BF"[dims[axis] == y.dims[axis]] for dims in aligned] for axis in axes]
    groups = [[axis] for axis in axes]
    if not _is_quick(fits):
        groups = [list(alike) for _, alike in groupby(axes, fits.__getitem__)]
        require(_is_quick([fits[group[0]] for group in groups]), "shape", _SLOW)
    all_dims = y.dims, *aligned
    sizes = [tuple(math.prod(dims[i] for i in one) for one in groups) for dims in all_dims]
    made = y if sizes[0] == y.dims else draft.like(y, sizes[0])
    return made, [draft.view(name, dims) for name, dims in zip(node.inputs, sizes[1:], strict=True)]


_QUICK: Final = re.compile("..?|B*F*|FB+F+|.FB+")
"""Axes of an operand, full or broadcast, for which oneDNN has more than its reference kernel."""


def _is_quick(fits: Sequence[Sequence[str]]) -> bool:
    """Say whether an operand is full and kernels read the others; ``fits`` is by axis."""
    operands = list(map("".join, zip(*fits, strict=True)))
    return any("B" not in one for one in operands) and all(map(_QUICK.fullmatch, operands))


# ReduceMax and ReduceMin are not here: oneDNN's lose NaN, by which masked rows are recognised. For
# ReduceL1 and ReduceL2 it has a reference kernel alone, which takes a hundred times NumPy's time.
_REDUCTIONS: Final[Mapping[str, str]] = {
    "ReduceMean": "reduce_mean", "ReduceProd": "reduce_prod", "ReduceSum": "reduce_sum",
    "ReduceSumSquare": "reduce_sum",
}  # fmt: skip


@lowers(*_REDUCTIONS)
def reduction(draft: GraphDraft, node: Node) -> None:
    """Lower a reduction along constant axes.

    Axes of length one are only dropped: oneDNN ends the process over a reduction of nothing.
    """
    x, y = draft.value(node.inputs[0]), draft.result(node)
    if node.op_type == "ReduceSumSquare":
        x = draft.add("square", [x], draft.like(x))
    if longer := [axis for axis in _axes(draft, node, len(x.dims)) if x.dims[axis] > 1]:
        last = [axis for axis, length in enumerate(x.dims) if length > 1][-len(longer) :]
        told = "for axes that are not the last ones, oneDNN has a slow reference kernel alone"
        require(longer == last, "attribute", told)
        kept = tuple(1 if axis in longer else length for axis, length in enumerate(x.dims))
        output = y if kept == y.dims else draft.like(y, kept)
        x = draft.add(_REDUCTIONS[node.op_type], [x], output, axes=tuple(longer), keep_dims=True)
    draft.stand_for(node.outputs[0], x)


def _axes(draft: GraphDraft, node: Node, rank: int) -> tuple[int, ...]:
    """Return the axes to reduce, ascending; none if there is nothing to do."""
    if (given := node.attribute("axes", None)) is None:
        stored = draft.read(node, 1)
        given = None if stored is None else stored.reshape(-1).tolist()
    if not given:
        return () if node.attribute("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({int(axis) % rank for axis in given}))
