"""Phases of a build, reported while it lasts, and the way to stop it.

TensorRT swallows whatever a callback raises, and Ctrl-C arrives while its code runs. So the signal
is noted, the next callback says stop, and whoever waits for the build is told when it has stopped.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from subgraphkit.backend import Progress

__all__ = ["BuildPhases", "cancellable", "monitor_for"]

_PERCENT: Final = 100


@dataclass(slots=True)
class _Phase:
    parent: str | None
    steps: int
    done: int = 0


class BuildPhases:
    """A tree of phases, each of some steps, a step being a phase of its own or not.

    Args:
        title: What is being built.
        progress: Told how many percent of the build are done, and in which phase it is; stops it.
        is_told: Whether to tell it.

    Thread-safety: phases may be reported by any thread, and read by another.
    """

    def __init__(self, title: str, progress: Progress, *, is_told: bool = True) -> None:
        self.progress = progress
        self._is_told = is_told
        self._title = title
        self._lock = threading.Lock()
        self._phases: dict[str, _Phase] = {}
        self._furthest = 0.0

    # -- told by the builder -----------------------------------------------------------------

    def start(self, name: str, parent: str | None, steps: int) -> None:
        """Begin a phase."""
        with self._lock:
            self._phases[name] = _Phase(parent, max(steps, 1))
        self._report()

    def step(self, name: str, step: int) -> None:
        """Complete a step of a phase, counted from 0."""
        with self._lock:
            if name in self._phases:
                self._phases[name].done = step + 1
                self._furthest = max(self._furthest, self._reached())
        self._report()

    def finish(self, name: str) -> None:
        """End a phase."""
        with self._lock:
            phase = self._phases.pop(name, None)
            if phase is not None and phase.parent is None and not self.progress.cancelled:
                self._furthest = 1.0
        self._report()

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

    def _report(self) -> None:
        if self._is_told:
            self.progress(self._title, int(_PERCENT * self._furthest), _PERCENT, self.phase)

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


def monitor_for(trt: Any, phases: BuildPhases) -> Any:
    """Return an ``IProgressMonitor`` that reports to ``phases`` and stops the build with them."""

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]  # known when imported
        """Hands every event on."""

        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)  # the binding does not find it through super()

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            """Take the beginning of a phase."""
            _guarded(phases.progress, lambda: phases.start(phase_name, parent_phase, num_steps))

        def step_complete(self, phase_name: str, step: int) -> bool:
            """Take the end of a step; whether to go on."""
            _guarded(phases.progress, lambda: phases.step(phase_name, step))
            return not phases.progress.cancelled

        def phase_finish(self, phase_name: str) -> None:
            """Take the end of a phase."""
            _guarded(phases.progress, lambda: phases.finish(phase_name))

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
