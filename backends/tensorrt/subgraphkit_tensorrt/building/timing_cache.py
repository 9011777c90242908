"""Timings of kernels, kept from build to build and shared by processes.

Timings are looked up instead of measured, which makes the next build of anything alike many times
as quick. TensorRT for RTX has none: it chooses kernels on the device.
"""

import re
from pathlib import Path
from typing import Any

from subgraphkit.backend import BindContext
from subgraphkit.storing import KeptFile
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.flavours import Library

__all__ = ["TimingCache", "timing_cache_for"]


class TimingCache:
    """The timings of one library on one kind of device, in a file.

    Whatever is wrong with the file, a build goes on without it and writes a new one.

    Args:
        path: The file; its folder is this user's alone.

    Thread-safety: any number of threads and processes may use the same file.
    """

    def __init__(self, path: Path) -> None:
        self._file = KeptFile(path, "tensorrt timings")

    def attach(self, config: Any) -> Any:
        """Give a builder configuration the timings there are.

        Returns:
            The ``ITimingCache``, which has to outlive the build; None if the library takes none.
        """
        cache = config.create_timing_cache(self._file.read())
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
        with self._file.lock():
            others = config.create_timing_cache(self._file.read())
            if others is not None:
                timed.combine(others, ignore_mismatch=False)
            self._file.write(bytes(timed.serialize()))


def timing_cache_for(
    context: BindContext[Options], library: Library, device: str
) -> TimingCache | None:
    """Return the timings for a build; None if there are none to be kept.

    Args:
        context: What is known of the bind.
        library: The library.
        device: The kind of device.
    """
    capabilities = library.capabilities
    # There, the calls exist, do nothing, and ask for a GPU.
    if not capabilities.keeps_timings or not context.options.timing_cache:
        return None
    folder = context.kept_folder()
    if folder is None:
        return None
    name = re.sub(r"[^\w.]+", "-", f"{capabilities.flavour}-{capabilities.version}-{device}")
    return TimingCache(folder / f"{name}.timings")
