"""Shapes that are stated by the elements of an input, for Reshape, Expand and ConstantOfShape.

onnx knows such a shape where all elements are known. Where some are open the others still are
known, and at the least their number is the rank.
"""

from collections.abc import Collection
from math import prod
from typing import Any, Final

import numpy.typing as npt

from subgraphkit.ir import Node
from subgraphkit.types import Dim, Shape

__all__ = ["TARGETED", "target_shape"]

TARGETED: Final = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
"""The operators, and which of their inputs states the shape."""


def target_shape(
    node: Node,
    data: Shape | None,
    target: Shape | None,
    value: npt.NDArray[Any] | None,
    unsure: Collection[str],
) -> Shape | None:
    """Return the shape of what a node makes; None if not even the rank is known.

    Args:
        node: A node of one of the ``TARGETED`` operators.
        data: Shape of its first input.
        target: Shape of the input that states the shape.
        value: Its elements, of which some may be open; None if they are not known.
        unsure: Names that may have several sizes in a run.
    """
    if value is not None and value.ndim == 1:
        stated: list[Dim] = value.tolist()
    elif target is not None and len(target) == 1 and isinstance(target[0], int):
        stated = [None] * target[0]
    else:
        return None
    if node.op_type == "Reshape":
        dims = _copied(stated, data) if not node.attribute("allowzero", 0) else stated
        rest = _rest([dim for dim in dims if dim != -1], data, unsure)
        return tuple(rest if dim == -1 else dim for dim in dims)
    if node.op_type == "Expand":
        return _expanded(stated, data)
    return tuple(stated)


def _copied(stated: list[Dim], data: Shape | None) -> list[Dim]:
    """Put sizes of the input in where 0 asks for them."""
    sizes = (*(data or ()), *[None] * len(stated))
    return [sizes[axis] if dim == 0 else dim for axis, dim in enumerate(stated)]


def _rest(others: list[Dim], data: Shape | None, unsure: Collection[str]) -> Dim:
    """Return the size that remains for -1; names that both sides have cancel out."""
    if data is None:
        return None
    left = list(data)
    for name in [dim for dim in others if isinstance(dim, str) and dim not in unsure]:
        if name in left:
            left.remove(name)
            others.remove(name)
    names = [dim for dim in left if not isinstance(dim, int)]
    known = prod(dim for dim in others if isinstance(dim, int))
    total = prod(dim for dim in left if isinstance(dim, int))
    if not all(isinstance(dim, int) for dim in others) or len(names) > 1:
        return None
    if names:
        return names[0] if known == total else None
    return total // known if known else None


def _expanded(stated: list[Dim], data: Shape | None) -> Shape | None:
    if data is None:
        return None
    rank = max(len(stated), len(data))
    pairs = zip([1] * (rank - len(stated)) + stated, (1,) * (rank - len(data)) + data, strict=True)
    return tuple(_broadcast(one, other) for one, other in pairs)


def _broadcast(one: Dim, other: Dim) -> Dim:
    if other in {1, one}:
        return one
    if one == 1 or isinstance(other, int):
        return other
    return one if isinstance(one, int) else None
