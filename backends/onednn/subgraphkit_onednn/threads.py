"""The threads of OpenMP: how many a run takes, and how they wait between two runs.

Where OpenMP lets them spin for milliseconds, they are ended after each run that shares its
processors with others: to start them again takes less than they would take away.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from subgraphkit_onednn.library import DnnlLibrary

_T = TypeVar("_T")


class _Process:
    """The process, as far as OpenMP is concerned: a child waits for threads of its parent."""

    has_computed = False
    was_forked = False

    @classmethod
    def note_fork(cls) -> None:
        cls.was_forked = cls.has_computed


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
