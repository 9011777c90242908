"""Execution contexts of one engine: as many as may run at once, each used by one run at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.checks import check_run
from subgraphkit_tensorrt.library.logger import listening
from subgraphkit_tensorrt.running.callbacks import LayerTimes, output_allocator, profiler
from subgraphkit_tensorrt.running.cuda_graphs import Recordings
from subgraphkit_tensorrt.running.device import Device, Lane
from subgraphkit_tensorrt.running.kernels import Kernels
from subgraphkit_tensorrt.running.loader import Loader

__all__ = ["Context", "Contexts"]

_STRATEGIES: Final = {
    "shared": "USER_MANAGED",
    "static": "STATIC",
    "profile": "ON_PROFILE_CHANGE",
}


class Context:
    """One execution context with what belongs to it.

    Attributes:
        execution_context: TensorRT's ``IExecutionContext``.
        profile: The place of the range of shapes it runs.
        shapes: By input, the shape that was set last.
        recordings: CUDA graphs recorded from it.
        met_new: Whether it was given shapes it did not have before since kernels were last kept.
        times: Times of layers, if they are measured.

    Thread-safety: none; leased by one run at a time.
    """

    def __init__(
        self,
        execution_context: Any,
        device: Device,
        trt: Any,
        times: LayerTimes | None,
        profile: int,
    ) -> None:
        self.execution_context = execution_context
        self.profile = profile
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.times = times
        self.met_new = False
        self.recordings = Recordings(device)
        self._device = device
        self._trt = trt
        self._stream: int | None = None
        self._scratch_bytes: int | None = None
        self._allocators: dict[str, Any] = {}
        # The context keeps no reference of its own that Python can see.
        self._profiler = profiler(trt, times) if times is not None else None
        if self._profiler is not None:
            execution_context.profiler = self._profiler

    def move_to(self, lane: Lane) -> None:
        """Order the lane behind the context's last run."""
        if self._stream is not None:
            self._device.cuda.order(self._stream, lane.stream)
        elif self.profile:  # a new context has the first one
            with listening() as lines:
                done = self.execution_context.set_optimization_profile_async(
                    self.profile, lane.stream
                )
            check_run(done, f"take range {self.profile} of an engine", lines)
        self._stream = lane.stream

    def has_allocator(self, name: str) -> bool:
        """Say whether an output has an allocator, which TensorRT then asks in every run."""
        return name in self._allocators

    def allocator(self, name: str) -> Any:
        """Return the allocator of an output whose shape depends on data; made once."""
        found = self._allocators.get(name)
        if found is None:
            found = output_allocator(self._trt, self._device, lambda: self._stream or 0)
            with listening() as lines:
                done = self.execution_context.set_output_allocator(name, found)
            check_run(done, f"take an allocator for output {name!r}", lines)
            self._allocators[name] = found
        return found

    def close(self) -> None:
        """Wait for its last run and let go of it."""
        if self._stream is not None:
            with suppress(ExecutionError):  # told when it happened
                self._device.cuda.wait_for_stream(self._stream)
        self.recordings.close()
        self.execution_context = None
        for allocator in self._allocators.values():
            allocator.memory.close()


class Contexts:
    """A pool of contexts, made when they are needed.

    Args:
        engine: TensorRT's ``ICudaEngine``.
        loader: Says library and device.
        options: The options of the backend.
        recorder: The ``IErrorRecorder`` they get.
        kernels: Kernels of the engine that are kept, if any are.

    Thread-safety: may be used from any thread.
    """

    def __init__(
        self,
        engine: Any,
        loader: Loader,
        options: Options,
        recorder: Any,
        kernels: Kernels | None = None,
    ) -> None:
        self._engine = engine
        self._kernels = kernels
        self._runtime_config: Any = None
        self._library = loader.library
        self._device = loader.device
        self._options = options
        self._recorder = recorder
        # Streamed weights take scratch of their own, which the library knows best.
        managed = options.context_memory == "shared" and not options.weight_streaming
        self.shares_scratch = managed
        self._most = options.max_contexts
        self._resting: list[Context] = []
        self._all: list[Context] = []
        self._changed = threading.Condition()
        self._closed = False
        self.scratch_bytes = _scratch_bytes(engine, self._library.capabilities)
        """Scratch memory that a context needs at most."""

    @contextmanager
    def lease(self, profile: int = 0) -> Iterator[Context]:
        """Hold a context, the one used last if it is free; waits while all are in use.

        A context whose run failed is thrown away. Every range of shapes has contexts of its own, as
        a context that changes to another forgets all it was set to.

        Args:
            profile: The place of the range of shapes.

        Raises:
            ExecutionError: TensorRT cannot make a context (SGK163).
        """
        context = self._take(profile)
        try:
            yield context
        except BaseException:
            self._drop(context)
            raise
        self._give_back(context)

    def times(self) -> LayerTimes | None:
        """Return the times of layers over all contexts; None if they are not measured."""
        if not self._options.profiling:
            return None
        summed = LayerTimes()
        with self._changed:
            measured = [context.times for context in self._all if context.times is not None]
        for times in measured:
            for layer, milliseconds in times.milliseconds.items():
                summed.milliseconds[layer] = summed.milliseconds.get(layer, 0.0) + milliseconds
                summed.calls[layer] = summed.calls.get(layer, 0) + times.calls[layer]
        return summed

    def forget_recordings(self) -> None:
        """Let go of CUDA graphs, which may hold weights; nothing may be running."""
        with self._changed:
            for context in self._all:
                context.recordings.close()

    def count(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def give_scratch(self, context: Context, lane: Lane) -> int:
        """Give a context the lane's scratch memory, its shapes being set.

        Returns:
            The address; 0 if the context has scratch memory of its own.
        """
        if not self.shares_scratch:
            return 0
        can, execution_context = self._library.capabilities, context.execution_context
        nbytes = self.scratch_bytes
        # It returns 0 as well when it fails, and an engine may do without scratch.
        nbytes = int(execution_context.update_device_memory_size_for_shapes()) or nbytes
        block = lane.scratch(nbytes)
        if can.set_device_memory:
            execution_context.set_device_memory(block.address, block.nbytes)
        else:
            execution_context.device_memory = block.address
        return block.address

    def close(self) -> None:
        """Let go of all contexts; those in use go when they are given back."""
        with self._changed:
            self._closed = True
            resting, self._resting = self._resting, []
            self._engine = None
            self._runtime_config = None
        for context in resting:
            self._forget(context)
        self._keep_kernels(at_end=True)

    def _take(self, profile: int) -> Context:
        with self._changed:
            while True:
                found = next(
                    (one for one in reversed(self._resting) if one.profile == profile), None
                )
                if found is not None:
                    self._resting.remove(found)
                    return found
                if sum(one.profile == profile for one in self._all) < self._most:
                    break
                self._changed.wait()
            context = self._made(profile)
            self._all.append(context)
            return context

    def _give_back(self, context: Context) -> None:
        is_new, context.met_new = context.met_new, False
        with self._changed:
            stays = not self._closed
            if stays:
                self._resting.append(context)
                self._changed.notify_all()
        if not stays:
            self._forget(context)
        if is_new or not stays:
            self._keep_kernels(at_end=not stays)

    def _keep_kernels(self, *, at_end: bool = False) -> None:
        """Keep the kernels that were compiled, unless somebody may be compiling others."""
        if self._kernels is None:
            return
        with self._changed:
            if len(self._resting) == len(self._all):
                self._kernels.keep(at_end=at_end)

    def _drop(self, context: Context) -> None:
        self._forget(context)
        with self._changed:
            self._changed.notify_all()

    def _forget(self, context: Context) -> None:
        context.close()
        with self._changed:
            self._all.remove(context)

    def _made(self, profile: int) -> Context:
        with listening() as lines:
            execution_context = self._created()
            if execution_context is None and self._device.memory.kept_bytes:
                self._device.memory.release_kept()  # TensorRT knows nothing of it
                execution_context = self._created()
        hint = "Without enough memory on the GPU: set max_contexts lower, or free memory."
        execution_context = check_run(
            execution_context, "make an execution context", lines, hint=hint
        )
        execution_context.error_recorder = self._recorder
        limit = self._options.persistent_l2_limit
        if limit is not None:
            execution_context.persistent_cache_limit = limit
        times = LayerTimes() if self._options.profiling else None
        return Context(execution_context, self._device, self._library.trt, times, profile)

    def _created(self) -> Any:
        trt, can, engine = self._library.trt, self._library.capabilities, self._engine
        wanted = "shared" if self.shares_scratch else self._options.context_memory
        if wanted == "shared" and self._options.weight_streaming:
            wanted = "static"
        strategy = trt.ExecutionContextAllocationStrategy.__members__[_STRATEGIES[wanted]]
        if not can.runtime_config:
            return engine.create_execution_context(strategy)
        return engine.create_execution_context(self._configured(strategy))

    def _configured(self, strategy: Any) -> Any:
        """Return the configuration of the contexts, made once, as they share compiled kernels."""
        if self._runtime_config is not None:
            return self._runtime_config
        trt, can, engine = self._library.trt, self._library.capabilities, self._engine
        runtime_config = engine.create_runtime_config()
        runtime_config.set_execution_context_allocation_strategy(strategy)
        if can.kernel_specialization_strategy:
            name = self._options.kernel_specialization.upper()
            strategies = trt.DynamicShapesKernelSpecializationStrategy.__members__
            runtime_config.dynamic_shapes_kernel_specialization_strategy = strategies[name]
        if can.cuda_graph_strategy and self._options.cuda_graphs == "auto":
            whole = trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
            runtime_config.cuda_graph_strategy = whole
        if self._kernels is not None:
            self._kernels.attach(runtime_config)
        self._runtime_config = runtime_config
        return runtime_config


def _scratch_bytes(engine: Any, capabilities: Any) -> int:
    if capabilities.device_memory_v2:
        return int(engine.device_memory_size_v2)
    return int(engine.device_memory_size)
