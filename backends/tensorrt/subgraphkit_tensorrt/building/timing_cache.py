"""Timings of kernels, kept from build to build and shared by processes.

Timings are looked up instead of measured, which makes the next build of anything alike many times
as quick. TensorRT for RTX has none: it chooses kernels on the device.
"""

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.locking import locked
from subgraphkit.backend.places import kept_folder, open_plain
from subgraphkit.errors import CacheError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.library.flavours import Library

__all__ = ["TimingCache", "timing_cache_for"]

_logger = logging.getLogger("subgraphkit.tensorrt")

_MAGIC: Final = b"subgraphkit-tensorrt timings 1\n"
_DIGEST: Final = 32
_LARGEST: Final = 1 << 30
_LOCK_TIMEOUT: Final = 30.0


class TimingCache:
    """The timings of one library on one kind of device, in a file.

    Whatever is wrong with the file, a build goes on without it and writes a new one.

    Args:
        path: The file; its folder is this user's alone.

    Thread-safety: any number of threads and processes may use the same file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def attach(self, config: Any) -> Any:
        """Give a builder configuration the timings there are.

        Returns:
            The ``ITimingCache``, which has to outlive the build; None if the library takes none.
        """
        cache = config.create_timing_cache(self._read())
        if cache is not None and config.set_timing_cache(cache, ignore_mismatch=False):
            return cache
        empty = config.create_timing_cache(b"")  # the file is of another library or device
        if empty is not None and config.set_timing_cache(empty, ignore_mismatch=False):
            return empty
        return None

    def keep(self, config: Any) -> None:
        """Add what a build has timed to what others have kept meanwhile.

        Args:
            config: The configuration of a build that is over; ``attach`` took it before.
        """
        timed = config.get_timing_cache()
        if timed is None:
            return
        lock = self._path.with_suffix(".lock")
        with locked(lock, _LOCK_TIMEOUT, lambda: None):
            others = config.create_timing_cache(self._read())
            if others is not None:
                timed.combine(others, ignore_mismatch=False)
            try:
                self._write(bytes(timed.serialize()))
            except OSError as error:
                _logger.info("timings are not kept in %s: %s", self._path, error)

    def _read(self) -> bytes:
        """Return the timings; none if there is no file or it is not as it was written."""
        try:
            descriptor, status = open_plain(self._path)
            with os.fdopen(descriptor, "rb") as file:
                stored = file.read(_LARGEST) if status.st_size <= _LARGEST else b""
        except FileNotFoundError:
            return b""
        except (OSError, CacheError) as error:
            _logger.info("timings in %s are not used: %s", self._path, error)
            return b""
        start = len(_MAGIC) + _DIGEST
        data = stored[start:]
        if stored[:start] != _MAGIC + hashlib.sha256(data).digest():
            _logger.warning("timings in %s are damaged and not used", self._path)
            return b""
        return data

    def _write(self, data: bytes) -> None:
        part = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(data).digest() + data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def timing_cache_for(
    subgraph: Subgraph, library: Library, options: Mapping[str, Any], device: str
) -> TimingCache | None:
    """Return the timings for a build; None if there are none to be kept.

    Args:
        subgraph: What is built; its graph knows where things are kept.
        library: The library.
        options: Values of the backend's options.
        device: The kind of device.
    """
    capabilities = library.capabilities
    # There, the calls exist, do nothing, and ask for a GPU.
    is_idle = capabilities.flavour == "tensorrt_rtx"
    if is_idle or not capabilities.timing_cache or not options["timing_cache"]:
        return None
    folder = kept_folder(subgraph.graph.settings, "tensorrt")
    if folder is None:
        return None
    name = re.sub(r"[^\w.]+", "-", f"{capabilities.flavour}-{capabilities.version}-{device}")
    return TimingCache(folder / f"{name}.timings")
