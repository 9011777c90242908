"""Callbacks of TensorRT while it runs: profilers and allocators of outputs.

The classes exist only once TensorRT is imported, so each is made for a module when it is first
asked for. Exceptions do not pass through TensorRT; whatever is called back remembers what failed.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from subgraphkit_tensorrt.running.device import Device
from subgraphkit_tensorrt.running.memory import Block


class OutputMemory:
    """Memory of an output whose size depends on data; kept from run to run, and grows.

    Attributes:
        block: The memory; None before the first run, and after it was handed over.
        failure: What went wrong in a call back, which TensorRT would not pass on.
    """

    def __init__(self, device: Device, stream: Callable[[], int]) -> None:
        self._device = device
        self._stream = stream
        self.block: Block | None = None
        self.start()

    def start(self) -> None:
        """Forget the last run."""
        self.shape: tuple[int, ...] | None = None
        self.failure: Exception | None = None

    def reserve(self, size: int) -> int:
        """Return the address of at least so many bytes; 0 if there are not enough."""
        try:
            if self.block is None or self.block.nbytes < size:
                self.close()
                self.block = self._device.memory.take(size, self._stream())
            # What is kept from run to run may have been taken on another stream.
            self.block.streams.add(self._stream())
        except Exception as error:  # noqa: BLE001 (raised again after the call)
            self.failure = error
            return 0
        return self.block.address

    def give_up(self) -> Block:
        """Hand the memory over; the next run gets other memory."""
        block, self.block = self.block, None
        return block if block is not None else self._device.memory.take(0, self._stream())

    def close(self) -> None:
        """Give the memory back."""
        if self.block is not None:
            self._device.memory.give_back(self.give_up())


@lru_cache(maxsize=8)
def profiler_class(trt: Any) -> Any:
    """Return an ``IProfiler`` that sums up milliseconds by layer, in what it is made of."""

    class Profiler(trt.IProfiler):  # type: ignore[misc]  # known when it is imported
        def __init__(self, times: dict[str, float]) -> None:
            trt.IProfiler.__init__(self)  # the binding does not find it through super()
            self._times = times

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self._times[layer_name] = self._times.get(layer_name, 0.0) + ms

    return Profiler


@lru_cache(maxsize=8)
def allocator_class(trt: Any) -> Any:
    """Return an ``IOutputAllocator`` for one output; it is made of an ``OutputMemory``."""

    class OutputAllocator(trt.IOutputAllocator):  # type: ignore[misc]  # known when it is imported
        def __init__(self, memory: OutputMemory) -> None:
            trt.IOutputAllocator.__init__(self)
            self.memory = memory

        def reallocate_output_async(
            self, tensor_name: str, memory: int, size: int, alignment: int, stream: int
        ) -> int:
            del tensor_name, memory, alignment, stream
            return self.memory.reserve(size)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            del tensor_name
            self.memory.shape = tuple(shape)

    return OutputAllocator
