"""Ctrl-C in a command: put off while something is imported, and never lost."""

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
_IMPORT_SECONDS: Final = 2.0
"""How long an import may put Ctrl-C off."""

_IMPORTING: Final = "<frozen importlib._bootstrap>"


@contextlib.contextmanager
def heard() -> Iterator[None]:
    """Have Ctrl-C strike when an import under way is over, and again where Python drops it.

    A library that is struck while it is imported may take it for a fault of its own, or crash when
    the program ends; Python drops it where it removes an object. A program that hears Ctrl-C in a
    way of its own, or not at all, goes on doing so.
    """
    hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGINT)
    is_ours = (
        handler is signal.default_int_handler
        and threading.current_thread() is threading.main_thread()
    )
    last = 0.0

    def strike_again(dropped: Any) -> None:
        if dropped.exc_type is KeyboardInterrupt:
            _strike_soon()
        else:
            hook(dropped)

    def strike(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        last = last or now + _IMPORT_SECONDS
        if now < last and _is_importing(frame):
            _strike_soon()
            return
        last = 0.0
        signal.default_int_handler(number, frame)

    sys.unraisablehook = strike_again
    if is_ours:
        signal.signal(signal.SIGINT, strike)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        if is_ours:
            signal.signal(signal.SIGINT, handler)


def _strike_soon() -> None:
    # a Timer takes locks, which what was interrupted may hold
    _thread.start_new_thread(_strike_later, ())


def _strike_later() -> None:
    time.sleep(_AGAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGINT)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None


def is_interrupt(error: BaseException | None) -> bool:
    """Say whether Ctrl-C is behind an error: Python 3.11 wraps it where it makes a class."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None
