"""Execution contexts of one engine: as many as may run at once, each used by one run at a time."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from queue import SimpleQueue
from typing import Any, Final

from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.logger import check_run, listening
from subgraphkit_tensorrt.running.context import Context
from subgraphkit_tensorrt.running.device import Loader

_MOST_RECORDED: Final = 8
"""Contexts of one engine that keep a CUDA graph."""


class Contexts:
    """A pool of contexts, made when they are needed.

    Attributes:
        engine: TensorRT's ``ICudaEngine``; None when all is closed.
        turns: Each run takes one out, of as many as the option ``max_contexts`` says.

    Thread-safety: may be used from any thread.
    """

    def __init__(self, engine: Any, loader: Loader, options: Options, *, times: bool) -> None:
        self.engine = engine
        self._runtime_config: Any = None
        self._loader = loader
        self._options = options
        self._times = times
        self._resting: list[Context] = []
        self._recorded: OrderedDict[Hashable, Context] = OrderedDict()
        self._met: OrderedDict[Hashable, None] = OrderedDict()
        self._all: list[Context] = []
        self._ended = (0, 0)  # launches and failed captures of contexts that are gone
        self.turns: SimpleQueue[None] = SimpleQueue()
        for _ in range(options.max_contexts):
            self.turns.put(None)
        self._lock = threading.RLock()
        self._making = threading.Lock()
        # TensorRT for RTX records graphs by itself, if told to.
        self.records = not loader.library.capabilities.cuda_graph_strategy
        self.scratch_bytes = int(engine.device_memory_size_v2)
        """Scratch memory that a context needs at most."""

    def take(self, profile: int, key: Hashable, *, records: bool = False) -> Context:
        """Return a context, in a turn, until it is put back.

        Every range of shapes has contexts of its own, because a context that changes its range
        forgets its settings. The context that last ran the same is taken first.

        ``key``: Equal for runs that are prepared and recorded alike.

        Raises:
            ExecutionError: TensorRT cannot make a context (SGK163).
        """
        with self._lock:
            context = self._recorded.pop(key, None) if records else None
            if context is not None:
                return context
            is_recorded = records and self.records and self._has_room(key)
            if not is_recorded:
                for one in reversed(self._resting):
                    is_ready = one.call is not None and one.call.key == key
                    if one.profile == profile and (is_ready or context is None):
                        context = one
                    if is_ready:
                        break
                if context is not None:
                    self._resting.remove(context)
        if context is None:
            context = self._make(profile)
        context.recorded_as = key if is_recorded else None
        return context

    def put(self, context: Context) -> None:
        """Take a context back that ``take`` returned.

        It is thrown away if a run failed in it after it was begun.
        """
        ended, kind = [], context.recorded_as
        with self._lock:
            if self.engine is None or context.is_enqueued:  # and did not end well
                ended.append(context)
            elif kind is None:
                self._resting.append(context)
            else:
                self._recorded[kind] = context
                while len(self._recorded) > _MOST_RECORDED:
                    ended.append(self._recorded.popitem(last=False)[1])
        for one in ended:
            self._forget(one)

    def times(self) -> dict[str, float]:
        """Return the milliseconds of each layer over all runs, if they are measured."""
        summed: dict[str, float] = {}
        with self._lock:
            measured = [context.times for context in self._all if context.times is not None]
        for times in measured:
            for layer, milliseconds in times.items():
                summed[layer] = summed.get(layer, 0.0) + milliseconds
        return summed

    def forget_recordings(self) -> None:
        """Let go of CUDA graphs, which may hold weights; nothing may be running."""
        with self._lock:
            for context in self._all:
                context.recording.forget()

    def count(self) -> dict[str, int]:
        """Count contexts, recorded runs that were launched, and runs that could not be recorded."""
        with self._lock:
            recordings = [context.recording for context in self._all]
        return {
            "contexts": len(recordings),
            "graph_launches": self._ended[0] + sum(one.launches for one in recordings),
            "failed_captures": self._ended[1] + sum(one.failed for one in recordings),
        }

    def close(self) -> None:
        """Let go of all contexts; those in use go when they are given back."""
        with self._lock:
            resting = [*self._resting, *self._recorded.values()]
            self._resting, self._recorded = [], OrderedDict()
            self.engine = None
            self._runtime_config = None
        for context in resting:
            self._forget(context)

    def _has_room(self, kind: Hashable) -> bool:
        """Say whether runs of a kind are recorded; when all room is taken, those that come again.

        Shapes that differ from run to run would otherwise make a context for each.
        """
        if len(self._recorded) < _MOST_RECORDED:
            return True
        comes_again = kind in self._met
        self._met[kind] = None
        self._met.move_to_end(kind)
        while len(self._met) > _MOST_RECORDED:
            self._met.popitem(last=False)
        return comes_again

    def _forget(self, context: Context) -> None:
        context.close()
        recording = context.recording
        with self._lock:
            self._all.remove(context)
            launches, failed = self._ended
            self._ended = (launches + recording.launches, failed + recording.failed)

    def _make(self, profile: int) -> Context:
        # others go on with the contexts there are
        with self._making, listening() as lines:
            execution_context = self._create()
            if execution_context is None and self._loader.device.memory.kept_bytes:
                self._loader.device.memory.trim()  # TensorRT knows nothing of it
                execution_context = self._create()
            hint = "Without enough memory on the GPU: set max_contexts lower, or free memory."
            check_run(execution_context, "make an execution context", lines, hint=hint)
            times: dict[str, float] | None = {} if self._times else None
            managed = None if self._options.weight_streaming else self.scratch_bytes
            context = Context(execution_context, self._loader, times, managed, profile)
        with self._lock:
            self._all.append(context)
        return context

    def _create(self) -> Any:
        library, engine = self._loader.library, self.engine
        trt, can = library.trt, library.capabilities
        strategies = trt.ExecutionContextAllocationStrategy
        # Streamed weights take scratch of their own, which the library knows best.
        strategy = strategies.STATIC if self._options.weight_streaming else strategies.USER_MANAGED
        if not can.runtime_config:
            return engine.create_execution_context(strategy)
        if self._runtime_config is None:
            self._runtime_config = runtime_config = engine.create_runtime_config()
            runtime_config.set_execution_context_allocation_strategy(strategy)
            if can.cuda_graph_strategy and self._options.cuda_graphs == "auto":
                whole = trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
                runtime_config.cuda_graph_strategy = whole
        return engine.create_execution_context(self._runtime_config)
