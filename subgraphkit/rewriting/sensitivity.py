"""Nodes that a small error in their inputs changes much: long sums, squares, roundings and angles.

A sum that has grown takes no more small terms, and squares overflow. Some numbers are rounded to
whole ones. Transformers compute places in tables in this way: the logarithm of a distance, scaled,
is cast to an integer. Others become sizes, such as the scales of Resize. Others are angles: at
position 1,000 float16 is off by a quarter of a radian, bfloat16 by two.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import onnx

from subgraphkit.rewriting.draft import Draft, attribute
from subgraphkit.types import TensorType

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
    if node.op_type.startswith("Reduce"):
        shapes = draft.shape(node.input[0]), draft.shape(node.output[0])
        read, left = (_product((None,) if one is None else one) for one in shapes)
        return None if read is None or left is None else read // max(1, left)
    if node.op_type not in {"Conv", "Gemm", "MatMul"}:
        return None
    shape = draft.shape(node.input[1 if node.op_type == "Conv" else 0])
    if not shape:
        return None
    axis = 0 if node.op_type == "Gemm" and attribute(node, "transA", 0) else -1
    return _product(shape[1:] if node.op_type == "Conv" else [shape[axis]])


def _product(dims: Sequence[Any]) -> int | None:
    return math.prod(dims) if all(isinstance(dim, int) for dim in dims) else None


def variance_nodes(draft: Draft) -> Iterator[int]:
    """Find squares, their means and the roots of those: a normalisation written out."""
    makers = draft.producers().get
    for node in draft.nodes:
        if node.op_type not in {"ReduceMean", "ReduceSum"}:
            continue
        square = makers(node.input[0])
        if square is None or not _squares(square, draft):
            continue
        yield from (id(square), id(node))
        reached = {node.output[0]}
        for later in draft.nodes:  # later nodes, up to the root
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


_ROUNDING: Final = frozenset({"Ceil", "Floor", "Mod", "Round"})
_CASTING: Final = frozenset({"Cast", "CastLike"})
_ANGLES: Final = frozenset({"Cos", "Sin", "Tan"})
_ELEMENTWISE: Final = frozenset(
    [
        *("Abs", "Add", "Clip", "Div", "Exp", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Pow"),
        *("Reciprocal", "Sqrt", "Sub", "Where"),
        *("Concat", "Expand", "Flatten", "Identity", "Pad", "Reshape", "Slice", "Split"),
        *("Squeeze", "Tile", "Transpose", "Unsqueeze"),
    ]
)

# Which inputs say how many elements the result has.
_SIZING: Final = {"Range": (0, 1, 2), "Resize": (2,), "Upsample": (1,)}


def rounded_nodes(draft: Draft) -> Iterator[int]:
    """Find the nodes that lead to a rounding or a size, up to sums and look-ups."""
    return _leading(draft, _is_rounding, _sizes)


def angle_nodes(draft: Draft) -> Iterator[int]:
    """Find sines and the like and the nodes that lead to them, up to sums and look-ups."""
    return _leading(draft, lambda node, _: not node.domain and node.op_type in _ANGLES)


def _leading(
    draft: Draft,
    ends: Callable[[onnx.NodeProto, Draft], bool],
    reads: Callable[[onnx.NodeProto], Sequence[str]] = lambda _: (),
) -> Iterator[int]:
    """Walk back element by element from nodes that end the way and from inputs that are read."""
    wanted: set[str] = set()
    for node in reversed(draft.nodes):
        leads = not wanted.isdisjoint(node.output) and _is_elementwise(node, draft)
        if ends(node, draft) or leads:
            wanted.update(value for value in node.input if draft.is_float(value))
            yield id(node)
        wanted.update(value for value in reads(node) if draft.is_float(value))


def _is_elementwise(node: onnx.NodeProto, draft: Draft) -> bool:
    """Say whether no element of the result sums others; a product over one term does not."""
    if node.domain:
        return False
    if node.op_type == "MatMul":
        left, right = (draft.shape(value) or () for value in node.input)
        return left[-1:] == (1,) or right[-2:-1] == (1,)
    return node.op_type in _ELEMENTWISE


def _is_rounding(node: onnx.NodeProto, draft: Draft) -> bool:
    if node.domain:
        return False
    if node.op_type == "OneHot":  # its depth may be a float
        return draft.is_float(node.input[1])
    if not draft.is_float(next(iter(node.input), "")):
        return False
    if node.op_type not in _CASTING:
        return node.op_type in _ROUNDING
    made = draft.types.get(node.output[0])
    return isinstance(made, TensorType) and made.dtype.numpy.kind in "iu"


def _sizes(node: onnx.NodeProto) -> list[str]:
    places = () if node.domain else _SIZING.get(node.op_type, ())
    return [node.input[place] for place in places if place < len(node.input)]
