"""Locks between threads and processes: one makes a thing, and those that waited find it made."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from subgraphkit.storing.files import gone_at_the_end


@contextmanager
def locked(
    path: Path, timeout: float, on_wait: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold a lock, or go on without it where it cannot be had.

    Without the lock two processes may make the same thing, and the later one replaces what the
    earlier one stored; nothing worse happens. The lock of a process that dies is free at once,
    because the system holds it for the process and not in the file. It cannot be held twice, not
    by one thread either: who asks for it again waits, and goes on without it.

    Args:
        path: The file to lock, in a folder of this user alone; removed when it is free.
        timeout: Seconds after which to go on without it.
        on_wait: Called once if somebody else holds it.

    Thread-safety: may be used by any number of threads and processes; another thread than the one
    that took it may give it back.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 (only those who store pay for it)

    lock = FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)
    # Where nothing can be written or locked, nothing will be stored either.
    with contextlib.suppress(OSError):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            on_wait()
            lock.acquire(timeout=timeout)
    try:
        with gone_at_the_end(path) if lock.is_locked else contextlib.nullcontext():
            yield
    finally:
        if lock.is_locked:  # in a child that was forked meanwhile it is not
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)  # first: whoever locks it now looks for its name
            with contextlib.suppress(OSError):
                lock.release()
