"""Progress of a long piece of work: reported to a listener, and stopped on demand.

Nobody is told anything unless the caller passes a ``Progress`` with a listener; the command line
passes one that writes to standard error.
"""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Progress", "ProgressEvent", "ProgressListener"]


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """A report on how far a piece of work is.

    Attributes:
        phase: What is being done, such as ``"compiling"``.
        done: How many steps of the phase are done.
        total: How many there are; None if nobody knows.
        message: A few words on the step under way, or empty.
        cancelled: Whether the work is about to stop because it was cancelled.
    """

    phase: str
    done: int
    total: int | None = None
    message: str = ""
    cancelled: bool = False


class ProgressListener(Protocol):
    """A listener that hears how far a piece of work is."""

    def __call__(self, event: ProgressEvent, /) -> object:
        """Take an event; may be called from any thread, and is not to take long."""


class Progress:
    """Hands reports on a piece of work to a listener, and carries the wish to stop to the work.

    Args:
        listener: Called with every event; None for nobody.

    Thread-safety: safe, as far as the listener is.
    """

    def __init__(self, listener: ProgressListener | None = None) -> None:
        self._listener = listener
        self._error: BaseException | None = None

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
        if self._listener is not None:
            self._listener(ProgressEvent(phase, done, total, message, self.cancelled))

    @property
    def cancelled(self) -> bool:
        """Whether the work is to stop as soon as it can."""
        return self._error is not None

    def cancel(self, error: BaseException | None = None) -> None:
        """Have the work stopped at its next step.

        Args:
            error: What the work is to raise then, ``KeyboardInterrupt`` unless given; the first
                one stays.
        """
        if self._error is None:
            self._error = KeyboardInterrupt() if error is None else error

    def check(self) -> None:
        """Stop here if the work was cancelled.

        Raises:
            BaseException: What ``cancel`` was given.
        """
        if self._error is not None:
            raise self._error
