"""Memory of this process, as the system counts it, and of the machine."""

import os
import re
import sys
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")
_CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def resident_bytes(process: int | None = None) -> int | None:
    """Return the memory in use now, or the peak so far, if only that is known."""
    if process is not None:
        return _field("VmRSS", str(process))
    return _field("VmRSS") or peak_bytes()


def peak_bytes() -> int | None:
    """Return the most memory in use so far; None where the system does not report it."""
    found = _field("VmHWM")
    if found is not None or find_spec("resource") is None:
        return found
    resource = import_module("resource")
    largest: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def give_back() -> None:
    """Let the C library hand memory that nobody uses back to the system, if it is glibc.

    Freed memory stays with the process otherwise, and compilers free as much as a model's weights.
    """
    import ctypes  # noqa: PLC0415 (listing backends stays quick)

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@lru_cache(maxsize=1)
def machine_bytes() -> int:
    """Return the memory of the machine, or of the container; 0 if it cannot be found out."""
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0
    try:
        allowed = _CONTAINER_LIMIT.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return physical
    return min(physical, int(allowed)) if allowed.isdecimal() else physical


def _field(name: str, process: str = "self") -> int | None:
    try:
        status = (_PROCESSES / process / "status").read_text()
    except OSError:  # another system, or the process has gone
        return None
    found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else None
