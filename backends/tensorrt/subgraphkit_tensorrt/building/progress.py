"""How far a build is, shown while it lasts, and the way to stop it.

TensorRT swallows whatever a callback raises, and Ctrl-C arrives while its code runs. So the signal
is noted, the next callback says stop, and whoever waits for the build is told when it has stopped.
"""

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, TextIO

__all__ = ["Progress", "cancellable", "monitor_for", "showing"]

_REDRAW: Final = 0.25
_HEARTBEAT: Final = 10.0
_WIDTH: Final = 24
_SOONEST: Final = 0.05
"""Part of the work before which nothing is said of the rest."""


@dataclass(slots=True)
class _Phase:
    parent: str | None
    steps: int
    done: int = 0


class Progress:
    """A tree of phases, each of some steps, a step being a phase of its own or not.

    Thread-safety: phases may be reported by any thread, and read by another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phases: dict[str, _Phase] = {}
        self._furthest = 0.0
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self.started = time.monotonic()

    # -- told by the builder -----------------------------------------------------------------

    def start(self, name: str, parent: str | None, steps: int) -> None:
        """Begin a phase."""
        with self._lock:
            self._phases[name] = _Phase(parent, max(steps, 1))

    def step(self, name: str, step: int) -> None:
        """Complete a step of a phase, counted from 0."""
        with self._lock:
            if name in self._phases:
                self._phases[name].done = step + 1
                self._furthest = max(self._furthest, self._reached())

    def finish(self, name: str) -> None:
        """End a phase."""
        with self._lock:
            phase = self._phases.pop(name, None)
            if phase is not None and phase.parent is None and not self._stop.is_set():
                self._furthest = 1.0

    # -- asked by others ---------------------------------------------------------------------

    @property
    def fraction(self) -> float:
        """The part of the work that is done, from 0 to 1; never falls."""
        return self._furthest

    @property
    def phase(self) -> str:
        """Name of the innermost phase under way; empty if there is none."""
        with self._lock:
            return next(reversed(self._phases), "")

    def seconds_left(self) -> float | None:
        """Return an estimate, supposing that all steps take equally long; None if too early."""
        fraction = self._furthest
        if fraction < _SOONEST:
            return None
        elapsed = time.monotonic() - self.started
        return elapsed * (1.0 - fraction) / fraction

    # -- stopping ----------------------------------------------------------------------------

    def cancel(self, error: BaseException | None = None) -> None:
        """Have the build stopped at the next step.

        Args:
            error: What ``cancelled_by`` is to hand out; the first one stays.
        """
        if self._error is None:
            self._error = error
        self._stop.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether the build is to stop."""
        return self._stop.is_set()

    @property
    def cancelled_by(self) -> BaseException | None:
        """Why the build is to stop, if there is an error to tell."""
        return self._error

    def _reached(self) -> float:
        parts = dict.fromkeys(self._phases, 0.0)
        # Children begin after their parents, so the innermost are counted first.
        for name in reversed(self._phases):
            phase = self._phases[name]
            reached = min((phase.done + min(parts[name], 1.0)) / phase.steps, 1.0)
            if phase.parent is None:
                return reached
            if phase.parent in parts:
                parts[phase.parent] = max(parts[phase.parent], reached)
        return 0.0


def monitor_for(trt: Any, progress: Progress) -> Any:
    """Return an ``IProgressMonitor`` that reports to ``progress`` and stops the build with it."""

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]  # known when imported
        """Hands every event on."""

        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)  # the binding does not find it through super()

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            """Take the beginning of a phase."""
            _guarded(progress, lambda: progress.start(phase_name, parent_phase, num_steps))

        def step_complete(self, phase_name: str, step: int) -> bool:
            """Take the end of a step; whether to go on."""
            _guarded(progress, lambda: progress.step(phase_name, step))
            return not progress.is_cancelled

        def phase_finish(self, phase_name: str) -> None:
            """Take the end of a phase."""
            _guarded(progress, lambda: progress.finish(phase_name))

    return Monitor()


def _guarded(progress: Progress, report: Callable[[], None]) -> None:
    try:
        report()
    except BaseException as error:  # noqa: BLE001 (nothing may be raised into C++; told later)
        progress.cancel(error)


@contextmanager
def cancellable(progress: Progress) -> Iterator[None]:
    """Let Ctrl-C stop the build rather than get lost in it.

    Only in the main thread, and only if Python's own handler is in place: whoever has put another
    one there has other plans.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        progress.cancel(KeyboardInterrupt())

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def showing(
    progress: Progress, title: str, logger: logging.Logger, *, stream: TextIO | None = None
) -> Iterator[None]:
    """Show progress while the context lasts: a bar on a terminal, else a line now and then.

    Args:
        progress: What is shown.
        title: What is being done.
        logger: Where the lines go.
        stream: Where a bar may be drawn; standard error if not given.
    """
    target = stream if stream is not None else sys.stderr
    draw = stream is not None or sys.stderr is sys.__stderr__  # else somebody else draws there
    on_terminal = draw and target is not None and target.isatty()
    over = threading.Event()

    def show() -> None:
        while not over.wait(_REDRAW if on_terminal else _HEARTBEAT):
            if on_terminal:
                target.write(f"\r{bar(progress, title)}\x1b[K")
                target.flush()
            else:
                logger.info("%s", _line(progress, title))
        if on_terminal:
            target.write("\r\x1b[K")
            target.flush()

    thread = threading.Thread(target=show, name="subgraphkit-tensorrt-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def bar(progress: Progress, title: str) -> str:
    """Render the state as one line with a bar."""
    filled = round(progress.fraction * _WIDTH)
    drawn = "#" * filled + "-" * (_WIDTH - filled)
    return f"{title} [{drawn}] {_state(progress)}"


def _line(progress: Progress, title: str) -> str:
    return f"{title}: {_state(progress)}"


def _state(progress: Progress) -> str:
    elapsed = time.monotonic() - progress.started
    words = [f"{progress.fraction:.0%}", progress.phase, _clock(elapsed)]
    left = progress.seconds_left()
    if progress.is_cancelled:
        words.append("stopping")
    elif left is not None:
        words.append(f"about {_clock(left)} left")
    return ", ".join(filter(None, words))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
