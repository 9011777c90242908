"""Kernels that TensorRT for RTX compiles on the device, kept for the next process.

Its plans hold no kernels for the GPU at hand; they are compiled when an engine is first run, which
takes seconds. A runtime cache holds them; the library looks whether one fits GPU, driver and
version, and takes none that does not.
"""

import hashlib
import threading
import time
from typing import Any, Final

from subgraphkit.backend import BindContext
from subgraphkit.storing import KeptFile
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import LOGGER

__all__ = ["Kernels", "kernels_for"]

_PAUSE: Final = 60.0
"""Least seconds between two times that kernels are written while an engine is in use."""


class Kernels:
    """The kernels of one engine.

    Args:
        file: Where they are kept.

    Thread-safety: may be used from any thread.
    """

    def __init__(self, file: KeptFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._cache: Any = None
        self._known = b""
        self._wrote: float | None = None

    def attach(self, runtime_config: Any) -> None:
        """Give the configuration of an engine's contexts the kernels there are."""
        cache = runtime_config.create_runtime_cache()
        if cache is None:
            return
        with self._file.lock():
            data = self._file.read()
        if data and cache.deserialize(data):
            self._known = data
        elif data:
            LOGGER.info("the kernels that were kept do not fit here and are compiled again")
        runtime_config.set_runtime_cache(cache)
        self._cache = cache

    def compiled(self, *, at_end: bool = False) -> bytes | None:
        """Return what is to be kept, if kernels were compiled since; nothing may be running.

        Args:
            at_end: Whether there will be no other time to ask.
        """
        with self._lock:
            now = time.monotonic()
            if self._cache is None:
                return None
            if not at_end and self._wrote is not None and now - self._wrote < _PAUSE:
                return None
            self._wrote = now
            serialized = self._cache.serialize()
            data = bytes(serialized) if serialized is not None else self._known
            is_new, self._known = data != self._known, data
            return data if is_new else None

    def keep(self, data: bytes) -> None:
        """Write down what ``compiled`` returned."""
        with self._file.lock():
            self._file.write(data)


def kernels_for(
    plan: bytes, context: BindContext[Options], library: Library, device: str
) -> Kernels | None:
    """Return the kernels of a plan; None if the library compiles none, or nothing is kept.

    Args:
        plan: The plan.
        context: What is known of the bind.
        library: TensorRT.
        device: The kind of GPU.
    """
    if not library.capabilities.runtime_cache:
        return None
    folder = context.kept_folder()
    if folder is None:
        return None
    digest = hashlib.sha256(device.encode() + b"\0" + plan).hexdigest()
    return Kernels(KeptFile(folder / f"{digest}.kernels", "tensorrt kernels"))
