"""Arrays between NumPy and ONNX Runtime, without copies.

ONNX Runtime's ``run`` takes and returns arrays of NumPy's own dtypes. Element types that NumPy
lacks (bfloat16, float8) travel as ``OrtValue`` over the same memory.

Arrays on a GPU stay where they are, by DLPack. The option ``user_compute_stream`` puts all work of
the CUDA provider on CUDA's default stream. So others need only the number of that stream to order
their work. An array that comes in is asked to be ready on that stream. ONNX Runtime waits at the
end of a run, so when a run returns, its outputs are ready on every stream.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import InputError
from subgraphkit.types import DataType, OptionalType, SequenceType, TensorType, ValueType, fits
from subgraphkit_onnxruntime.library import onnxruntime
from subgraphkit_onnxruntime.settings import DEFAULT_STREAM, STREAM, SessionSettings

_PLAIN: Final = frozenset(one for one in DataType if one.is_native) | {DataType.STRING}
"""Element types that ``InferenceSession.run`` takes and returns as arrays."""

_WHOLE_BYTES: Final = ("BFLOAT16", "FLOAT8E4", "FLOAT8E5")
_AS_VALUES: Final = frozenset(one for one in DataType if one.name.startswith(_WHOLE_BYTES))
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
    held = np.asarray(array, order="C")
    make = onnxruntime().OrtValue.ortvalue_from_numpy_with_onnx_type
    return make(held, int(DataType.of(held.dtype))), held


class _Memory:
    """The memory of an ``OrtValue`` as NumPy's array interface describes it, kept alive by it."""

    def __init__(self, value: Any, dtype: np.dtype[Any]) -> None:
        self._value = value
        described = {"version": 3, "typestr": f"|V{dtype.itemsize}", "shape": tuple(value.shape())}
        self.__array_interface__ = {**described, "data": (value.data_ptr(), False)}


def as_array(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a tensor that ONNX Runtime made as an array over the same memory."""
    if DataType.of(dtype).is_native:
        return np.asarray(value.numpy())
    if 0 in value.shape():
        return np.empty(tuple(value.shape()), dtype)
    return np.asarray(_Memory(value, dtype)).view(dtype)


# -- on a device ---------------------------------------------------------------------------------

HOST: Final = "cpu"
_PROVIDER: Final = "CUDAExecutionProvider"
_CUDA: Final = frozenset({2, 13})
"""The kinds of device in DLPack: a GPU's memory, and such as moves between it and the host."""


def device_of(settings: SessionSettings) -> str:
    """Return where sessions with these settings have their values, such as ``"cuda:0"``."""
    if settings.providers[0] != _PROVIDER or not hasattr(onnxruntime().OrtValue, "from_dlpack"):
        return HOST
    return f"cuda:{settings.provider_options[0].get('device_id', '0')}"


def is_on_device(value: Any) -> bool:
    """Say whether a value is an array on a GPU."""
    if isinstance(value, np.ndarray):
        return False
    tell = getattr(value, "__dlpack_device__", None)
    return tell()[0] in _CUDA if tell else hasattr(value, "__cuda_array_interface__")


class _Ready:
    """An array as ONNX Runtime asks for it, which names no stream."""

    def __init__(self, array: Any, stream: int) -> None:
        self._array, self._stream = array, stream
        self.__dlpack_device__ = array.__dlpack_device__

    def __dlpack__(self, **_: Any) -> Any:
        return self._array.__dlpack__(stream=self._stream)


def value_over(value: Any, name: str, type_: ValueType, settings: SessionSettings) -> Any:
    """Return an ``OrtValue`` over the memory of an array on the device.

    Raises:
        InputError: It is of another shape (SGK140) or element type (SGK141), or cannot be read
            where it is (SGK177).
    """
    if not hasattr(value, "__dlpack__"):
        raise InputError(
            "SGK177",
            f"{name!r}, a {type(value).__name__} on a device, speaks no DLPack",
            hint="Pass an array of a library that does, such as PyTorch's, or one of the host.",
        )
    stream = int(settings.provider_options[0].get(STREAM, DEFAULT_STREAM))
    found = onnxruntime().OrtValue.from_dlpack(_Ready(value, stream))
    shape = tuple(found.shape())
    if isinstance(type_, TensorType):
        if type_.shape is not None and not fits(shape, type_.shape):
            raise InputError("SGK140", f"{name!r} has shape {shape}; the model needs {type_}")
        if found.element_type() != int(type_.dtype):
            raise InputError("SGK141", f"{name!r} is {found.data_type()}; the model needs {type_}")
    return found


class OrtArray:
    """An output that ONNX Runtime left on the device.

    Thread-safety: may be read by any thread; nobody writes to it any more.
    """

    def __init__(self, value: Any, dtype: np.dtype[Any]) -> None:
        self._value = value
        self.dtype = dtype
        self.shape = tuple(value.shape())

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return kind and number of the device."""
        kind, number = self._value.__dlpack_device__()
        return int(kind), int(number)

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        """Return a capsule; it is ready on every stream."""
        del stream
        return self._value.__dlpack__()

    def __array__(
        self,
        dtype: npt.DTypeLike | None = None,
        copy: bool | None = None,  # noqa: FBT001 (as NumPy calls it)
    ) -> npt.NDArray[Any]:
        """Fetch it."""
        if copy is False:
            raise ValueError("an array on a device cannot be had on the host without a copy")
        array: npt.NDArray[Any] = self._value.numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        """Render as ``OrtArray(float32[2, 3] on cuda:0)``."""
        return f"OrtArray({self.dtype}{list(self.shape)} on cuda:{self.__dlpack_device__()[1]})"
