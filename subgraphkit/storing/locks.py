"""One process at a time compiles an engine; whoever waited finds it in the cache."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

try:
    import fcntl as _fcntl
except ImportError:  # Windows
    fcntl: Any = None
else:
    fcntl = _fcntl

__all__ = ["locked"]

_PAUSE: Final = 0.05


@contextmanager
def locked(path: Path, timeout: float, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock, or go on without it where it cannot be had.

    Without the lock two processes may compile the same thing, and the later one replaces what the
    earlier one stored; nothing worse happens. The lock of a process that dies is free at once,
    because the system holds it for the process and not in the file.

    Args:
        path: The file to lock; removed when it is free.
        timeout: Seconds after which to go on without it.
        on_wait: Called once if somebody else holds it.
    """
    waited = False

    def wait() -> bool:
        nonlocal waited
        if not waited:
            on_wait()
            waited = True
        time.sleep(_PAUSE)
        return time.monotonic() < deadline

    deadline = time.monotonic() + timeout
    descriptor = _acquire(path, wait)
    try:
        yield
    finally:
        if descriptor is not None:
            _release(descriptor, path)


def _acquire(path: Path, wait: Callable[[], bool]) -> int | None:
    """Return the descriptor that holds the lock; None if there is none to be had."""
    if fcntl is None:
        return None
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:  # nothing can be written here, so nothing will be stored either
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(descriptor, path):
                return descriptor
        except BlockingIOError:
            if not wait():
                os.close(descriptor)
                return None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return None
        os.close(descriptor)


def _is_still(descriptor: int, path: Path) -> bool:
    """Say whether the file that is locked is the one others will find, not one removed since."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _release(descriptor: int, path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        # Explicitly, because a forked child may hold a copy of the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
