"""The interruption of work under way: Python code is stopped wherever it is, within milliseconds.

A run that may end early has a ``Progress``, which is cancelled when its time is up. It is asked
between two steps. ``Progress.stopping`` stops a library that can be stopped. Long computations in
Python run in a thread of their own, which is stopped as Ctrl-C would stop it. The caller's thread
only waits, so nothing interrupts it. It does not wait for a slow call into a library.
"""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, TypeVar

from subgraphkit.backend.progress import Progress
from subgraphkit.logs import logger_of

_Result = TypeVar("_Result")

_logger = logger_of("run")

_AGAIN_SECONDS: Final = 0.02
"""When to strike once more: Python drops an exception that strikes where it removes an object."""

_PATIENCE_SECONDS: Final = 0.03
"""How long cancelled work may take to end before nobody waits for it."""

_LONG_SECONDS: Final = 3600.0
"""How long to sleep if nothing is due; a lock cannot wait for any time at all."""


class Interrupted(BaseException):
    """Strikes Python code inside of ``interrupted_here``; to be caught by nobody else for good."""


def interruptible(progress: Progress, work: Callable[..., _Result], *arguments: object) -> _Result:
    """Have Python code done by another thread, where it is interrupted when the work is cancelled.

    Nothing waits for a library's call that does not return to Python. It goes on, and its result is
    dropped.

    Args:
        progress: Says when; see ``Progress.cancel``.
        work: The work, in which ``interrupted_here`` calls code that may be interrupted. That code
            bears an exception between any two steps; undo around it.
        *arguments: Its arguments.

    Raises:
        BaseException: The work's own error, or the one that cancelled ``progress``. The cause of
            the latter is an ``Interrupted`` with the place of the work.

    Thread-safety: may be called from any thread.
    """
    over = threading.Event()
    outcome: list[tuple[Any, BaseException | None]] = []

    def do() -> None:
        try:
            outcome.append((work(*arguments), None))
        except BaseException as error:  # noqa: BLE001 (raised where somebody waits)
            outcome.append((None, error))
        over.set()

    def leave() -> None:
        _alarm.set(over, time.monotonic() + _PATIENCE_SECONDS, over.set)

    thread = threading.Thread(target=do, name="subgraphkit run", daemon=True)
    try:
        with progress.stopping(leave):
            thread.start()
            over.wait()
    except BaseException as error:
        progress.cancel(error)
        raise
    finally:
        _alarm.drop(over)
    if not outcome:
        _raise_left(progress, thread)
    made: _Result
    made, raised = outcome[0]
    if raised is not None:
        raise raised
    return made


def _raise_left(progress: Progress, thread: threading.Thread) -> None:
    """Raise the error that cancelled work still running in a thread; the cause has its place."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 (public but for its name)
    trace: TracebackType | None = None
    while frame is not None:
        trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    try:
        progress.check()
    except BaseException as error:
        raise error from Interrupted().with_traceback(trace)


def interrupted_here(
    progress: Progress, work: Callable[..., _Result], *arguments: object
) -> _Result:
    """Call Python code that is interrupted when the work is cancelled, on a thread for such work.

    Nothing strikes after this function has returned or raised.

    Args:
        progress: Says when.
        work: What to do; see ``interruptible``.
        *arguments: Its arguments.

    Raises:
        BaseException: As for ``interruptible``.

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

    ``strike`` holds the lock, which ``close`` takes for good. That is a call written in C, made
    right after the work. Python delivers no exception between the two. One raised just before
    arrives right after.

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
            if getattr(sys.unraisablehook, "func", None) is not _pass_on_others:
                sys.unraisablehook = partial(_pass_on_others, sys.unraisablehook)
            try:
                _raise_in(self._thread, Interrupted)
                _alarm.set(self, time.monotonic() + _AGAIN_SECONDS, self.strike)
            finally:
                self._lock.release()

    def take_back(self) -> None:
        """Have no exception raised any more; ``close`` was called."""
        _raise_in(self._thread, None)
        _settle()
        _alarm.drop(self)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Have an exception raised in a thread at its next step of Python code, or none after all."""
    raised = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def _settle() -> None:
    """Stop Python's search for exceptions to raise, which goes on after one is taken back.

    Until one is raised, Python looks at every jump and call. Under a tracing function, such as a
    debugger's, CPython 3.11 then never gets beyond the next call.
    """
    with suppress(Interrupted):
        _raise_in(threading.get_ident(), Interrupted)
        while True:
            pass


def _pass_on_others(before: Callable[[Any], object], dropped: Any) -> None:
    """Stand in for ``sys.unraisablehook``, so that no interruption of ours is printed."""
    if dropped.exc_type is not Interrupted:
        before(dropped)


def cancel_after(seconds: float, progress: Progress, error: Callable[[], BaseException]) -> None:
    """Cancel work that takes more than so many seconds, with an error from ``error``."""
    _alarm.set(progress, time.monotonic() + seconds, lambda: progress.cancel(error()))


def let_go_on(progress: Progress) -> None:
    """Take ``cancel_after`` back: the work is done."""
    _alarm.drop(progress)


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
        with self._changed:
            self._calls.pop(key, None)

    def _watch(self) -> None:
        while True:
            for call in self._due():
                try:
                    call()
                except Exception:
                    _logger.exception("what was to stop a run failed")
                # no name may keep objects of a run alive
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
