"""From plans to engines: the runtime, and what a plan may do to the host."""

import importlib
import threading
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

from subgraphkit.errors import OptionError
from subgraphkit_tensorrt.library.checks import check
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import listening
from subgraphkit_tensorrt.running.cudart import cuda_runtime
from subgraphkit_tensorrt.running.device import Device

__all__ = ["Loader"]

_SETTINGS: Final = ("device", "stream", "allocator", "allow_host_code", "lean_runtime")
"""The options that decide how plans are loaded."""

_LOADERS: "Final[WeakValueDictionary[tuple[object, ...], Loader]]" = WeakValueDictionary()
_LOCK: Final = threading.Lock()


class Loader:
    """Deserializes plans on one device; sessions with the same settings share it, see ``of``.

    Args:
        library: TensorRT.
        options: Values of the backend's options.

    Attributes:
        library: TensorRT.
        device: The device.

    Raises:
        BackendUnavailableError: CUDA's runtime library cannot be used (SGK175).
        CompileError: TensorRT cannot make a runtime here, or load the lean runtime (SGK162).
        OptionError: The option ``allocator`` names no allocator (SGK112).

    Thread-safety: may be used from any thread.
    """

    def __init__(self, library: Library, options: Mapping[str, Any]) -> None:
        self.library = library
        self._options = options
        self._allocator = _allocator(options["allocator"], library.trt)
        self.device = Device(
            cuda_runtime(), options["device"], stream=options["stream"], owner=self._allocator
        )
        self._lock = threading.Lock()
        self._runtimes: list[Any] = []

    @classmethod
    def of(cls, library: Library, options: Mapping[str, Any]) -> "Loader":
        """Return the loader of these settings; it lives as long as somebody uses it."""
        key = (id(library.trt), *(options[name] for name in _SETTINGS))
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
            return self._runtimes[-1].deserialize_cuda_engine(blob)

    def _made(self) -> list[Any]:
        """Return the runtimes, the one to load with last; each has to outlive the next."""
        runtimes = [self._runtime()]
        if self._options["lean_runtime"]:
            path = str(self._options["lean_runtime"])
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
            runtime.engine_host_code_allowed = self._options["allow_host_code"]
        if self._allocator is not None:
            runtime.gpu_allocator = self._allocator


def _allocator(place: str, trt: Any) -> Any:
    """Find the allocator that an option names as ``module:name``; None if it names none."""
    if not place:
        return None
    module, _, name = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
        if isinstance(found, type):
            found = found()
    except Exception as error:
        raise _no_allocator(place, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, trt.IGpuAllocator):
        raise _no_allocator(place, f"it is a {type(found).__name__}")
    return found


def _no_allocator(place: str, why: str) -> OptionError:
    return OptionError(
        "SGK112",
        f"option 'allocator' of backend 'tensorrt' names {place!r}, which is no allocator: {why}",
        hint="Write module:name; the name is a class derived from TensorRT's IGpuAllocator that "
        "takes no arguments, or an instance of one.",
        backend="tensorrt",
        option="allocator",
    )
