"""One execution context, with what it was told last and the CUDA graph recorded from it.

A graph reads what its context keeps on the device. Other shapes would overwrite that, so each graph
has a context of its own. A graph also remembers the addresses of the slot's memory, through which
its inputs and outputs are copied. When the slot gets other memory, the graph is recorded again.

A graph is recorded on a stream that nobody else knows. On a known stream, another thread might read
an array that was computed there, and its work would be recorded as well.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Final

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.library.logger import LOGGER, check_run, listening
from subgraphkit_tensorrt.running.callbacks import OutputMemory, allocator_class, profiler_class
from subgraphkit_tensorrt.running.device import Device, Loader
from subgraphkit_tensorrt.running.io_tensors import IOTensor
from subgraphkit_tensorrt.running.memory import StreamSlot

_TRIES: Final = 3
_SHAPES: Final = (
    "The engine was built for a range of shapes; options dims, min_shapes and max_shapes set it."
)


class Recording:
    """The CUDA graph of one context.

    Attributes:
        launches: How often it was launched.
        failed: How often a run could not be recorded.

    Thread-safety: none; goes with the context.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._graph = 0
        self._call: object = None
        self._failures = 0
        self.launches = self.failed = 0

    def run(self, call: object, slot: StreamSlot, enqueue: Callable[[int], None]) -> None:
        """Launch what was recorded of a call, or enqueue once and record it for the next time.

        A run that cannot be recorded is enqueued as usual. The next run tries again, because
        another library may have spoilt the recording: it waited for the device in another thread.
        After three failures in a row nothing is recorded any more.
        """
        if self._graph and self._call is call:
            self._device.cuda.launch(self._graph, slot.stream)
            self.launches += 1
            return
        self._call = None
        enqueue(slot.stream)  # the first run after new shapes does things that must not be recorded
        if self._failures == _TRIES:
            return
        slot.wait()  # for the last launch of what was recorded before, too
        self.forget()
        try:
            self._graph = self._device.cuda.record_graph(enqueue)
        except ExecutionError as error:
            self._failures += 1
            self.failed += 1
            log = LOGGER.warning if self._failures == _TRIES else LOGGER.info
            log("a run was not recorded as a CUDA graph: %s", str(error))
            return
        self._call, self._failures = call, 0

    def forget(self) -> None:
        """Let go of the graph; it must not be running."""
        graph, self._graph = self._graph, 0
        if graph:
            with suppress(ExecutionError):  # a device that failed says so of every call
                self._device.cuda.destroy_graph(graph)


class Context:
    """One execution context with what belongs to it; what was set is not set again.

    ``managed_bytes``: Scratch memory that it has to be given at most; None if it has its own.

    Attributes:
        is_enqueued: Whether a run was begun that has not ended well.
        call: What was prepared for its shapes, if that serves for the next run.
        recorded_as: What runs agree in that are recorded from it; None if none are.
        profile: The place of the range of shapes it runs.

    Thread-safety: none; leased by one run at a time.
    """

    def __init__(
        self,
        made: Any,
        loader: Loader,
        times: dict[str, float] | None,
        managed_bytes: int | None,
        profile: int,
    ) -> None:
        self.recording = Recording(loader.device)
        self.times = times
        self.profile = profile
        self.is_enqueued = False
        self.call: Any = None
        self.recorded_as: Hashable = None
        self._made = made
        self._device = loader.device
        self._trt = loader.library.trt
        self._managed_bytes = managed_bytes
        self._needs_bytes: int | None = None
        self._scratch = (0, 0)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._results: list[tuple[int, ...]] | None = None
        self._stream: int | None = None
        self._allocators: dict[str, Any] = {}
        # The context keeps no reference of its own that Python can see.
        self._profiler = profiler_class(self._trt)(times) if times is not None else None
        if self._profiler is not None:
            made.profiler = self._profiler

    def move_to(self, slot: StreamSlot) -> None:
        """Order the slot behind the context's last run."""
        if self._stream is not None and self._stream != slot.stream:
            self._device.order(self._stream, slot.stream)
        elif self._stream is None and self.profile:  # a new context has the first one
            with listening() as lines:
                done = self._made.set_optimization_profile_async(self.profile, slot.stream)
            check_run(done, f"take range {self.profile} of an engine", lines)
        self._stream = slot.stream

    def set_shapes(
        self,
        tensors: Sequence[IOTensor],
        arrays: Sequence[Any],
        outputs: Sequence[IOTensor],
        lines: Sequence[str],
    ) -> list[tuple[int, ...]]:
        """Set shapes, and addresses of those that give shapes; ExecutionError (SGK163) if unfit."""
        for tensor, array in zip(tensors, arrays, strict=True):
            name, shape = tensor.name, array.shape
            if self._shapes.get(name) != shape:
                self._results = self._needs_bytes = None
                done = self._made.set_input_shape(name, shape)
                check_run(done, f"take shape {shape} of input {name!r}", lines, hint=_SHAPES)
                self._shapes[name] = shape
            if tensor.on_host:
                # 0-d and empty arrays have an address as well; TensorRT takes no null.
                self._results = self._needs_bytes = None
                self._addresses.pop(name, None)  # what is there is read anew
                self.set_address(name, array.ctypes.data, lines)
        if self._results is None:
            self._infer(lines)
            self._results = [tuple(self._made.get_tensor_shape(one.name)) for one in outputs]
        return self._results

    def _infer(self, lines: Sequence[str]) -> None:
        try:
            missing = self._made.infer_shapes()
        except RuntimeError as error:  # what the binding makes of contradicting shapes
            said = (*lines, f"error: {error}")
            check_run(None, "infer the shapes of the outputs", said, hint=_SHAPES)
        else:
            what = f"infer shapes; it lacks {', '.join(missing)}"
            check_run(not missing, what, lines, hint=_SHAPES)

    def set_address(self, name: str, address: int, lines: Sequence[str]) -> None:
        """Say where an input or output is."""
        if self._addresses.get(name) != address:
            done = self._made.set_tensor_address(name, address)
            check_run(done, f"take the address of tensor {name!r}", lines)
            self._addresses[name] = address

    def take_scratch(self, slot: StreamSlot) -> None:
        """Take the slot's scratch memory, the shapes being set."""
        if self._managed_bytes is None:
            return
        if self._needs_bytes is None:
            # It returns 0 as well when it fails, and an engine may do without scratch.
            found = int(self._made.update_device_memory_size_for_shapes())
            self._needs_bytes = found or self._managed_bytes
            self._scratch = (0, 0)
        block = slot.block("scratch", self._needs_bytes)
        if self._scratch != (block.address, block.nbytes):
            self._made.set_device_memory(block.address, block.nbytes)
            self._scratch = (block.address, block.nbytes)

    def execute(self, stream: int) -> Any:
        """Put a run on a stream; return whether TensorRT took it."""
        return self._made.execute_async_v3(stream)

    def allocator(self, name: str, shape: tuple[int, ...]) -> Any:
        """Return the allocator of an output whose shape depends on data; None if it has none.

        It is made once, and TensorRT then asks it in every run.
        """
        found = self._allocators.get(name)
        if found is None and -1 in shape:
            memory = OutputMemory(self._device, lambda: self._stream or 0)
            found = allocator_class(self._trt)(memory)
            with listening() as lines:
                done = self._made.set_output_allocator(name, found)
            check_run(done, f"take an allocator for output {name!r}", lines)
            self._allocators[name] = found
        return found

    def close(self) -> None:
        """Wait for its last run and let go of it."""
        if self._stream is not None:
            with suppress(ExecutionError):  # told when it happened
                self._device.cuda.wait_for_stream(self._stream)
        self.recording.forget()
        self._made = self.call = None
        for allocator in self._allocators.values():
            allocator.memory.close()
