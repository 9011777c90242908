"""A display of progress: a bar on a terminal, a line now and then elsewhere or in the log."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr
from typing import Final, TextIO

from subgraphkit.backend.progress import Progress, ProgressEvent, ProgressListener
from subgraphkit.logs import logger_of
from subgraphkit.texts import Screen, printable, width_of

ShownAs = Progress | ProgressListener | str | None
"""How progress is shown: a word of the setting ``progress``, a listener, or a ``Progress``."""

_logger: Final = logger_of("progress")

_LINE_SECONDS: Final = 10.0
"""Between two lines, elsewhere than on a terminal."""

_REDRAW_SECONDS: Final = 0.2
_WIDTH: Final = 30
"""Of a bar, at most."""

_NARROWEST: Final = 5


@contextmanager
def show_progress(how: ShownAs, stream: TextIO | None = None) -> Iterator[Progress]:
    """Show reports to a progress for as long as the block lasts; nothing stays on a terminal.

    Without new events, the last one is shown again every second, with the time since then.

    Args:
        how: ``"auto"`` for a bar on a terminal and a line every 10 seconds elsewhere. ``"log"`` for
            lines to the logger ``subgraphkit.progress``. ``"none"`` or None for nothing. Or a
            listener, which is called with every event, or a progress that has one.
        stream: Where to write; standard error if not given.

    Thread-safety: the progress may be told from any thread, also when the block is over.
    """
    lines: _Lines | None = None
    if isinstance(how, Progress):
        progress = how
    elif isinstance(how, str) and how != "none":
        screen = Screen(stream if stream is not None else sys.stderr)
        lines = _log_lines() if how == "log" else _screen_lines(screen)
        progress = Progress(lines)
    else:
        progress = Progress(None if isinstance(how, str) else how)
    try:
        with progress.beating(), _warnings_apart(drawn=how == "auto" and stream is None):
            yield progress
    finally:
        if lines is not None:
            lines.close()


def _warnings_apart(*, drawn: bool) -> AbstractContextManager[object]:
    """Have others' output on a terminal begin a line, and not go on in that of the bar."""
    err = sys.stderr
    if not drawn or err is None or isinstance(err, Screen) or not Screen(err).is_terminal:
        return nullcontext()
    return redirect_stderr(Screen.over(err))


class _Lines:
    """The words of events, now and then, whichever threads report, and none once it is closed.

    A compilation that nobody waits for any more may report later.
    """

    def __init__(self, wait: float, write: Callable[[ProgressEvent | None], object]) -> None:
        self._wait, self._write, self._phase = wait, write, ""
        self._told, self._lock, self._is_open = time.monotonic(), threading.Lock(), True

    def __call__(self, event: ProgressEvent) -> None:
        with self._lock:
            now = time.monotonic()
            is_new, self._phase = event.phase != self._phase, event.phase
            is_due = now - self._told >= self._wait or (is_new and self._wait < _LINE_SECONDS)
            if is_due and self._is_open:
                self._told = now
                self._write(event)

    def close(self) -> None:
        with self._lock:
            self._is_open = False
            self._write(None)


def _log_lines() -> _Lines:
    def write(event: ProgressEvent | None) -> None:
        if event is not None:
            _logger.info("%s", _line(event))

    return _Lines(_LINE_SECONDS, write)


def _screen_lines(screen: Screen) -> _Lines:
    drawn = screen.is_terminal

    def write(event: ProgressEvent | None) -> None:
        line = _line(event) if event is not None else ""
        if drawn and event is not None and event.total:
            line = _with_bar(line, event, (screen.width or 80) - 1)
        screen.redraw(line)

    return _Lines(_REDRAW_SECONDS if drawn else _LINE_SECONDS, write)


def _line(event: ProgressEvent) -> str:
    words = []
    if event.total:
        words.append(f"{event.done} of {event.total}")
    elif event.done and not event.message:
        words.append(f"{event.done} done")
    if event.message:
        words.append(_step(event))
    if event.seconds >= 1:
        words.append(f"{event.seconds:.0f} s")
    if event.cancelled:
        words.append("stopping")
    elif event.total and event.done:
        left = event.seconds / event.done * (event.total - event.done)
        words.append(f"{left:.0f} s left")
    return printable(f"{event.phase}: {', '.join(words)}" if words else f"{event.phase} ...")


def _step(event: ProgressEvent) -> str:
    """Return the step under way in words, with the backend that takes it."""
    is_whole = event.backend and event.message == event.subgraph
    return f"{event.message} on {event.backend}" if is_whole else event.message


def _with_bar(line: str, event: ProgressEvent, room: int) -> str:
    """Put a bar behind the phase, as wide as there is room for; none where there is too little."""
    width = min(_WIDTH, room - width_of(line) - len("[] "))
    if width < _NARROWEST or not event.total:
        return line
    phase, _, words = line.partition(": ")
    filled = width * event.done // event.total
    return f"{phase}: [{'#' * filled}{'.' * (width - filled)}] {words}"
