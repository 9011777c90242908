"""The threads of OpenMP: how many a run takes, and how they wait between two runs.

Where OpenMP lets them spin for milliseconds, they are ended after each run that shares its
processors with others: to start them again takes less than they would take away.
"""

import os

from subgraphkit_onednn.library import DnnlLibrary


class _Process:
    """The process, as far as OpenMP is concerned: a child waits for threads of its parent."""

    has_computed = False
    was_forked = False

    @classmethod
    def forked(cls) -> None:
        cls.was_forked = cls.has_computed


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.forked)


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

    def taken(self) -> "_Taken":
        """Return a context in which the calling thread computes with that number."""
        return _Taken(self._library, self.count, ends=self._ends)


class _Taken:
    """Sets the number of threads of the calling thread for a while."""

    __slots__ = ("_before", "_count", "_ends", "_library")

    def __init__(self, library: DnnlLibrary, count: int, *, ends: bool) -> None:
        self._library = library
        self._count = self._before = count
        self._ends = ends

    def __enter__(self) -> None:
        self._before = self._library.max_threads
        if self._before != self._count:
            self._library.set_threads(self._count)

    def __exit__(self, *_: object) -> None:
        if self._before != self._count:
            self._library.set_threads(self._before)
        if self._ends:
            self._library.end_threads()
