"""Ctrl-C in a command: it is never lost, and never taken for an error."""

import _thread
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

_AGAIN_SECONDS: Final = 0.02


@contextlib.contextmanager
def hear_interrupts() -> Iterator[None]:
    """Have Ctrl-C strike again where Python drops it: where it removes an object."""
    hook = sys.unraisablehook

    def strike_again(dropped: Any) -> None:
        if dropped.exc_type is KeyboardInterrupt:
            # a Timer takes locks, which what was interrupted may hold
            _thread.start_new_thread(_strike_later, ())
        else:
            hook(dropped)

    sys.unraisablehook = strike_again
    try:
        yield
    finally:
        sys.unraisablehook = hook


def _strike_later() -> None:
    time.sleep(_AGAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGINT)


def is_interrupt(error: BaseException | None) -> bool:
    """Say whether Ctrl-C is behind an error: a library that is struck may raise one of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
