"""The loader: engines from plans, and the rights of a plan on the host."""

import threading
from typing import Any, Final
from weakref import WeakValueDictionary

from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.checks import check
from subgraphkit_tensorrt.library.cudart import cuda_runtime
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import listening
from subgraphkit_tensorrt.running.allocators import allocator_named
from subgraphkit_tensorrt.running.device import Device

__all__ = ["Loader"]

_LOADERS: "Final[WeakValueDictionary[tuple[object, ...], Loader]]" = WeakValueDictionary()
_LOCK: Final = threading.Lock()


class Loader:
    """Deserializes plans on one device; sessions with the same settings share it, see ``of``.

    Args:
        library: TensorRT.
        options: The options of the backend.

    Attributes:
        library: TensorRT.
        device: The device.

    Raises:
        BackendUnavailableError: CUDA's runtime library cannot be used (SGK175).
        CompileError: TensorRT cannot make a runtime here, or load the lean runtime (SGK162).
        OptionError: The option ``allocator`` names no allocator (SGK112).

    Thread-safety: may be used from any thread.
    """

    def __init__(self, library: Library, options: Options) -> None:
        self.library = library
        self._options = options
        allocator = allocator_named(options.allocator)
        limit = options.memory_limit
        self.device = Device(cuda_runtime(), options.device, allocator=allocator, limit=limit)
        self._allocator = allocator.for_library(library.trt) if allocator is not None else None
        self._lock = threading.Lock()
        self._runtimes: list[Any] = []

    @classmethod
    def of(cls, library: Library, options: Options) -> "Loader":
        """Return the loader of these settings; it lives as long as it is used."""
        key = (
            id(library.trt),
            options.device,
            options.allocator,
            options.memory_limit,
            options.allow_host_code,
            options.lean_runtime,
        )
        with _LOCK:
            found = _LOADERS.get(key)
            if found is None:
                found = _LOADERS[key] = cls(library, options)
            return found

    def load(self, blob: bytes) -> Any:
        """Return an ``ICudaEngine``, or None if TensorRT does not take the plan.

        Code for the host inside plans is refused unless the option ``allow_host_code`` is set.
        """
        with self._lock:
            if not self._runtimes:
                self._runtimes = self._made()
            runtime = self._runtimes[-1]
            engine = runtime.deserialize_cuda_engine(blob)
            if engine is None and self.device.memory.kept_bytes:
                self.device.memory.trim()  # the plan may have been too large beside it
                engine = runtime.deserialize_cuda_engine(blob)
            return engine

    def _made(self) -> list[Any]:
        """Return the runtimes, the one to load with last; each has to outlive the next."""
        runtimes = [self._runtime()]
        if self._options.lean_runtime:
            path = str(self._options.lean_runtime)
            with listening() as lines:
                lean = runtimes[0].load_runtime(path)
                runtimes.append(check(lean, f"load the lean runtime {path}", lines))
            self._set_up(runtimes[-1])
        return runtimes

    def _runtime(self) -> Any:
        with listening() as lines:
            try:
                runtime = self.library.trt.Runtime(self.library.logger)
            except Exception as error:  # noqa: BLE001 (a binding raises what it likes)
                said = (*lines, f"error: {type(error).__name__}: {error}")
                runtime = check(None, "make a runtime", said, hint="See: subgraphkit doctor.")
        self._set_up(runtime)
        return runtime

    def _set_up(self, runtime: Any) -> None:
        if self.library.capabilities.host_code_allowed:
            runtime.engine_host_code_allowed = self._options.allow_host_code
        if self._allocator is not None:
            runtime.gpu_allocator = self._allocator
