"""Arrays between NumPy and ONNX Runtime, without copies.

ONNX Runtime's ``run`` takes and returns arrays of NumPy's own dtypes. Element types that NumPy
lacks (bfloat16, float8) travel as ``OrtValue`` over the same memory.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.types import DataType, OptionalType, SequenceType, TensorType, ValueType
from subgraphkit_onnxruntime.library import onnxruntime

_PLAIN: Final = frozenset(
    {
        *(DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BOOL, DataType.STRING),
        *(DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64),
        *(DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64),
    }
)
"""Element types that ``InferenceSession.run`` takes and returns as arrays."""

_AS_VALUES: Final = frozenset(
    {
        DataType.BFLOAT16,
        *(DataType.FLOAT8E4M3FN, DataType.FLOAT8E4M3FNUZ),
        *(DataType.FLOAT8E5M2, DataType.FLOAT8E5M2FNUZ),
    }
)
"""Element types of whole bytes that only an ``OrtValue`` holds."""


def is_plain(type_: ValueType | None) -> bool:
    """Say whether ``run`` takes values of a type as they are."""
    if isinstance(type_, SequenceType | OptionalType):
        return is_plain(type_.element)
    return isinstance(type_, TensorType) and type_.dtype in _PLAIN


def crosses(type_: ValueType | None) -> bool:
    """Say whether values of a type can be handed to ONNX Runtime and back."""
    return is_plain(type_) or (isinstance(type_, TensorType) and type_.dtype in _AS_VALUES)


def as_ort_value(array: npt.NDArray[Any]) -> tuple[Any, npt.NDArray[Any]]:
    """Make an ``OrtValue`` over the memory of an array.

    Returns:
        The value, and the contiguous array that must live as long as it does.
    """
    held = np.ascontiguousarray(array).reshape(array.shape)
    make = onnxruntime().OrtValue.ortvalue_from_numpy_with_onnx_type
    return make(held, int(DataType.of(held.dtype))), held


class _Memory:
    """The memory of an ``OrtValue`` as NumPy's array interface describes it, kept alive by it."""

    def __init__(self, value: Any, dtype: np.dtype[Any]) -> None:
        self._value = value
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{dtype.itemsize}",
            "shape": tuple(value.shape()),
            "data": (value.data_ptr(), False),
        }


def as_array(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a tensor that ONNX Runtime made as an array over the same memory."""
    if 0 in value.shape():
        return np.empty(tuple(value.shape()), dtype)
    return np.asarray(_Memory(value, dtype)).view(dtype)
