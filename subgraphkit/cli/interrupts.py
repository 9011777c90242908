"""Ctrl-C in a command: heard from the first import on, also where Python would drop it."""

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["heard", "is_interrupt"]

_AGAIN_SECONDS: Final = 0.01


@contextlib.contextmanager
def heard() -> Iterator[None]:
    """Have Ctrl-C strike again where Python drops it: where it removes an object, or imports."""
    before = sys.unraisablehook

    def strike_again(dropped: Any) -> None:
        if dropped.exc_type is KeyboardInterrupt:
            strike = functools.partial(os.kill, os.getpid(), signal.SIGINT)
            threading.Timer(_AGAIN_SECONDS, strike).start()
        else:
            before(dropped)

    sys.unraisablehook = strike_again
    try:
        yield
    finally:
        sys.unraisablehook = before


def is_interrupt(error: BaseException | None) -> bool:
    """Say whether Ctrl-C is behind an error: Python 3.11 wraps it where it makes a class."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None
