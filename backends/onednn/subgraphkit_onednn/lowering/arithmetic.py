"""Operators of two or more operands that are broadcast against each other."""

import math
from typing import Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import DraftTensor, GraphDraft
from subgraphkit_onednn.lowering.folding import folded_into_product
from subgraphkit_onednn.lowering.registry import LOWERINGS, lowers, require, single_output

__all__ = ["binary", "folded", "power", "prelu"]

_BINARY: Final = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide"}
_FOLDED: Final = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "add"}
_FIRST_BROADCASTING: Final = 7
_PRELU_RANK: Final = 5
_EXPONENTS: Final = frozenset({-1.0, 0.5, 2.0})


def binary(draft: GraphDraft, node: Node) -> None:
    """Lower an operator of two operands."""
    whole = draft.value(single_output(node))
    if node.op_type == "Add" and folded_into_product(draft, node, whole):
        return
    y = _without_last_ones(draft, node, whole)
    a, b = (_operand(draft, node, place, whole, len(y.dims)) for place in (0, 1))
    draft.add(_BINARY[node.op_type], [a, b], y)
    if y is not whole:
        draft.stand_for(node.outputs[0], y)


def folded(draft: GraphDraft, node: Node) -> None:
    """Lower an operator of any number of operands, two at a time."""
    whole = draft.value(single_output(node))
    y = _without_last_ones(draft, node, whole)
    places = range(len(node.inputs))
    operands = [_operand(draft, node, place, whole, len(y.dims)) for place in places]
    kind, is_mean = _FOLDED[node.op_type], node.op_type == "Mean"
    total = operands[0]
    for place, operand in enumerate(operands[1:], 2):
        is_last = place == len(operands) and not is_mean
        dims = tuple(max(pair) for pair in zip(total.dims, operand.dims, strict=True))
        total = draft.add(kind, [total, operand], y if is_last else draft.like(y, dims))
    if is_mean:
        share = draft.filled(1 / len(operands), (1,) * len(y.dims), y.dtype)
        draft.add("multiply", [total, share], y)
    elif len(operands) == 1:
        y = total
    if y is not whole:
        draft.stand_for(node.outputs[0], y)


LOWERINGS.update(dict.fromkeys(_BINARY, binary))
LOWERINGS.update(dict.fromkeys(_FOLDED, folded))


@lowers("Pow")
def power(draft: GraphDraft, node: Node) -> None:
    """Lower a square, a square root or a power of minus one; oneDNN has no kernel for others."""
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    exponent = draft.read(node, 1)
    scalar = exponent is not None and exponent.size == 1 and x.dims == y.dims
    require(scalar, "shape", "oneDNN takes one exponent for all elements")
    beta = float(np.asarray(exponent).astype(np.float32).reshape(()))
    require(beta in _EXPONENTS, "attribute", f"oneDNN has no kernel for exponent {beta}")
    if beta < 0:
        draft.add("divide", [draft.filled(1.0, x.dims, x.dtype), x], y)
    elif beta < 1:
        draft.add("sqrt", [x], y)
    else:
        draft.add("square", [x], y)


@lowers("PRelu")
def prelu(draft: GraphDraft, node: Node) -> None:
    """Lower a leaky ReLU with one slope for everything, per channel or per element."""
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    # oneDNN ends the process over more
    require(len(x.dims) <= _PRELU_RANK, "rank", f"oneDNN has no PRelu of {len(x.dims)} axes")
    slope = draft.value(node.inputs[1])
    aligned = (1,) * (len(x.dims) - len(slope.dims)) + slope.dims
    slope = draft.view(node.inputs[1], aligned)
    draft.add("prelu", [x, slope], y, data_format="NCX", per_channel_broadcast=False)


def _without_last_ones(draft: GraphDraft, node: Node, y: DraftTensor) -> DraftTensor:
    """Return the result without its last axes of length one, if oneDNN may misread an operand.

    Where such axes follow, it takes an operand of one number per channel for another when it
    computes it in one kernel with an operation before (seen with oneDNN 3.2).
    """
    rank = len(y.dims)
    while rank > 1 and y.dims[rank - 1] == 1:
        rank -= 1
    sizes = [math.prod(draft.value(name).dims) for name in node.inputs]
    is_broadcast = any(1 < size < math.prod(y.dims) for size in sizes)
    return draft.like(y, y.dims[:rank]) if is_broadcast and rank < len(y.dims) else y


def _operand(draft: GraphDraft, node: Node, place: int, y: DraftTensor, rank: int) -> DraftTensor:
    """Return an operand with as many axes as the result, of which the first ``rank`` count."""
    old = node.opset < _FIRST_BROADCASTING and node.attribute("broadcast", 0)
    require(not old, "opset", "broadcasting along an axis, as before opset 7")
    name = node.inputs[place]
    tensor = draft.value(name)
    aligned = (1,) * (len(y.dims) - len(tensor.dims)) + tensor.dims
    return draft.view(name, aligned[:rank])
