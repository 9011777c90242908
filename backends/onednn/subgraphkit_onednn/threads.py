"""The threads of OpenMP: how many a run takes, and how they wait between two runs.

Some builds of OpenMP let idle threads spin for milliseconds. There they are ended after each run
that shares its processors with others. Starting them again costs less than their spinning.

What oneDNN keeps for a thread that ran a region goes with the thread or with the region. Where both
end at once, the library frees it twice. So no region is released while a thread ends.
"""

import os
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import RLock, get_native_id, local
from time import monotonic, sleep
from typing import Any, Final, TypeVar

from subgraphkit_onednn.library import DnnlLibrary

_T = TypeVar("_T")


_ENDED: Final = deque[tuple[int, float]](maxlen=256)
"""Threads that ran something, and when they ended for Python: the system ends them after that."""
_LONGEST: Final = 0.5
"""Seconds; a thread that still lives then is one of another language, which goes on."""
_MARKS: Final = local()


class _Mark:
    """Goes when its thread ends, and waits for a release that has begun."""

    def __init__(self) -> None:
        self._thread = get_native_id()

    def __del__(self) -> None:
        """Say that the thread ends, unless the interpreter does."""
        if _Process is not None and not sys.is_finalizing():
            with _Process.guard:
                _ENDED.append((self._thread, monotonic()))


def release(destroy: Callable[[Any], object], pointer: Any) -> None:
    """Destroy what threads ran, when those that end have ended."""
    if _Process is None or sys.is_finalizing():  # there are no other threads any more
        destroy(pointer)
        return
    with _Process.guard:
        while _ENDED:
            thread, since = _ENDED.popleft()
            alive = Path(f"/proc/self/task/{thread}")
            while thread != get_native_id() and monotonic() < since + _LONGEST and alive.exists():
                sleep(1e-4)
        destroy(pointer)


class _Process:
    """The process, as far as OpenMP is concerned: a child waits for threads of its parent."""

    has_computed = False
    was_forked = False
    guard = RLock()

    @classmethod
    def note_fork(cls) -> None:
        cls.was_forked, cls.guard = cls.has_computed, RLock()  # a lost thread may hold the old one
        _MARKS.__dict__.clear()
        _ENDED.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.note_fork)


class Threads:
    """The number of threads that a region is compiled for and run with.

    OpenMP keeps that number per thread. What was compiled for a number of threads must not be run
    with another: kernels divide their scratch memory by it.

    ``ends``: Whether threads that would spin after a run are ended instead.

    Thread-safety: safe.
    """

    __slots__ = ("_ends", "_library", "count")

    def __init__(self, library: DnnlLibrary, count: int | None, *, ends: bool) -> None:
        _Process.has_computed = True
        # In a child of a process that computed, GNU's OpenMP never comes back from a second thread.
        self.count = 1 if _Process.was_forked else count or library.max_threads
        self._library = library
        self._ends = ends and library.spins

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call a function, with that number for the calling thread meanwhile."""
        if not hasattr(_MARKS, "mark"):
            _MARKS.mark = _Mark()
        before = self._library.max_threads
        if before != self.count:
            self._library.set_threads(self.count)
        try:
            return function(*arguments)
        finally:
            if before != self.count:
                self._library.set_threads(before)
            if self._ends:
                self._library.end_threads()
