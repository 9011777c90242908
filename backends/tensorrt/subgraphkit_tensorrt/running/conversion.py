"""Element types at the border: engines may hold fewer than the model."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import ExecutionError, InputError

__all__ = ["from_engine", "to_engine"]


class _Typed(Protocol):
    @property
    def name(self) -> str:
        """Its name."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its element type in the engine."""


def to_engine(array: npt.NDArray[Any], tensor: _Typed) -> npt.NDArray[Any]:
    """Return an array of the engine's element type in row-major order, the same one if it is.

    Wide numbers become narrow ones where TensorRT has no others: int64 before 10.0, float64.

    Raises:
        ExecutionError: A whole number does not fit (SGK179).
        InputError: It is of another kind, as only arrays on a device can be that do not say what
            they are (SGK141).
    """
    if array.dtype != tensor.dtype:
        if array.dtype.kind != tensor.dtype.kind or array.itemsize < tensor.dtype.itemsize:
            raise InputError(
                "SGK141",
                f"input {tensor.name!r} is {array.dtype}; the engine reads {tensor.dtype}",
            )
        if array.dtype.kind == "i" and array.size:
            info = np.iinfo(tensor.dtype)
            if array.min() < info.min or array.max() > info.max:
                raise ExecutionError(
                    "SGK179",
                    f"input {tensor.name!r} holds numbers beyond {tensor.dtype}, in which this "
                    f"TensorRT computes",
                    backend="tensorrt",
                    hint="TensorRT 10 and newer compute in int64.",
                )
        array = array.astype(tensor.dtype)
    # Not ascontiguousarray, which gives 0-d arrays an axis.
    return array if array.flags.c_contiguous else array.copy(order="C")


def from_engine(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array of the model's element type, the same one if it is."""
    return array if array.dtype == dtype else array.astype(dtype)
