"""Execution contexts of one engine: as many as may run at once, each used by one run at a time."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.checks import check_run
from subgraphkit_tensorrt.library.logger import listening
from subgraphkit_tensorrt.running.callbacks import LayerTimes
from subgraphkit_tensorrt.running.context import Context
from subgraphkit_tensorrt.running.kernels import Kernels
from subgraphkit_tensorrt.running.loader import Loader

__all__ = ["Contexts"]

_STRATEGIES: Final = {
    "shared": "USER_MANAGED",
    "static": "STATIC",
    "profile": "ON_PROFILE_CHANGE",
}


_MOST_RECORDED: Final = 8
"""Contexts of one engine that keep a CUDA graph."""


class Contexts:
    """A pool of contexts, made when they are needed.

    Args:
        engine: TensorRT's ``ICudaEngine``.
        loader: Says library and device.
        options: The options of the backend.
        recorder: The ``IErrorRecorder`` they get.
        kernels: Kernels of the engine that are kept, if any are.

    Attributes:
        engine: TensorRT's ``ICudaEngine``; None when all is closed.
        turns: Held by each run, as many as the option ``max_contexts`` says.
        records: Whether runs are recorded as CUDA graphs.

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
        self.engine = engine
        self._kernels = kernels
        self._runtime_config: Any = None
        self._loader = loader
        self._library = loader.library
        self._device = loader.device
        self._options = options
        self._recorder = recorder
        # Streamed weights take scratch of their own, which the library knows best.
        self._shares_scratch = options.context_memory == "shared" and not options.weight_streaming
        can = self._library.capabilities
        self._resting: list[Context] = []
        self._recorded: OrderedDict[Hashable, Context] = OrderedDict()
        self._met: OrderedDict[Hashable, None] = OrderedDict()
        self._all: list[Context] = []
        self._leased = 0
        self.turns = threading.Semaphore(options.max_contexts)
        self._lock = threading.RLock()
        self._making = threading.Lock()
        self._closed = False
        # TensorRT for RTX records graphs by itself, if told to.
        self.records = not can.cuda_graph_strategy
        self.scratch_bytes = _scratch_bytes(engine, can)
        """Scratch memory that a context needs at most."""

    @contextmanager
    def lease(self, profile: int = 0, kind: Hashable = None) -> Iterator[tuple[Context, bool]]:
        """Hold a context, in a turn, and say whether its runs are recorded.

        A context is thrown away if a run failed in it after it was begun. Every range of shapes has
        contexts of its own, as a context that changes to another forgets all it was set to.

        Args:
            profile: The place of the range of shapes.
            kind: What runs that may be recorded have in common, such as shapes and stream; each
                kind has a context of its own, if there is room or it comes again soon.

        Raises:
            ExecutionError: TensorRT cannot make a context (SGK163).
        """
        context, is_recorded = self._take(profile, kind)
        try:
            yield context, is_recorded
        except BaseException:
            if context.is_enqueued:
                self._drop(context)
            else:
                self._give_back(context, kind if is_recorded else None)
            raise
        self._give_back(context, kind if is_recorded else None)

    def times(self) -> LayerTimes | None:
        """Return the times of layers over all contexts; None if they are not measured."""
        if not self._options.profiling:
            return None
        summed = LayerTimes()
        with self._lock:
            measured = [context.times for context in self._all if context.times is not None]
        for times in measured:
            for layer, milliseconds in times.milliseconds.items():
                summed.milliseconds[layer] = summed.milliseconds.get(layer, 0.0) + milliseconds
                summed.calls[layer] = summed.calls.get(layer, 0) + times.calls[layer]
        return summed

    def forget_recordings(self) -> None:
        """Let go of CUDA graphs, which may hold weights; nothing may be running."""
        with self._lock:
            for context in self._all:
                context.recording.forget()

    def count(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def close(self) -> None:
        """Let go of all contexts; those in use go when they are given back."""
        with self._lock:
            self._closed = True
            resting = [*self._resting, *self._recorded.values()]
            self._resting, self._recorded = [], OrderedDict()
            self.engine = None
            self._runtime_config = None
        for context in resting:
            self._forget(context)
        self._keep_kernels(at_end=True)

    def _take(self, profile: int, kind: Hashable) -> tuple[Context, bool]:
        """Return a context, and whether its runs are recorded."""
        context: Context | None
        with self._lock:
            is_recorded = kind is not None and self._has_room(kind)
            if is_recorded:
                context = self._recorded.pop(kind, None)
            else:
                fitting = (one for one in reversed(self._resting) if one.profile == profile)
                context = next(fitting, None)
                if context is not None:
                    self._resting.remove(context)
            self._leased += 1
        if context is None:
            try:
                context = self._make(profile)
            except BaseException:
                with self._lock:
                    self._leased -= 1
                raise
        return context, is_recorded

    def _has_room(self, kind: Hashable) -> bool:
        """Say whether runs of a kind are recorded; when all room is taken, those that come again.

        Shapes that differ from run to run would otherwise make a context for each.
        """
        if kind in self._recorded or len(self._recorded) < _MOST_RECORDED:
            return True
        comes_again = kind in self._met
        self._met[kind] = None
        self._met.move_to_end(kind)
        while len(self._met) > _MOST_RECORDED:
            self._met.popitem(last=False)
        return comes_again

    def _give_back(self, context: Context, kind: Hashable) -> None:
        is_new, context.met_new = context.met_new, False
        ended = []
        with self._lock:
            self._leased -= 1
            if self._closed:
                ended.append(context)
            elif kind is None:
                self._resting.append(context)
            else:
                self._recorded[kind] = context
                while len(self._recorded) > _MOST_RECORDED:
                    ended.append(self._recorded.popitem(last=False)[1])
        for one in ended:
            self._forget(one)
        if is_new or self._closed:
            self._keep_kernels(at_end=self._closed)

    def _keep_kernels(self, *, at_end: bool = False) -> None:
        """Keep the kernels that were compiled, unless somebody may be compiling others."""
        if self._kernels is None:
            return
        with self._lock:
            compiled = self._kernels.compiled(at_end=at_end) if not self._leased else None
        if compiled is not None:
            self._kernels.keep(compiled)

    def _drop(self, context: Context) -> None:
        with self._lock:
            self._leased -= 1
        self._forget(context)

    def _forget(self, context: Context) -> None:
        context.close()
        with self._lock:
            self._all.remove(context)

    def _make(self, profile: int) -> Context:
        with self._making:  # others go on with the contexts there are
            context = self._made(profile)
        with self._lock:
            self._all.append(context)
        return context

    def _made(self, profile: int) -> Context:
        with listening() as lines:
            execution_context = self._created()
            if execution_context is None and self._device.memory.kept_bytes:
                self._device.memory.trim()  # TensorRT knows nothing of it
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
        managed = self.scratch_bytes if self._shares_scratch else None
        return Context(execution_context, self._loader, times, managed, profile)

    def _created(self) -> Any:
        trt, can, engine = self._library.trt, self._library.capabilities, self.engine
        wanted = "shared" if self._shares_scratch else self._options.context_memory
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
        trt, can, engine = self._library.trt, self._library.capabilities, self.engine
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
