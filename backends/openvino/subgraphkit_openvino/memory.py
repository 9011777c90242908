"""Element types, and memory that NumPy and OpenVINO both look at."""

import ctypes
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.types import DataType
from subgraphkit_openvino import library

_ALIGNMENT: Final = 64
"""Bytes; a cache line, and what kernels of any library like best."""

ELEMENT_TYPES: Final[Mapping[DataType, str]] = {
    DataType.FLOAT: "f32", DataType.FLOAT16: "f16", DataType.BFLOAT16: "bf16",
    DataType.DOUBLE: "f64", DataType.INT8: "i8", DataType.INT16: "i16", DataType.INT32: "i32",
    DataType.INT64: "i64", DataType.UINT8: "u8", DataType.UINT16: "u16", DataType.UINT32: "u32",
    DataType.UINT64: "u64", DataType.BOOL: "boolean",
}  # fmt: skip
"""OpenVINO's names of the element types that cross the border; the others never do."""


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array to be written to, which the next library need not copy for its alignment."""
    size = math.prod(shape) * dtype.itemsize
    block = np.empty(size + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + size].view(dtype).reshape(shape)


def shared_tensor(array: npt.NDArray[Any]) -> Any:
    """Return an ``openvino.Tensor`` over an array, copied first if it must not be shared.

    Read-only arrays are copied because the library does not promise never to write to an input,
    strided and unaligned ones because it cannot read them.
    """
    return tensor_over(array if array.flags.carray else np.array(array, order="C"))


def tensor_over(array: npt.NDArray[Any]) -> Any:
    """Return an ``openvino.Tensor`` over a contiguous, writeable array; it keeps the array alive.

    OpenVINO does not know the dtypes of ml_dtypes. It gets such an array as integers of the same
    bits, together with the element type.
    """
    openvino = library.runtime()
    if array.dtype.char in "qQ":
        # C has two words for 64 bits, and OpenVINO knows one; ONNX Runtime says the other
        array = array.view(np.int64 if array.dtype.char == "q" else np.uint64)
    if not array.dtype.isbuiltin:
        # one that says its byte order or carries metadata is the same to everybody but isbuiltin
        array = array.view(array.dtype.type)
    if array.dtype.isbuiltin == 1:
        return openvino.Tensor(array, True)  # noqa: FBT003 (shared_memory; a keyword costs 0.3 us)
    type_ = getattr(openvino.Type, ELEMENT_TYPES[DataType.of(array.dtype)])
    return openvino.Tensor(array.view(np.uint16), openvino.Shape(array.shape), type_)


def shared_constant(array: npt.NDArray[Any]) -> Any:
    """Return the output of an OpenVINO constant over an array, which must outlive it.

    Weights are read-only arrays and OpenVINO never writes to a constant, but its Python binding
    insists on a writeable one. So it is shown the same memory without the mark.
    """
    return library.runtime().op.Constant(tensor_over(unlock(array)), shared_memory=True).output(0)


def unlock(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the memory of a contiguous array as a writeable array, for readers only."""
    if array.flags.writeable or not array.nbytes:
        return array
    memory = (ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)
    return np.ctypeslib.as_array(memory).view(array.dtype).reshape(array.shape)
