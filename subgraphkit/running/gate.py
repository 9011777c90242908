"""A gate between many runs and the rare change that must have the session to itself."""

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from subgraphkit.backend.progress import Progress

__all__ = ["Gate"]

_T = TypeVar("_T")

_LOOK_SECONDS: Final = 0.01


class Gate:
    """Lets any number of runs through at once, or one change and no run.

    ``with gate.passage():`` is a run; ``gate.alone(change)`` makes a change, which keeps new runs
    out from the moment it waits, so that a busy session cannot put it off for ever.

    Every thread has a passage of its own, and a change takes them all. A passage is a lock written
    in C, not a counter kept in Python, because Ctrl-C may strike between any two steps of Python
    code: a run that was counted in would then never be counted out. It also costs a run less.

    Thread-safety: safe. A change inside a run of the same thread does not wait for that run.
    """

    __slots__ = ("_is_taken", "_mine", "_passages", "_turn")

    def __init__(self) -> None:
        # Held by a change from its first wait to its end.
        self._turn = threading.Lock()
        self._is_taken = False
        self._mine = threading.local()
        self._passages: weakref.WeakSet[Any] = weakref.WeakSet()  # they end with their threads

    def passage(self, progress: Progress | None = None) -> Any:
        """Return the calling thread's passage, a context manager to be held for one run.

        Args:
            progress: That of the run, which may be cancelled while it waits for a change.
        """
        if self._is_taken:
            while progress is not None and self._is_taken:
                progress.check()
                time.sleep(_LOOK_SECONDS)
            with self._turn:
                pass
        try:
            return self._mine.passage
        except AttributeError:
            return self._opened()

    def _opened(self) -> Any:
        passage = threading.RLock()
        with self._turn:
            self._passages.add(passage)
        self._mine.passage = passage
        return passage

    def is_held_elsewhere(self) -> bool:
        """Say whether another thread is inside."""
        for passage in list(self._passages):
            if not passage.acquire(blocking=False):  # this thread's own is given
                return True
            passage.release()
        return self._is_taken

    def count_inside(self) -> int:
        """Count the threads that are inside."""
        # a look that takes nothing: whoever took one and was interrupted would keep its thread out
        return sum(repr(passage).startswith("<locked") for passage in list(self._passages))

    def alone(self, change: Callable[[], _T]) -> _T:
        """Keep new runs out, wait for those inside, and make a change.

        Args:
            change: What to do meanwhile. A call, not a ``with`` block, because Ctrl-C between the
                block and the way out of it would leave everybody out for good.

        Returns:
            What ``change`` returned.
        """
        with self._turn:
            passages = list(self._passages)
            try:
                self._is_taken = True
                for passage in passages:
                    passage.acquire()
                return change()
            finally:
                self._is_taken = False
                try:
                    _give_back(passages)
                except KeyboardInterrupt:
                    _give_back(passages)
                    raise


def _give_back(passages: list[Any]) -> None:
    while passages:
        # an interruption may have come before it was taken, or before it was taken off the list
        with suppress(RuntimeError):
            passages[-1].release()
        passages.pop()
