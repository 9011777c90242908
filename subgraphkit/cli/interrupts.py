"""Ctrl-C in a command: it is never lost, and never taken for an error."""

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

_AGAIN_SECONDS: Final = 0.02
_IMPORT_SECONDS: Final = 3.0
"""The longest that an import keeps Ctrl-C waiting."""


@contextlib.contextmanager
def hear_interrupts() -> Iterator[None]:
    """Have Ctrl-C strike again where Python drops it, and behind an import rather than in it.

    Python drops it where it removes an object. A library of C++ that is struck while it is imported
    may end the process with a core dump.
    """
    hook = sys.unraisablehook

    def strike_again(dropped: Any) -> None:
        if dropped.exc_type is KeyboardInterrupt:
            # a Timer takes locks that the interrupted code may hold
            _thread.start_new_thread(_strike_later, ())
        else:
            hook(dropped)

    sys.unraisablehook = strike_again
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours := ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _Interrupt())
    try:
        yield
    finally:
        sys.unraisablehook = hook
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class _Interrupt:
    """The handler of Ctrl-C."""

    latest = float("inf")

    def __call__(self, _number: int, frame: FrameType | None) -> None:
        while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        self.latest = min(self.latest, time.monotonic() + _IMPORT_SECONDS)
        if frame is None or time.monotonic() > self.latest:
            self.latest = float("inf")
            raise KeyboardInterrupt
        _thread.start_new_thread(_strike_later, ())


def _strike_later() -> None:
    time.sleep(_AGAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGINT)


def is_interrupt(error: BaseException | None) -> bool:
    """Say whether Ctrl-C is behind an error: a library that is struck may raise one of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
