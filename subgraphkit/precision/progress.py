"""How far a long piece of work is: one line on a terminal, now and then a line elsewhere."""

import sys
import time
from typing import Final, Self

__all__ = ["Progress"]

_HEARTBEAT_SECONDS: Final = 30.0
"""Elsewhere than on a terminal."""

_REDRAW_SECONDS: Final = 0.2
_WIDTH: Final = 30


class Progress:
    """Says on standard error how many steps are done; nothing is said of work that ends at once.

    Args:
        what: What is being done.
        total: How many steps there are, or None if nobody knows.
    """

    def __init__(self, what: str, total: int | None) -> None:
        self._what = what
        self._total = total
        self._stream = sys.stderr
        self._terminal = self._stream.isatty()
        self._started = self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, done: int, said: str = "") -> None:
        """Tell how many steps are done, unless that was told a moment ago.

        Args:
            done: How many.
            said: What to say in place of their number.
        """
        now = time.monotonic()
        if now - self._last < (_REDRAW_SECONDS if self._terminal else _HEARTBEAT_SECONDS):
            return
        self._last = now
        line = f"{self._what}: {said}" if said else self._line(done, now - self._started)
        self._stream.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        self._stream.flush()

    def _line(self, done: int, passed: float) -> str:
        if not self._total:
            return f"{self._what}: {done} done"
        filled = _WIDTH * done // self._total
        bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] " if self._terminal else ""
        left = passed / done * (self._total - done) if done else 0.0
        return f"{self._what}: {bar}{done} of {self._total}, {left:.0f} s left"
