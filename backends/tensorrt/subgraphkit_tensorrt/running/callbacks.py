"""Callbacks of TensorRT while it runs: profilers, error recorders, allocators of outputs.

The classes exist only once TensorRT is imported, so each is made for a module when it is first
asked for. Exceptions do not pass through TensorRT; whatever is called back remembers what failed.
"""

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from subgraphkit_tensorrt.library.logger import hear
from subgraphkit_tensorrt.running.device import Device
from subgraphkit_tensorrt.running.memory import Block

_ERRORS_KEPT: Final = 100


class LayerTimes:
    """Times of layers, summed up over runs.

    Attributes:
        milliseconds: By name of a layer.

    Thread-safety: a context reports from one thread at a time.
    """

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def add(self, layer: str, milliseconds: float, calls: int = 1) -> None:
        """Add the time of one run of a layer, or of several."""
        self.milliseconds[layer] = self.milliseconds.get(layer, 0.0) + milliseconds
        self.calls[layer] = self.calls.get(layer, 0) + calls


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
        block, self.block = self.block, None
        if block is not None:
            self._device.memory.give_back(block)


@lru_cache(maxsize=8)
def profiler_class(trt: Any) -> Any:
    """Return an ``IProfiler`` that writes down times; it is made of ``LayerTimes``."""

    class Profiler(trt.IProfiler):  # type: ignore[misc]  # known when it is imported
        def __init__(self, times: LayerTimes) -> None:
            trt.IProfiler.__init__(self)  # the binding does not find it through super()
            self._times = times

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self._times.add(layer_name, ms)

    return Profiler


@lru_cache(maxsize=8)
def recorder_class(trt: Any) -> Any:
    """Return an ``IErrorRecorder`` for the run side, which reports as the logger would."""

    class Recorder(trt.IErrorRecorder):  # type: ignore[misc]  # known when it is imported
        def __init__(self) -> None:
            trt.IErrorRecorder.__init__(self)
            # Nobody clears it, and a server may live for months.
            self._errors: deque[tuple[Any, str]] = deque(maxlen=_ERRORS_KEPT)

        def report_error(self, code: Any, text: str) -> bool:
            # A recorder gets what the logger would have got, so that it has to say it.
            hear("ERROR", f"{getattr(code, 'name', code)}: {text}")
            self._errors.append((code, text))
            return True

        def num_errors(self) -> int:
            return len(self._errors)

        # The documentation names the former and the library calls the latter.
        get_num_errors = num_errors

        def get_error_code(self, index: int) -> Any:
            return self._errors[index][0]

        def get_error_desc(self, index: int) -> str:
            return self._errors[index][1]

        def has_overflowed(self) -> bool:
            return False

        def clear(self) -> None:
            self._errors.clear()

    return Recorder


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
