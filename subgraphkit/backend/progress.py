"""Progress of a long piece of work: reported to listeners, and stopped on demand.

One ``Progress`` goes down the road with the work. Every step adds what it knows, such as the model
or the present subgraph. All reports reach the caller's listener and the hook
``subgraphkit_progress``. Without a listener, nothing is reported.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

_BEAT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """A report on how far a piece of work is.

    Two are equal if they say the same of the work; of which model and session, and how long it
    took, does not count.

    Attributes:
        phase: What is being done, such as ``"compiling"``.
        done: How many steps of the phase are done.
        total: How many there are; None if nobody knows.
        message: A few words on the step under way, or empty.
        cancelled: Whether the work is about to stop because it was cancelled.
        subgraph: Id of the subgraph under way, or empty.
        backend: Name of the backend that is at work, or empty.
        model: Name of the model; empty if it is not read yet.
        session: Number of the session in this process, as in other events; 0 before there is one.
        seconds: How long the phase has lasted.
    """

    phase: str
    done: int
    total: int | None = None
    message: str = ""
    cancelled: bool = False
    subgraph: str = ""
    backend: str = ""
    model: str = field(default="", compare=False)
    session: int = field(default=0, compare=False)
    seconds: float = field(default=0.0, compare=False)


class ProgressListener(Protocol):
    """A listener that hears how far a piece of work is."""

    def __call__(self, event: ProgressEvent, /) -> object:
        """Take an event; may be called from any thread, and is not to take long."""


class Progress:
    """Hands reports on a piece of work to a listener, and carries the wish to stop to the work.

    Args:
        listener: Called with every event; None for nobody.
        outer: The progress of a whole that this is a part of. It gets the same reports as this one,
            and a stop of it stops this one. If this one is stopped, the outer one goes on.
        **facts: Attributes that the events have: ``model``, ``session``, ``subgraph``, ``backend``.

    Thread-safety: safe, as far as the listener is.
    """

    def __init__(
        self,
        listener: ProgressListener | None = None,
        outer: "Progress | None" = None,
        **facts: Any,
    ) -> None:
        self._listener = listener
        self._outer = outer
        self._facts = {**(outer.facts if outer is not None else {}), **facts}
        self._began: dict[str, float] = {} if outer is None else outer._began  # noqa: SLF001 (one clock for all)
        self._latest: tuple[ProgressEvent, float] | None = None
        self._error: BaseException | None = None
        self._raised: BaseException | None = None
        self._stops: list[Callable[[], object]] = []

    @property
    def facts(self) -> dict[str, Any]:
        """The attributes that all events have, by name."""
        return dict(self._facts)

    def __call__(self, phase: str, done: int, total: int | None = None, message: str = "") -> None:
        """Report how far the work is.

        Args:
            phase: What is being done.
            done: How many steps of the phase are done.
            total: How many there are; None if nobody knows.
            message: A few words on the step under way.

        Raises:
            BaseException: Whatever the listener raises.
        """
        now = time.monotonic()
        began = self._began[phase] = self._began.get(phase, now) if done else now
        seconds = now - began
        self.tell(ProgressEvent(phase, done, total, message, seconds=seconds, **self._facts))

    def tell(self, event: ProgressEvent) -> None:
        """Report an event that is there already, such as one of another process."""
        if self._error is not None or (self._listener is not None and self.cancelled):
            event = replace(event, cancelled=True)
        self._latest = event, time.monotonic()
        if self._listener is not None:
            try:
                self._listener(event)
            except BaseException as error:
                self._raised = error
                raise
        if self._outer is not None:
            self._outer.tell(event)

    def is_own(self, error: BaseException) -> bool:
        """Say whether an exception is a listener's, or the one that stops the work."""
        if error is self._raised or error is self._error:
            return True
        return self._outer is not None and self._outer.is_own(error)

    @property
    def latest(self) -> ProgressEvent | None:
        """The last event, with the time that has passed; None before the first."""
        if self._latest is None:
            return None
        event, told = self._latest
        seconds = event.seconds + time.monotonic() - told
        return replace(event, seconds=seconds, cancelled=event.cancelled or self.cancelled)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Repeat the last event to the listener here, once a second, while no other event comes.

        A listener that raises stops the work.
        """
        listener, over = self._listener, threading.Event()
        if listener is None:
            yield
            return

        def beat() -> None:
            while not over.wait(_BEAT_SECONDS):
                event, told = self.latest, self._latest
                if event is None or told is None or time.monotonic() - told[1] < _BEAT_SECONDS:
                    continue
                try:
                    listener(event)
                except BaseException as error:  # noqa: BLE001 (raised where the work is)
                    self.cancel(error)
                    return

        thread = threading.Thread(target=beat, name="subgraphkit heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @property
    def cancelled(self) -> bool:
        """Whether the work is to stop as soon as it can."""
        return self._error is not None or (self._outer is not None and self._outer.cancelled)

    def cancel(self, error: BaseException | None = None) -> None:
        """Have the work stopped at its next step.

        Args:
            error: What the work is to raise then, ``KeyboardInterrupt`` unless given; the first
                one stays.
        """
        if self._error is None:
            self._error = KeyboardInterrupt() if error is None else error
            for stop in list(self._stops):
                stop()

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Have something called when the work is cancelled meanwhile, or was before.

        Args:
            stop: Stops a library that is at work; the canceller calls it from any thread.
        """
        with nullcontext() if self._outer is None else self._outer.stopping(stop):
            self._stops.append(stop)
            try:
                if self._error is not None:
                    stop()
                yield
            finally:
                self._stops.remove(stop)

    def check(self) -> None:
        """Stop here if the work was cancelled.

        Raises:
            BaseException: What ``cancel`` was given.
        """
        if self._outer is not None:
            self._outer.check()
        if self._error is not None:
            raise self._error
