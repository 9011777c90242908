"""Files that are read through no link, and written so that others see all of one or nothing.

Locks are between threads and processes: one makes a thing, those that waited find it made.
"""

import atexit
import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from subgraphkit.storing import messages
from subgraphkit.storing.folders import HAS_OWNERS, require_owner

_UNFINISHED: Final[dict[Path, int]] = {}
_PART: Final = re.compile(r"\.subgraphkit-[0-9a-f]{16}\.part")
_OTHERS_MAY_READ: Final = stat.S_IRGRP | stat.S_IROTH
# Errors of a folder in which nothing can be made or replaced, though the file may be written.
_IN_THE_WAY: Final = frozenset({errno.EACCES, errno.EBUSY, errno.EPERM, errno.EROFS})


def open_through_no_link(path: Path) -> BinaryIO:
    """Open anything but a link for reading, of any kind and owner; else OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb")


def open_plain(path: Path, *, secret: bool = False) -> BinaryIO:
    """Open a file of this user's for reading, through no link.

    ``secret``: Whether others must not even be able to read it.

    Raises:
        OSError: It cannot be opened, or is a link.
        CacheError: It is not a regular file, or others could have written it or, if it is a
            secret, read it (SGK150).
    """
    return accepted(open_through_no_link(path), partial(_check_file, path, secret=secret))


def accepted(file: BinaryIO, check: Callable[[os.stat_result], object]) -> BinaryIO:
    """Return an open file after a check of its status; an error of that closes it."""
    try:
        check(os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def _check_file(path: Path, status: os.stat_result, *, secret: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise messages.untrusted_path(path, "is not a regular file", f"Remove it: rm -r {path}")
    require_owner(path, status)
    if secret and HAS_OWNERS and status.st_mode & _OTHERS_MAY_READ:
        raise messages.untrusted_path(
            path,
            f"can be read by others (mode {stat.S_IMODE(status.st_mode):04o})",
            f"Remove it, and a new one is made: rm {path}",
        )


@contextmanager
def new_file(path: Path, mode: int = 0o600, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Make and yield a new file, which stays; OSError if it is there or not writable."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        yield file
        if durable:
            file.flush()
            os.fsync(file.fileno())


def write_whole(
    path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True, replace: bool = True
) -> None:
    """Write a file in one step: readers see all of it or the file before, even if writing fails.

    A killed writer leaves a hidden ``.subgraphkit-*.part`` beside it. ``remove_left_over`` removes
    it, since nobody claims it.

    ``durable``: Whether it is to last through a power failure, which takes milliseconds.

    Raises:
        OSError: It cannot be written; nothing is left of it.

    Thread-safety: any number of threads and processes may write the same file; one of them wins.
    """
    is_written = False
    while not is_written:  # a process between a new file and its claim has taken it for left over
        part = path.with_name(f".subgraphkit-{os.urandom(8).hex()}.part")
        with gone_at_the_end(part):
            try:
                is_written = _write_by_way_of(
                    part, path, data, mode=mode, durable=durable, replace=replace
                )
            finally:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
    if durable:
        flush_folder(path.parent)


def _write_by_way_of(
    part: Path, path: Path, data: bytes, *, mode: int, durable: bool, replace: bool
) -> bool:
    """Write a file, claimed, and give it its name; return whether it was there to the end."""
    with contextlib.ExitStack() as claim:
        with new_file(part, mode, durable=durable) as file:
            if not claim.enter_context(claim_path(part)) and not os.path.lexists(part):
                return False
            file.write(data)
        if replace or not _link_file(part, path):
            part.replace(path)
    return True


@contextmanager
def claim_path(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a file or a folder itself, which tells other processes that somebody is at work on it.

    The system frees the lock when the process ends in any way: files that nobody claims are left
    over. Where there are no such locks, nothing is known to be left over.
    """
    descriptor, held = -1, False
    try:
        with contextlib.suppress(ImportError, OSError):
            if os.name == "posix":  # elsewhere an open file could not be given its name
                import fcntl  # noqa: PLC0415 (other systems have none)

                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                held = os.path.samestat(os.fstat(descriptor), path.lstat())
        yield held
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def remove_left_over(path: Path) -> bool:
    """Remove a file that a writer which was killed has left of ``write_whole``; no other."""
    if not _PART.fullmatch(path.name):
        return False
    with claim_path(path, wait=False) as is_left_over:
        if is_left_over:
            with contextlib.suppress(OSError):
                path.unlink()
                return True
    return False


@contextmanager
def gone_at_the_end(path: Path) -> Iterator[None]:
    """Remove a file should the program end before the block does, which a thread may be in then."""
    _UNFINISHED[path] = os.getpid()
    try:
        yield
    finally:
        del _UNFINISHED[path]


@atexit.register
def _remove_unfinished() -> None:
    for path, process in list(_UNFINISHED.items()):
        if process == os.getpid():  # not one of the process that this one was forked from
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _link_file(part: Path, path: Path) -> bool:
    """Give a file a second name, if nothing has it; return whether something has it now."""
    try:
        os.link(part, path)
    except FileExistsError:
        return True
    except OSError:  # a file system without hard links
        return False
    return True


def write_output(path: Path, data: bytes) -> None:
    """Write a file that a user has asked for, in one step if possible.

    It follows links, and a replaced file keeps its mode. A pipe, ``/dev/stdout`` and the like take
    the bytes as they come.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        write_whole(target, data, mode=0o666 if mode is None else mode)
        if mode is not None:
            target.chmod(mode)  # the mask has taken from it
    except OSError as error:
        if error.errno not in _IN_THE_WAY or not target.is_file():
            raise
        target.write_bytes(data)


def flush_folder(folder: Path) -> None:
    """Make renamings in a folder last through a power failure, if the system can."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(
    path: Path, timeout: float, on_wait: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold a lock, or go on without it where it cannot be had.

    Without the lock two processes may make the same thing, and the later one replaces the earlier
    one's. Nothing worse happens. The lock of a process that dies is free at once, because the
    system holds it for the process, not in the file. Nobody can hold it twice: a thread that asks
    again waits, and goes on without it.

    Args:
        path: The file to lock, in a folder of this user alone; removed when it is free.
        timeout: Seconds after which to go on without it.
        on_wait: Called once if somebody else holds it.

    Thread-safety: may be used by any number of threads and processes; another thread than the taker
    may release it.
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
                path.unlink(missing_ok=True)  # first: the next owner looks for its name
            with contextlib.suppress(OSError):
                lock.release()
