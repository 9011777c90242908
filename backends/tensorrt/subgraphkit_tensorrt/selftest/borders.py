"""Checks of the caller's own arrays on the device, streams and allocators."""

from typing import Any, Final

import numpy as np

from subgraphkit.backend import ModelOpener
from subgraphkit.errors import SubgraphkitError
from subgraphkit_tensorrt.library import cudart
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running.streams import on_stream
from subgraphkit_tensorrt.selftest import models
from subgraphkit_tensorrt.selftest.computing import opened, same
from subgraphkit_tensorrt.selftest.needs import NotAsExpected, cuda_library, module, require

__all__ = ["CounterOfMemory", "allocator", "device_arrays", "torch_tensors", "user_stream"]

_RANGES: Final = {"dims": {"n": (1, 4, 8)}}
_SHAPE: Final = (4, 3)


class _Lent:
    """Memory of the caller on the device, as another library describes it.

    Args:
        cuda: The runtime library.
        offset: Bytes by which it lies off an address that engines take.
    """

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


def _x(n: int, width: int) -> Any:
    return np.random.default_rng(n).standard_normal((n, width)).astype(np.float32)


def _close(found: Any, right: Any, what: str) -> None:
    require(np.allclose(found, right, rtol=1e-4, atol=1e-5), f"{what} differs")


def device_arrays(bench: ModelOpener) -> str:
    """Arrays on the device as inputs and outputs, at addresses of every kind."""
    model, cuda = models.model(models.CHAIN), cuda_library()
    x = _x(*_SHAPE)
    (once,) = bench.expected(model, {"x": x})
    (twice,) = bench.expected(model, {"x": once})
    with opened(bench, model, **_RANGES) as found:
        for offset in (0, 4):
            fed, buffer = _Lent(cuda, x, offset), _Lent(cuda, np.zeros_like(x), offset)
            try:
                (left,) = found.run_bound({"x": fed}, {"y": "cuda"})
                found.run_bound({"x": left}, {"y": buffer})
                _close(np.asarray(left), once, "an output left on the device")
                _close(buffer.read(), twice, "an output written into a buffer on the device")
            finally:
                fed.close()
                buffer.close()
    return "outputs stay on the device, are fed again and are written in place"


def user_stream(bench: ModelOpener) -> str:
    """Runs on a stream of the caller, in its order and without waiting."""
    model, cuda = models.model(models.CHAIN), cuda_library()
    x, y = _Lent(cuda, _x(*_SHAPE)), _Lent(cuda, np.zeros(_SHAPE, np.float32))
    try:
        with opened(bench, model, **_RANGES) as found:
            for n in range(20):
                array = _x(*_SHAPE) * np.float32(n)
                cuda.upload(x.address, array.ctypes.data, array.nbytes, x.stream)
                with on_stream(x.stream):
                    found.run_bound({"x": x}, {"y": y})
                # the next upload has to wait for the run as well
                (right,) = bench.expected(model, {"x": array})
                cuda.order(x.stream, y.stream)
                _close(y.read(), right, f"run {n}")
    finally:
        x.close()
        y.close()
    return "20 runs agree, each between copies on the same stream"


def torch_tensors(bench: ModelOpener) -> str:
    """Tensors of PyTorch are fed and written into where they are."""
    cuda_library()
    torch, model = module("torch"), models.model(models.CHAIN)
    if not torch.cuda.is_available():
        return "PyTorch is installed without CUDA, so there is nothing to try"
    with opened(bench, model, **_RANGES) as found:
        for number in range(20):
            host = _x(*_SHAPE) * np.float32(number)
            (right,) = bench.expected(model, {"x": host})
            theirs, buffer = torch.from_numpy(host).cuda(), torch.zeros(_SHAPE, device="cuda")
            found.run_bound({"x": theirs}, {"y": buffer})
            _close(buffer.cpu().numpy(), right, f"run {number} into a tensor of PyTorch")
            (left,) = found.run_bound({"x": theirs}, {"y": "cuda"})
            _close(torch.from_dlpack(left).cpu().numpy(), right, "an output read by PyTorch")
    return "20 runs from tensor to tensor"


class CounterOfMemory:
    """An allocator that counts, takes memory from CUDA, and can be set to have none."""

    def __init__(self) -> None:
        self.taken = 0
        self.given_back = 0
        self.is_empty = False

    def allocate(self, size: int, alignment: int, flags: int) -> int:
        """Return the address of device memory; 0 if there is none."""
        del alignment, flags  # CUDA's are aligned to 256
        if self.is_empty:
            return 0
        self.taken += 1
        return cudart.cuda_runtime().allocate(size)

    def deallocate(self, address: int) -> bool:
        """Take memory back."""
        self.given_back += 1
        cudart.cuda_runtime().free(address)
        return True


COUNTER: Final = CounterOfMemory()
"""What the option ``allocator`` names."""


def allocator(bench: ModelOpener) -> str:
    """Memory from an allocator of the caller, and an error when it has none."""
    model = models.model(models.PERCEPTRON)
    COUNTER.__init__()  # type: ignore[misc]  # as new
    place = f"{__name__}:COUNTER"
    with opened(bench, model, allocator=place, dims={"n": (1, 4, 4096)}) as found:
        same(bench, model, found, {"x": _x(4, 16)})
        COUNTER.is_empty = True
        try:
            found.run({"x": _x(4096, 16)})
        except SubgraphkitError as error:
            code = error.code
        else:
            raise NotAsExpected("a run for which there was no memory went well")
        COUNTER.is_empty = False
        same(bench, model, found, {"x": _x(4096, 16)})
    require(COUNTER.taken > 0, "the allocator was never asked")
    return f"asked {COUNTER.taken} times; without memory a run is refused [{code}], the next is not"
