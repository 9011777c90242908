"""Numbers whose last digits decide: half a digit less makes something else of them.

Some are rounded to whole numbers: transformers compute places in tables so, of a distance the
logarithm, scaled, cast to an integer; others become sizes, such as the scales of Resize. Others are
angles: at position 1,000 float16 is off by a quarter of a radian, bfloat16 by two.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import onnx

from subgraphkit.rewriting.draft import Draft
from subgraphkit.types import TensorType

__all__ = ["angle_nodes", "rounded_nodes"]

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

_SIZING: Final = {"Range": (0, 1, 2), "Resize": (2,), "Upsample": (1,)}
"""Which inputs say how many elements the result has."""


def rounded_nodes(draft: Draft) -> Iterator[int]:
    """Find the nodes that lead to a rounding or a size, up to what sums or looks up."""
    return _leading(draft, _is_rounding, _sizes)


def angle_nodes(draft: Draft) -> Iterator[int]:
    """Find sines and the like and the nodes that lead to them, up to what sums or looks up."""
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
