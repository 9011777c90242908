"""Arrays on the device, handed over by neighbours without a copy."""

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import InputError
from subgraphkit_tensorrt.running import dlpack
from subgraphkit_tensorrt.running.device import Device
from subgraphkit_tensorrt.running.dlpack import Foreign
from subgraphkit_tensorrt.running.memory import Block

_TYPESTRS = frozenset("?bhilqBHILQefd")
_DEFAULT_STREAM = 1
"""The number by which protocols call CUDA's default stream."""
_LEGACY = 0
"""The handle of that stream, which waits for all streams that were not made to let it be."""


class DeviceArray:
    """An array in row-major order in the memory of a device, readable through DLPack.

    Speaks ``__dlpack__``, ``__cuda_array_interface__`` and, with a copy to the host, ``__array__``.
    By the first two, a reader's stream waits for the work that computes the array; the host does
    not wait.

    Thread-safety: may be read from any thread.
    """

    __slots__ = ("__weakref__", "_device", "_end", "_owner", "block", "dtype", "shape", "stream")

    def __init__(
        self,
        device: Device,
        block: Block,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        stream: int,
        *,
        owner: object = None,
    ) -> None:
        self.block = block
        self.shape = shape
        self.dtype = dtype
        self.stream = stream
        self._device = device
        self._owner = owner
        self._end = weakref.finalize(self, device.give_back, block)
        # What an interpreter frees when it ends, CUDA has freed before.
        self._end.atexit = False
        if owner is not None:
            self._end.detach()

    @property
    def address(self) -> int:
        """Where it is."""
        return self.block.address

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def use_on(self, stream: int) -> None:
        """Order a stream behind what computes the array, and the end of the array behind it."""
        self._device.order(self.stream, stream)
        self.block.streams.add(stream)

    def note_writer(self, stream: int) -> None:
        """Take it that what is in the array is computed on a stream, ordered behind its readers."""
        self.block.streams.add(stream)
        self.stream = stream

    def wait(self) -> None:
        """Wait until the array is computed; ExecutionError (SGK174) if that failed."""
        with self._device.active():
            self._device.cuda.wait_for_stream(self.stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's kind and number of the device."""
        return dlpack.CUDA, self._device.index

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule; a stream of None or 1 is CUDA's default one, -1 orders nothing.

        Raises:
            BufferError: A copy is asked for, or another device, or DLPack has no word for the
                element type.
        """
        del max_version  # what is older is always taken
        if copy:
            raise BufferError("an array on the device is handed out without a copy or not at all")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"it is on {self._device.name}; numpy.asarray() copies to the host")
        stream = _DEFAULT_STREAM if stream is None else stream
        reader = _LEGACY if stream in {-1, _DEFAULT_STREAM} else stream
        if stream != -1:
            self._order(reader)
        self.block.streams.add(reader)
        where = self.__dlpack_device__()
        return dlpack.export(self.address, self.shape, self.dtype, where, owner=self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Describe the memory, version 3; the stream named is that which computes it."""
        if self.dtype.char not in _TYPESTRS:
            raise AttributeError(f"__cuda_array_interface__ has no element type for {self.dtype}")
        self._order(self.stream)
        self.block.streams.add(_LEGACY)  # nobody says where it will be read
        described = {"version": 3, "shape": self.shape, "typestr": self.dtype.str, "strides": None}
        where = {"data": (self.address, False), "stream": self.stream or _DEFAULT_STREAM}
        return {**described, **where}

    def __array__(
        self,
        dtype: npt.DTypeLike | None = None,
        copy: bool | None = None,  # noqa: FBT001 (NumPy's protocol)
    ) -> npt.NDArray[Any]:
        """Copy to the host; waits until the array is computed."""
        if copy is False:
            raise ValueError("an array on the device cannot be read by the host without a copy")
        with self._device.active():
            array = np.empty(self.shape, self.dtype)
            if array.nbytes:
                cuda = self._device.cuda
                cuda.download(array.ctypes.data, self.address, array.nbytes, self.stream)
                cuda.wait_for_stream(self.stream)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        """Render as ``DeviceArray(float32[2, 3] on cuda:0)``."""
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self._device.name})"

    def _order(self, stream: int) -> None:
        """Order a stream, which may write to the array, behind whatever uses it by now."""
        with self._device.active():
            for other in {self.stream, *self.block.streams} - {stream}:
                self._device.order(other, stream)


def is_on_device(value: Any) -> bool:
    """Say whether a value is an array in the memory of a GPU."""
    if isinstance(value, DeviceArray):
        return True
    if isinstance(value, np.ndarray):
        return False
    if (where := getattr(value, "__dlpack_device__", None)) is not None:
        return bool(where()[0] in dlpack.ON_CUDA)
    return getattr(value, "__cuda_array_interface__", None) is not None


def read_foreign(
    value: Any, name: str, device: Device, stream: int, role: str = "input"
) -> Foreign:
    """Read an array of another library where it is; ``stream`` is ordered behind its producer.

    Raises:
        InputError: It is on another device, has gaps, or cannot be read (SGK177).
    """
    try:
        if hasattr(value, "__dlpack__"):
            return _from_dlpack(value, device, stream)
        return _from_interface(value, device, stream, is_read=role != "output")
    except (BufferError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            "SGK177",
            f"{role} {name!r}, a {type(value).__name__} on a device, cannot be used: {error}",
            hint=f"Pass a contiguous array on {device.name}, or one in the memory of the host.",
            input=name,
        ) from error


def fetch_to_host(value: Any, name: str, device: Device) -> npt.NDArray[Any]:
    """Copy an array of any library on the device to the host, as ``read_foreign``."""
    if isinstance(value, DeviceArray):
        return np.asarray(value)
    with device.active(), device.slot() as slot:
        found = read_foreign(value, name, device, slot.stream)
        array = np.empty(found.shape, found.dtype)
        if array.nbytes:
            data = array.ctypes.data
            device.cuda.download(data, found.address, array.nbytes, slot.stream)
        slot.wait()
        found.release()
        return array


def _from_dlpack(value: Any, device: Device, stream: int) -> Foreign:
    kind, index = value.__dlpack_device__()
    if kind not in dlpack.ON_CUDA or index != device.index:
        raise ValueError(f"it is on device {index} of kind {kind}, expected {device.name}")
    return dlpack.take(value.__dlpack__(stream=stream or _DEFAULT_STREAM))


def _from_interface(value: Any, device: Device, stream: int, *, is_read: bool) -> Foreign:
    interface = value.__cuda_array_interface__
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    own, index = getattr(value, "dtype", None), getattr(value, "device_id", None)
    if dtype.kind == "V" and isinstance(own, np.dtype):  # the protocol has no word for it
        dtype = own
    if index is not None and index != device.index:
        raise ValueError(f"it is on device {index}, expected {device.name}")
    if not dlpack.is_row_major(shape, interface.get("strides"), dtype.itemsize):
        raise ValueError(dlpack.GAPS)
    if interface["data"][1] and not is_read:
        raise ValueError("it is read-only")
    if interface.get("mask") is not None:
        raise ValueError("its mask would be lost")
    if (producer := interface.get("stream")) is not None:
        device.cuda.order(0 if producer == _DEFAULT_STREAM else producer, stream)
    held = [value]
    return Foreign(interface["data"][0], shape, dtype, held.clear)
