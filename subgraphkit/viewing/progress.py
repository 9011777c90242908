"""A display of progress: a bar on a terminal, a line now and then elsewhere, or rich's or tqdm's.

The bars and lines are the project's own. A library that is asked for and missing is an error.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, Protocol, TextIO

from subgraphkit.backend.progress import Progress, ProgressEvent, ProgressListener
from subgraphkit.errors import ConfigError
from subgraphkit.texts import Screen, logger_of, printable, width_of

__all__ = ["ShownAs", "display_missing", "shown"]

ShownAs = Progress | ProgressListener | str | None
"""How progress is shown: a word of the setting ``progress``, a listener, or a ``Progress``."""

_logger: Final = logger_of("progress")

_LINE_SECONDS: Final = 10.0
"""Between two lines, elsewhere than on a terminal."""

_REDRAW_SECONDS: Final = 0.2
_WIDTH: Final = 30
"""Of a bar, at most."""

_NARROWEST: Final = 5


class _Display(Protocol):
    def __call__(self, event: ProgressEvent, /) -> None: ...
    def close(self) -> None: ...


@contextmanager
def shown(how: ShownAs, stream: TextIO | None = None) -> Iterator[Progress]:
    """Show what is told to a progress for as long as the block lasts; nothing stays on a terminal.

    While nothing is told, the last event is told again every second, with the time that has passed.

    Args:
        how: ``"auto"`` for a bar on a terminal and a line every 10 seconds elsewhere, ``"rich"`` or
            ``"tqdm"`` for a bar of these, ``"log"`` for lines to the logger
            ``subgraphkit.progress``, ``"none"`` or None for nothing; or a listener, which is called
            with every event; or a progress that has one.
        stream: Where to write; standard error if not given.

    Raises:
        ConfigError: A library is to show it that is not installed (SGK119).

    Thread-safety: the progress may be told from any thread, also when the block is over.
    """
    last: _Last | None = None
    if isinstance(how, Progress):
        progress = how
    elif isinstance(how, str) and how != "none":
        last = _Last(_displays()[how](Screen(stream if stream is not None else sys.stderr)))
        progress = Progress(last)
    else:
        progress = Progress(None if isinstance(how, str) else how)
    try:
        with progress.beating():
            yield progress
    finally:
        if last is not None:
            last.close()


def _displays() -> dict[str, Callable[[Screen], _Display]]:
    return {"auto": _Written, "log": lambda _: _Logged(), "rich": _Rich, "tqdm": _Tqdm}


class _Last:
    """One event at a time for a display, whichever threads report, and none once it is closed.

    What is being compiled when somebody stops waiting for it may report later.
    """

    def __init__(self, display: _Display) -> None:
        self._display, self._lock = display, threading.Lock()
        self._is_open = True

    def __call__(self, event: ProgressEvent) -> None:
        with self._lock:
            if self._is_open:
                self._display(event)

    def close(self) -> None:
        with self._lock:
            self._is_open = False
            self._display.close()


class _Lines:
    """The words of events, now and then."""

    def __init__(self, wait: float) -> None:
        self._wait, self._phase = wait, ""
        self._written = time.monotonic()

    def __call__(self, event: ProgressEvent) -> None:
        now = time.monotonic()
        is_new, self._phase = event.phase != self._phase, event.phase
        is_due = now - self._written >= self._wait or (is_new and self._wait < _LINE_SECONDS)
        if is_due:
            self._written = now
            self._write(event)

    def _write(self, event: ProgressEvent) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to close."""


class _Logged(_Lines):
    def __init__(self) -> None:
        super().__init__(_LINE_SECONDS)

    def _write(self, event: ProgressEvent) -> None:
        _logger.info("%s", _line(event))


class _Written(_Lines):
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        super().__init__(_REDRAW_SECONDS if screen.is_terminal else _LINE_SECONDS)

    def _write(self, event: ProgressEvent) -> None:
        line = _line(event)
        if self._screen.is_terminal and event.total:
            line = _with_bar(line, event, (self._screen.width or 80) - 1)
        self._screen.redraw(line)

    def close(self) -> None:
        self._screen.redraw()


class _Bars:
    """Bars of another library, one for each phase."""

    def __init__(self) -> None:
        self._bars: dict[str, Any] = {}

    def __call__(self, event: ProgressEvent) -> None:
        if event.phase not in self._bars:
            self._bars[event.phase] = self._made(event)
        self._update(self._bars[event.phase], event)

    def _made(self, event: ProgressEvent) -> Any:
        raise NotImplementedError

    def _update(self, bar: Any, event: ProgressEvent) -> None:
        raise NotImplementedError


class _Rich(_Bars):
    def __init__(self, screen: Screen) -> None:
        super().__init__()
        rich = _imported("rich", "rich.progress")
        self._all = rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),
            rich.TextColumn("{task.fields[words]}", markup=False),
            console=import_module("rich.console").Console(file=screen.stream),
            transient=True,
        )
        self._all.start()

    def _made(self, event: ProgressEvent) -> Any:
        return self._all.add_task(event.phase, total=event.total, words="")

    def _update(self, bar: Any, event: ProgressEvent) -> None:
        words = printable(_step(event))
        self._all.update(bar, completed=event.done, total=event.total, words=words)

    def close(self) -> None:
        self._all.stop()


class _Tqdm(_Bars):
    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._make, self._stream = _imported("tqdm", "tqdm.auto").tqdm, screen.stream

    def _made(self, event: ProgressEvent) -> Any:
        return self._make(desc=event.phase, total=event.total, file=self._stream, leave=False)

    def _update(self, bar: Any, event: ProgressEvent) -> None:
        bar.n, bar.total = event.done, event.total
        bar.set_postfix_str(printable(_step(event)))

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()


def _imported(name: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise display_missing(name, error) from error


def display_missing(name: str, error: ImportError) -> ConfigError:
    """Say that progress cannot be shown by a package, which is not there or is broken."""
    return ConfigError(
        "SGK119",
        f"progress={name!r} shows progress with the package {name!r}, which cannot be "
        f"imported: {error}",
        hint=f"pip install {name}, or set progress='auto', which needs no package.",
    )


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
