"""How many bytes a value takes, as far as anyone can tell before running."""

from array import array
from collections.abc import Iterable

from subgraphkit.types import DataType, Shape, SparseTensorType, TensorType, ValueType

__all__ = ["bytes_of", "bytes_of_all"]

_BITS_OF_TEXT = 128
"""Assumed for a string, and for an element type that is not known: two words."""


def bytes_of(type_: ValueType | None) -> int:
    """Return the size of a value; dimensions that are not known count as one element.

    Args:
        type_: The type; what is not a tensor counts as one element of two words.

    Returns:
        At least 1, so that a value whose size is not known still weighs something.
    """
    if isinstance(type_, TensorType | SparseTensorType):
        return _tensor_bytes(type_.dtype, type_.shape)
    return _BITS_OF_TEXT // 8


def bytes_of_all(types: Iterable[ValueType | None]) -> "array[int]":
    """Return the sizes of many values, faster where they share a type or a shape.

    Returns:
        One size per type, of array type code ``q``.
    """
    # The list keeps every type alive, so that no two have the same identity.
    listed = list(types)
    shared = dict(zip(map(id, listed), listed, strict=True))
    sizes = dict(zip(shared, _bytes_of_each(shared.values()), strict=True))
    return array("q", map(sizes.__getitem__, map(id, listed)))


def _bytes_of_each(types: Iterable[ValueType | None]) -> "array[int]":
    known: dict[Shape | None, tuple[DataType | None, int]] = {}
    nothing: tuple[DataType | None, int] = (None, 0)
    sizes = array("q")
    append = sizes.append
    for type_ in types:
        if type(type_) is not TensorType:
            append(bytes_of(type_))
            continue
        dtype, shape = type_.dtype, type_.shape
        # Keyed by shape alone, because members of an enumeration hash ten times slower.
        known_dtype, size = known.get(shape, nothing)
        if known_dtype is not dtype:
            size = _tensor_bytes(dtype, shape)
            known[shape] = (dtype, size)
        append(size)
    return sizes


def _tensor_bytes(dtype: DataType, shape: Shape | None) -> int:
    count = 1
    for dim in shape or ():
        if isinstance(dim, int):
            count *= dim
    return max(1, (count * (dtype.bits or _BITS_OF_TEXT) + 7) // 8)
