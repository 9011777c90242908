"""The forms in which an array may be fed: layouts, byte orders, and read-only arrays."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["FEEDING_FORMS"]

_Array = npt.NDArray[Any]
_GARBAGE: Final = 77
"""What stands between elements, and fits every type."""


def _read_only(array: _Array) -> _Array:
    copied = array.copy()
    copied.setflags(write=False)
    return copied


def _spread(array: _Array) -> _Array:
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), _GARBAGE, array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def _backwards(array: _Array) -> _Array:
    return np.flip(np.ascontiguousarray(np.flip(array)))


def _columns_first(array: _Array) -> _Array:
    return np.asfortranarray(array)


def _broadcast(array: _Array) -> _Array:
    # one row seen many times: a stride of 0
    return np.broadcast_to(array[:1], array.shape)


def _foreign_bytes(array: _Array) -> _Array:
    return array.astype(array.dtype.newbyteorder(">"))


def _unaligned(array: _Array) -> _Array:
    room = np.zeros(array.nbytes + 1, np.uint8)
    moved = room[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


FEEDING_FORMS: Final[Mapping[str, Callable[[_Array], _Array]]] = MappingProxyType(
    {
        "read_only": _read_only,
        "not_contiguous": _spread,
        "backwards": _backwards,
        "columns_first": _columns_first,
        "stride_zero": _broadcast,
        "big_endian": _foreign_bytes,
        "not_aligned": _unaligned,
    }
)
"""By name, what turns an array into one of that form; ``stride_zero`` changes the values, too."""
