"""Sums that a short float cannot hold: how many terms they have, and which are of squares."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import onnx

from subgraphkit.rewriting.draft import Draft
from subgraphkit.rewriting.folding import attribute

__all__ = ["axis_length", "terms", "variance_nodes"]

_ONE_AXIS: Final = 13  # from here on Softmax sums along one axis
_SQUARE: Final = 2.0


def axis_length(node: onnx.NodeProto, draft: Draft) -> int | None:
    """Return the length of the axis a node runs along, if it is known.

    Before version 13 Softmax runs along its axis and all behind it as one.
    """
    shape = draft.shape(node.input[0])
    if not shape:
        return None
    default = 0 if node.op_type.startswith("Arg") else -1
    if node.op_type.endswith("Softmax") and draft.opset() < _ONE_AXIS:
        axis = attribute(node, "axis", 1)
        return _product(shape[axis:])
    return _product((shape[attribute(node, "axis", default) % len(shape)],))


def terms(node: onnx.NodeProto, draft: Draft) -> int | None:
    """Return how many terms each element of the result sums, if that is known."""
    shape = draft.shape(node.input[0 if node.op_type.startswith("Reduce") else -1])
    if node.op_type == "Conv":
        shape = draft.shape(node.input[1])
        dims: Sequence[Any] = shape[1:] if shape else (None,)
    elif node.op_type == "Gemm":
        shape = draft.shape(node.input[0])
        dims = [shape[0 if attribute(node, "transA", 0) else 1]] if shape else (None,)
    elif node.op_type == "MatMul":
        shape = draft.shape(node.input[0])
        dims = shape[-1:] if shape else (None,)
    elif node.op_type.startswith("Reduce"):
        read, made = draft.shape(node.input[0]), draft.shape(node.output[0])
        if not read or made is None or not all(isinstance(d, int) for d in (*read, *made)):
            return None
        return _count(read) // max(1, _count(made))
    else:
        return None
    return _product(dims)


def _product(dims: Sequence[Any]) -> int | None:
    return math.prod(dims) if all(isinstance(dim, int) for dim in dims) else None


def _count(shape: Sequence[Any]) -> int:
    return math.prod(shape)


def variance_nodes(draft: Draft) -> Iterator[int]:
    """Find squares, their means and the roots of those: a normalisation written out."""
    producers = draft.producers()
    makers = producers.get
    for node in draft.nodes:
        if node.op_type not in {"ReduceMean", "ReduceSum"}:
            continue
        square = makers(node.input[0])
        if square is None or not _squares(square, draft):
            continue
        yield from (id(square), id(node))
        reached = {node.output[0]}
        for later in draft.nodes:  # what follows, up to the root
            if later.op_type in {"Add", "Sqrt"} and reached & set(later.input):
                yield id(later)
                if later.op_type == "Add":
                    reached.add(later.output[0])


def _squares(node: onnx.NodeProto, draft: Draft) -> bool:
    if node.op_type == "Mul":
        return bool(node.input[0] == node.input[1])
    if node.op_type != "Pow" or node.input[1] not in draft.constants:
        return False
    exponent = draft.array(node.input[1])
    return bool(exponent.size == 1 and exponent.reshape(-1)[0] == _SQUARE)
