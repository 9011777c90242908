"""Values in ONNX Runtime's wrapping, and bindings of them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from subgraphkit.compat.onnxruntime.options import no_equivalent
from subgraphkit.running.binding_io import IOBinding as _IOBinding
from subgraphkit.running.devices import HOST, device_of, to_host
from subgraphkit.types import DataType


class OrtDevice:
    """A device by its kind and number.

    ``kind``: 0 for the processor, 1 for a GPU. ``number``: Its number.
    """

    _KINDS: ClassVar[Mapping[str, int]] = {"cpu": 0, "cuda": 1, "gpu": 1}

    def __init__(self, kind: int = 0, memory: int = 0, number: int = 0) -> None:
        del memory  # ONNX Runtime's signature
        self._kind, self._number = kind, number

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        """Return a device by its name; CallerError (SGK114) if there is no such kind."""
        del vendor_id
        if (kind := OrtDevice._KINDS.get(ort_device_name.lower())) is None:
            raise no_equivalent(f"device {ort_device_name!r}", "There are cpu and cuda.")
        return OrtDevice(kind, number=device_id)

    @staticmethod
    def cpu() -> int:
        """Return the kind of a processor."""
        return 0

    @staticmethod
    def cuda() -> int:
        """Return the kind of a GPU."""
        return 1

    @staticmethod
    def default_memory() -> int:
        """Return the kind of memory that there is."""
        return 0

    def device_type(self) -> int:
        """Return the kind."""
        return self._kind

    def device_id(self) -> int:
        """Return the number."""
        return self._number


class OrtValue:
    """An array, of the host or of a device, or a sequence or map of them.

    ``value``: The array; shared, not copied.

    Thread-safety: safe, but for ``update_inplace``.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: npt.NDArray[Any],
        device_type: str = HOST,
        device_id: int = 0,  # noqa: ARG004 (ONNX Runtime's signature)
    ) -> "OrtValue":
        """Wrap an array of the host; CallerError (SGK114) to copy it to a device."""
        _require_host(device_type)
        return OrtValue(numpy_obj)

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: Any,
        device_type: str = HOST,
        device_id: int = 0,  # noqa: ARG004 (ONNX Runtime's signature)
    ) -> "OrtValue":
        """Allocate an array of the host; CallerError (SGK114) for one of a device."""
        _require_host(device_type)
        number = isinstance(element_type, int)
        dtype = DataType(element_type).numpy if number else np.dtype(element_type)
        return OrtValue(np.empty(tuple(shape), dtype))

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> "OrtValue":  # noqa: FBT001, FBT002 (ONNX Runtime's signature)
        """Wrap an array of any library, where it is."""
        if device_of(data) != HOST:
            return OrtValue(data)
        array = np.from_dlpack(data)
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    def numpy(self) -> npt.NDArray[Any]:
        """Return the value as an array of the host, copied if it is elsewhere."""
        array: npt.NDArray[Any] = to_host(self._value)
        return array

    def value(self) -> Any:
        """Return the wrapped value."""
        return self._value

    def shape(self) -> list[int]:
        """Return the shape."""
        return list(self._value.shape)

    def data_type(self) -> str:
        """Return the type, such as ``tensor(float)``."""
        if not self.is_tensor():
            return "seq" if isinstance(self._value, list) else "map"
        return f"tensor({DataType.of(self._value.dtype).name.lower()})"

    def element_type(self) -> int:
        """Return ONNX's number of the element type."""
        return int(DataType.of(self._value.dtype))

    def device_name(self) -> str:
        """Return where the value is, such as ``"cpu"``."""
        return device_of(self._value).partition(":")[0]

    def data_ptr(self) -> int:
        """Return the address of an array of the host or of CUDA."""
        if isinstance(self._value, np.ndarray):
            return int(self._value.ctypes.data)
        return int(self._value.__cuda_array_interface__["data"][0])

    def has_value(self) -> bool:
        """Say whether there is a value; an optional one may be absent."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Say whether it is an array."""
        return hasattr(self._value, "dtype")

    def update_inplace(self, np_arr: npt.NDArray[Any]) -> None:
        """Write into an array of the host."""
        np.copyto(self._value, np_arr)

    def __dlpack__(self, **wanted: Any) -> Any:
        """Hand the array to another library."""
        return self._value.__dlpack__(**wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where the array is, in DLPack's numbers."""
        kind, index = self._value.__dlpack_device__()
        return int(kind), int(index)


def _require_host(device_type: str) -> None:
    if device_type != HOST:
        instead = "Wrap an array that another library has there, with OrtValue.from_dlpack."
        raise no_equivalent(f"memory on {device_type!r} that belongs to an OrtValue", instead)


def unwrap(value: Any) -> Any:
    """Return the value of an ``OrtValue``; anything else as it is."""
    return value.value() if isinstance(value, OrtValue) else value


def wrap(value: Any) -> OrtValue:
    """Return a value as an ``OrtValue``."""
    return value if isinstance(value, OrtValue) else OrtValue(value)


class IOBinding(_IOBinding):
    """As the binding of a subgraphkit session, with values in ONNX Runtime's wrapping.

    Thread-safety: none; use one binding per thread.
    """

    def __init__(self, session: Any) -> None:
        self.__dict__.update(session.inner.io_binding().__dict__)

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Read the input from an array or ``OrtValue`` at every run."""
        super().bind_cpu_input(name, unwrap(array))

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """Read the input from an ``OrtValue`` at every run."""
        self.bind_cpu_input(name, ortvalue)

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Write the output into an ``OrtValue`` at every run."""
        super().bind_ortvalue_output(name, unwrap(ortvalue))

    def get_outputs(self) -> list[Any]:
        """Return the bound outputs of the last run as ``OrtValue``."""
        return [wrap(value) for value in super().get_outputs()]
