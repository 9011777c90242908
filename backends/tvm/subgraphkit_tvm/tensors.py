"""Arrays for TVM and back, without a copy where DLPack and alignment allow it."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit_tvm.library import tvm

__all__ = ["as_array", "as_tensor"]

_ALIGNMENT: Final = 64
"""Bytes; the compiled code loads and stores vectors without looking where they lie."""


class _Window:
    """Shows memory of an array without its read-only flag, which DLPack cannot express."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._held = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def as_tensor(array: Any) -> Any:
    """Return a TVM tensor over an array: over its memory if that is contiguous and aligned.

    The memory must not be written to through the tensor.
    """
    array = np.asarray(array)
    address = array.__array_interface__["data"][0]
    if not array.flags.c_contiguous or address % _ALIGNMENT or not array.dtype.isnative:
        array = _aligned_copy(array)
    elif not array.flags.writeable:
        array = np.asarray(_Window(array))
    return tvm("runtime").from_dlpack(array)


def as_array(tensor: Any) -> npt.NDArray[Any]:
    """Return an array over the memory of a TVM tensor, which it keeps alive."""
    return np.from_dlpack(tensor)


def _aligned_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % _ALIGNMENT
    native = array.dtype.newbyteorder("=")
    copy = memory[start : start + array.nbytes].view(native).reshape(array.shape)
    np.copyto(copy, array)
    return copy
