"""The interruption of work under way: Python code is stopped wherever it is, within milliseconds.

A run that may end early has a ``Progress``, which is cancelled when its time is up. Between two
steps it is asked; a library that can be stopped is, by ``Progress.stopping``; and Python code that
computes for long is called by ``interruptible``, which stops it on any thread as Ctrl-C would.
"""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from subgraphkit.backend.progress import Progress
from subgraphkit.texts import logger_of

__all__ = ["Interrupted", "interruptible", "limited_to"]

_Result = TypeVar("_Result")

_logger = logger_of("run")

_AGAIN_SECONDS: Final = 0.02
"""When to strike once more: Python drops an exception that strikes where it removes an object."""

_LONG_SECONDS: Final = 3600.0
"""How long to sleep if nothing is due; a lock cannot wait for any time at all."""


class Interrupted(BaseException):
    """Strikes Python code inside of ``interruptible``; to be caught by nobody else for good."""


def interruptible(progress: Progress, work: Callable[..., _Result], *arguments: object) -> _Result:
    """Call Python code that is interrupted, wherever it is, when the work is cancelled meanwhile.

    A call of a library that does not return to Python is not interrupted before it does. Nothing
    strikes after this function has returned or raised.

    Args:
        progress: Says when; see ``Progress.cancel``.
        work: What to do. It must bear an exception between any two steps of Python code, so what
            is to be undone in any case is for the caller to do and undo.
        *arguments: Its arguments.

    Raises:
        BaseException: What the work raises; or what ``progress`` was cancelled with, whose cause is
            the ``Interrupted`` that struck.

    Thread-safety: may be called from any thread, and from within ``work``.
    """
    striker = _Striker()
    try:
        with progress.stopping(striker.strike):
            striker.open()
            try:
                progress.check()
                return work(*arguments)
            finally:
                striker.close()
    except Interrupted as struck:
        try:
            progress.check()
        except BaseException as error:
            raise error from struck
        raise  # it was meant for a work around this one
    finally:
        if progress.cancelled:
            striker.take_back()


class _Striker:
    """Raises ``Interrupted`` in the thread that makes it, between ``open`` and ``close``.

    Whoever strikes holds the lock, which ``close`` takes for good: a call written in C, made as
    soon as the work is left. Python delivers nothing between the two, and what was raised just
    before it delivers right behind.

    Thread-safety: ``strike`` may be called from any thread.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._lock.acquire()
        self.open, self.close = self._lock.release, self._lock.acquire

    def strike(self) -> None:
        """Raise it, and again after a while if the thread goes on; nothing while it is closed."""
        if self._lock.acquire(blocking=False):
            _Hush.install()
            try:
                _raise_in(self._thread, Interrupted)
                _alarm.set(self, time.monotonic() + _AGAIN_SECONDS, self.strike)
            finally:
                self._lock.release()

    def take_back(self) -> None:
        """Have no exception raised any more; ``close`` was called."""
        _raise_in(self._thread, None)
        _alarm.drop(self)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Have an exception raised in a thread at its next step of Python code, or none after all."""
    raised = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


class _Hush:
    """Takes the place of ``sys.unraisablehook``, so that what Python drops of ours is not printed.

    Args:
        before: Is handed everything else.
    """

    def __init__(self, before: Callable[[Any], object]) -> None:
        self._before = before

    def __call__(self, dropped: Any) -> None:
        if dropped.exc_type is not Interrupted:
            self._before(dropped)

    @staticmethod
    def install() -> None:
        """Take the place, unless it is taken."""
        if not isinstance(sys.unraisablehook, _Hush):
            sys.unraisablehook = _Hush(sys.unraisablehook)


@contextmanager
def limited_to(
    seconds: float, progress: Progress, error: Callable[[], BaseException]
) -> Iterator[None]:
    """Cancel work when it has taken so long.

    Args:
        seconds: How long it may take.
        progress: That of the work.
        error: Makes what to cancel it with.
    """
    key = object()
    _alarm.set(key, time.monotonic() + seconds, lambda: progress.cancel(error()))
    try:
        yield
    finally:
        _alarm.drop(key)


class _Alarm:
    """Calls functions at given times, on one thread for all; it starts when first needed.

    Thread-safety: safe.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: dict[Hashable, tuple[float, Callable[[], object]]] = {}
        self._wakes = 0.0
        self._thread: threading.Thread | None = None

    def set(self, key: Hashable, when: float, call: Callable[[], object]) -> None:
        """Have a function called at a time of ``time.monotonic``; it must not take long."""
        with self._changed:
            self._calls[key] = when, call
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name="subgraphkit alarm", daemon=True)
                thread.start()
                self._thread = thread
            elif when < self._wakes:
                self._changed.notify()

    def drop(self, key: Hashable) -> None:
        """Forget a call, if it was not made yet."""
        with self._changed:
            self._calls.pop(key, None)

    def _watch(self) -> None:
        while True:
            for call in self._due():
                try:
                    call()
                except Exception:
                    _logger.exception("what was to stop a run failed")
                # no name may keep alive what belongs to a run
                del call

    def _due(self) -> list[Callable[[], object]]:
        """Wait until calls are due; take them off the list."""
        with self._changed:
            now = time.monotonic()
            due = [key for key, (when, _) in self._calls.items() if when <= now]
            if not due:
                times = (when for when, _ in self._calls.values())
                self._wakes = min((now + _LONG_SECONDS, *times))
                self._changed.wait(self._wakes - now)
                self._wakes = 0.0
            return [self._calls.pop(key)[1] for key in due]


_alarm = _Alarm()


def _start_over() -> None:
    """Have a thread of its own in a forked child, which has none of its parent's."""
    global _alarm  # noqa: PLW0603 (one a process)
    _alarm = _Alarm()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
