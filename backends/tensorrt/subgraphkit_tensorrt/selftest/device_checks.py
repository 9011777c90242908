"""Checks of everything that needs no TensorRT: driver, copies, streams, graphs, memory, arrays."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import ml_dtypes
import numpy as np

from subgraphkit.backend import ModelOpener
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running.arrays import DeviceArray, fetch_to_host
from subgraphkit_tensorrt.running.device import Device
from subgraphkit_tensorrt.running.streams import on_stream
from subgraphkit_tensorrt.selftest import models
from subgraphkit_tensorrt.selftest.calibration import ASSUMPTIONS, deviations
from subgraphkit_tensorrt.selftest.computing import (
    NotAvailable,
    cuda_library,
    draw,
    gpus,
    installation,
    module,
    opened,
    require,
)

_TYPES: Final = (
    "f4",
    "f2",
    "i8",
    "i4",
    "i1",
    "u1",
    "?",
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
)
_SHAPES: Final = ((3, 5), (), (0, 4), (1 << 20,))
_TORCH_TYPES: Final = ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
_ORDERED: Final = 200


def driver(bench: ModelOpener) -> str:
    """NVIDIA's driver and its GPUs."""
    del bench
    found = ", ".join(map(str, gpus()))
    return f"{found}, driver for CUDA {installation().machine.driver}"


def cuda_runtime(bench: ModelOpener) -> str:
    """CUDA's runtime library by ctypes."""
    del bench
    cuda = cuda_library()
    with _device():
        return f"CUDA {cuda.version()}, {cuda.free_memory():,} bytes free"


def assumptions(bench: ModelOpener) -> str:
    """What the tests of the run side assume of CUDA, whose device is a double."""
    del bench
    cuda = cuda_library()
    with _device():
        wrong, stricter = deviations(cuda)
    require(not wrong, f"CUDA is not as the tests of the run side assume: {'; '.join(wrong)}")
    more = f"; the double is stricter: {'; '.join(stricter)}" if stricter else ""
    return f"all {len(ASSUMPTIONS)} hold{more}"


def copies(bench: ModelOpener) -> str:
    """Arrays of every element type go to the device and come back."""
    del bench
    with _device() as device:
        for dtype in _TYPES:
            for shape in _SHAPES:
                array = (np.arange(int(np.prod(shape))) % 7).reshape(shape).astype(dtype)
                back = np.asarray(_upload(device, array))
                require(
                    np.array_equal(_as_float64(back), _as_float64(array)),
                    f"{array.dtype} {shape} differs",
                )
    return f"{len(_TYPES)} element types of {len(_SHAPES)} shapes came back"


def torch_arrays(bench: ModelOpener) -> str:
    """Tensors of PyTorch are read where they are, in order, and ours are read by PyTorch."""
    del bench
    cuda_library()
    torch = _torch()
    with _device() as device:
        _exchange(torch, device)
    return f"{len(_TORCH_TYPES)} element types both ways, {_ORDERED} reads in order"


def _torch() -> Any:
    torch = module("torch")
    if not torch.cuda.is_available():
        raise NotAvailable("PyTorch is installed without CUDA")
    return torch


def _exchange(torch: Any, device: Device) -> None:
    for name in _TORCH_TYPES:
        theirs = (torch.arange(12, device="cuda") % 2).reshape(4, 3).to(getattr(torch, name))
        host = theirs.double().cpu().numpy()
        require(
            np.array_equal(_as_float64(fetch_to_host(theirs, "x", device)), host),
            f"{name} of PyTorch differs",
        )
        back = torch.from_dlpack(_upload(device, fetch_to_host(theirs, "x", device)))
        require(np.array_equal(back.double().cpu().numpy(), host), f"our {name} differs in PyTorch")
    late = torch.empty(1 << 22, device="cuda")
    for number in range(_ORDERED):
        torch.cuda._sleep(200_000)  # noqa: SLF001 (the only way to keep its stream busy)
        late.fill_(number)
        require(
            bool((fetch_to_host(late, "x", device) == number).all()),
            f"tensor {number} was read too early",
        )


@contextmanager
def _device() -> Iterator[Device]:
    """Hold the first device, which lets go of its memory afterwards."""
    device = Device(cuda_library(), 0)
    device.retain()
    try:
        with device.active():
            yield device
    finally:
        device.release()


def _upload(device: Device, array: Any) -> DeviceArray:
    with device.slot() as slot:
        return _upload_on(device, array, slot)


def _upload_on(device: Device, array: Any, slot: Any) -> DeviceArray:
    block = device.memory.take(array.nbytes, slot.stream)
    slot.ready_to_upload(array.nbytes)
    slot.up.array(0, array.shape, array.dtype)[...] = array
    if array.nbytes:
        device.cuda.upload(block.address, slot.up.address(0), array.nbytes, slot.stream)
    return DeviceArray(device, block, array.shape, array.dtype, slot.stream)


def _as_float64(array: Any) -> Any:
    return np.asarray(array).astype("f8")


_RANGES: Final = {"dims": {"n": (1, 4, 8)}}
_SHAPE: Final = (4, 3)


class _Lent:
    """Memory of the caller on the device, as another library describes it."""

    def __init__(self, cuda: Cuda, array: Any, offset: int = 0) -> None:
        self._cuda = cuda
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.stream = cuda.create_stream()
        self._block = cuda.allocate(array.nbytes + offset)
        self.address = self._block + offset
        self.fill(array)

    def fill(self, array: Any) -> None:
        """Write it, in the order of its stream."""
        self._cuda.upload(self.address, array.ctypes.data, array.nbytes, self.stream)
        self._cuda.wait_for_stream(self.stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "stream": self.stream,
        }

    def read(self) -> Any:
        """Read it, in the order of its stream."""
        found = np.empty_like(self.array)
        self._cuda.download(found.ctypes.data, self.address, found.nbytes, self.stream)
        self._cuda.wait_for_stream(self.stream)
        return found

    def close(self) -> None:
        """Free it."""
        self._cuda.free(self._block)
        self._cuda.destroy_stream(self.stream)


def _require_close(found: Any, right: Any, what: str) -> None:
    require(np.allclose(found, right, rtol=1e-4, atol=1e-5), f"{what} differs")


def device_arrays(bench: ModelOpener) -> str:
    """Arrays on the device as inputs and outputs, at addresses of every kind."""
    model, cuda = models.model(models.CHAIN), cuda_library()
    x = draw(*_SHAPE)
    (once,) = bench.expected(model, {"x": x})
    (twice,) = bench.expected(model, {"x": once})
    with opened(bench, model, **_RANGES) as found:
        for offset in (0, 4):
            fed, buffer = _Lent(cuda, x, offset), _Lent(cuda, np.zeros_like(x), offset)
            try:
                (left,) = found.run_bound({"x": fed}, {"y": "cuda"})
                found.run_bound({"x": left}, {"y": buffer})
                _require_close(np.asarray(left), once, "an output left on the device")
                _require_close(
                    buffer.read(), twice, "an output written into a buffer on the device"
                )
            finally:
                fed.close()
                buffer.close()
    return "outputs stay on the device, are fed again and are written in place"


def user_stream(bench: ModelOpener) -> str:
    """Runs on a stream of the caller, in its order and without waiting."""
    model, cuda = models.model(models.CHAIN), cuda_library()
    x, y = _Lent(cuda, draw(*_SHAPE)), _Lent(cuda, np.zeros(_SHAPE, np.float32))
    try:
        with opened(bench, model, **_RANGES) as found:
            for n in range(20):
                array = draw(*_SHAPE) * np.float32(n)
                cuda.upload(x.address, array.ctypes.data, array.nbytes, x.stream)
                with on_stream(x.stream):
                    found.run_bound({"x": x}, {"y": y})
                # the next upload has to wait for the run as well
                (right,) = bench.expected(model, {"x": array})
                cuda.order(x.stream, y.stream)
                _require_close(y.read(), right, f"run {n}")
    finally:
        x.close()
        y.close()
    return "20 runs agree, each between copies on the same stream"


def torch_tensors(bench: ModelOpener) -> str:
    """Tensors of PyTorch are fed and written into where they are."""
    cuda_library()
    torch, model = _torch(), models.model(models.CHAIN)
    with opened(bench, model, **_RANGES) as found:
        for number in range(20):
            host = draw(*_SHAPE) * np.float32(number)
            (right,) = bench.expected(model, {"x": host})
            theirs, buffer = torch.from_numpy(host).cuda(), torch.zeros(_SHAPE, device="cuda")
            found.run_bound({"x": theirs}, {"y": buffer})
            _require_close(buffer.cpu().numpy(), right, f"run {number} into a tensor of PyTorch")
            (left,) = found.run_bound({"x": theirs}, {"y": "cuda"})
            _require_close(
                torch.from_dlpack(left).cpu().numpy(), right, "an output read by PyTorch"
            )
    return "20 runs from tensor to tensor"
