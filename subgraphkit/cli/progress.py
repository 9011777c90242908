"""The one writer of progress: a line drawn anew on a terminal, a line now and then elsewhere."""

import math
import time
from types import TracebackType
from typing import Final, Self, TextIO

from subgraphkit.backend.progress import Progress, ProgressEvent
from subgraphkit.texts import Screen

__all__ = ["ProgressWriter"]

_HEARTBEAT_SECONDS: Final = 30.0
"""Elsewhere than on a terminal."""

_REDRAW_SECONDS: Final = 0.2
_WIDTH: Final = 30


class ProgressWriter:
    """Writes how far work is, while the context lasts; nothing of it stays on a terminal.

    Args:
        phase: What is being done.
        stream: Where to write.

    Attributes:
        progress: What the work reports to.
    """

    def __init__(self, phase: str, stream: TextIO) -> None:
        self.progress = Progress(self._listen)
        self._screen = Screen(stream)
        self._terminal = self._screen.is_terminal
        self._phase = ""
        self._began = self._written = time.monotonic()
        self._wait = _REDRAW_SECONDS if self._terminal else _HEARTBEAT_SECONDS
        self._listen(ProgressEvent(phase, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wait = math.inf  # an operator may keep on reporting
        self._screen.redraw()

    def _listen(self, event: ProgressEvent) -> None:
        now = time.monotonic()
        is_new = event.phase != self._phase
        if is_new:
            self._phase, self._began = event.phase, now
        is_due = is_new and self._terminal and math.isfinite(self._wait)
        if now - self._written < self._wait and not is_due:
            return
        self._written = now
        self._screen.redraw(self._line(event, now - self._began))

    def _line(self, event: ProgressEvent, passed: float) -> str:
        words = []
        if event.total:
            filled = _WIDTH * event.done // event.total
            drawn = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] " if self._terminal else ""
            words.append(f"{drawn}{event.done} of {event.total}")
        elif event.done and not event.message:
            words.append(f"{event.done} done")
        if event.message:
            words.append(event.message)
        if event.cancelled:
            words.append("stopping")
        elif event.total and event.done:
            left = passed / event.done * (event.total - event.done)
            words.append(f"{left:.0f} s left")
        return f"{event.phase}: {', '.join(words)}" if words else f"{event.phase} ..."
