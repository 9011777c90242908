"""Checks of driver and CUDA, and of arrays and streams that are the caller's."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from subgraphkit.backend import ModelOpener
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running.streams import on_stream
from subgraphkit_tensorrt.selftest import computing, models
from subgraphkit_tensorrt.selftest.calibration import ASSUMPTIONS, deviations


def driver(bench: ModelOpener) -> str:
    """NVIDIA's driver and its GPUs."""
    del bench
    found = ", ".join(map(str, computing.gpus()))
    return f"{found}, driver for CUDA {computing.installation().machine.driver}"


def cuda_runtime(bench: ModelOpener) -> str:
    """CUDA's runtime library by ctypes."""
    del bench
    cuda = computing.cuda_library()
    with cuda.on(0):
        return f"CUDA {cuda.version()}, {cuda.free_memory():,} bytes free"


def assumptions(bench: ModelOpener) -> str:
    """What the tests of the run side assume of CUDA, whose device is a double."""
    del bench
    cuda = computing.cuda_library()
    with cuda.on(0):
        wrong, stricter = deviations(cuda)
    computing.require(not wrong, f"CUDA is not as tests of the run side assume: {'; '.join(wrong)}")
    more = f"; the double is stricter: {'; '.join(stricter)}" if stricter else ""
    return f"all {len(ASSUMPTIONS)} hold{more}"


def _torch() -> Any:
    if find_spec("torch") is None:
        raise computing.NotAvailable("torch is not installed")
    torch = import_module("torch")
    if not torch.cuda.is_available():
        raise computing.NotAvailable("PyTorch is installed without CUDA")
    return torch


_SHAPE: Final = (4, 3)


class _Lent:
    """Memory of the caller on the device, as another library describes it."""

    def __init__(self, cuda: Cuda, array: Any, offset: int = 0) -> None:
        self._cuda = cuda
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.stream = cuda.create_stream()
        self._block = cuda.allocate(array.nbytes + offset)
        self.address = self._block + offset
        cuda.upload(self.address, array.ctypes.data, array.nbytes, self.stream)
        cuda.wait_for_stream(self.stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described = {"version": 3, "shape": self.shape, "typestr": self.dtype.str, "strides": None}
        return {**described, "data": (self.address, False), "stream": self.stream}

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
    computing.require(np.allclose(found, right, rtol=1e-4, atol=1e-5), f"{what} differs")


def device_arrays(bench: ModelOpener) -> str:
    """Arrays on the device as inputs and outputs, at addresses of every kind."""
    model, cuda = models.model(models.CHAIN), computing.cuda_library()
    x = computing.draw(*_SHAPE)
    (once,) = bench.expected(model, {"x": x})
    (twice,) = bench.expected(model, {"x": once})
    with computing.open_model(bench, model, **computing.RANGES) as found:
        for offset in (0, 4):
            fed, buffer = _Lent(cuda, x, offset), _Lent(cuda, np.zeros_like(x), offset)
            try:
                (left,) = found.run_bound({"x": fed}, {"y": "cuda"})
                found.run_bound({"x": left}, {"y": buffer})
                _require_close(np.asarray(left), once, "an output left on the device")
                _require_close(buffer.read(), twice, "an output in a buffer on the device")
            finally:
                fed.close()
                buffer.close()
    return "outputs stay on the device, are fed again and are written in place"


def user_stream(bench: ModelOpener) -> str:
    """Runs on a stream of the caller, in its order and without waiting."""
    model, cuda = models.model(models.CHAIN), computing.cuda_library()
    x, y = _Lent(cuda, computing.draw(*_SHAPE)), _Lent(cuda, np.zeros(_SHAPE, np.float32))
    try:
        with computing.open_model(bench, model, **computing.RANGES) as found:
            for n in range(20):
                array = computing.draw(*_SHAPE) * np.float32(n)
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
    computing.cuda_library()
    torch, model = _torch(), models.model(models.CHAIN)
    with computing.open_model(bench, model, **computing.RANGES) as found:
        for number in range(20):
            host = computing.draw(*_SHAPE) * np.float32(number)
            (right,) = bench.expected(model, {"x": host})
            theirs, buffer = torch.from_numpy(host).cuda(), torch.zeros(_SHAPE, device="cuda")
            found.run_bound({"x": theirs}, {"y": buffer})
            _require_close(buffer.cpu().numpy(), right, f"run {number} into a tensor of PyTorch")
            (left,) = found.run_bound({"x": theirs}, {"y": "cuda"})
            _require_close(torch.from_dlpack(left).cpu().numpy(), right, "what PyTorch reads")
    return "20 runs from tensor to tensor"
