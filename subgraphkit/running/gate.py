"""A gate between many runs and the rare change that must have the session to itself."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

__all__ = ["Gate"]


class Gate:
    """Lets any number of runs through at once, or one change and no run.

    ``with gate:`` is a run; ``with gate.alone():`` a change, which keeps new runs out from the
    moment it waits, so that a busy session cannot put it off for ever. A run costs two uncontended
    lock operations.

    Thread-safety: safe. Not reentrant: a change inside a run would wait for itself.
    """

    __slots__ = ("_inside", "_last_left", "_turn", "_users")

    def __init__(self) -> None:
        # Held by a change from its first wait to its end; a run only passes through it.
        self._turn = threading.Lock()
        self._users = threading.Lock()
        self._last_left = threading.Condition(self._users)
        self._inside: list[int] = []  # identities of threads

    def __enter__(self) -> None:
        with self._turn, self._users:
            self._inside.append(threading.get_ident())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._users:
            me = threading.get_ident()
            if me in self._inside:
                self._inside.remove(me)
            if not self._inside:
                self._last_left.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep new runs out, wait for those inside, and have the session to oneself."""
        with self._turn:
            with self._users:
                # An interruption may have hit this thread on its way in or out of a run.
                me = threading.get_ident()
                self._inside = [thread for thread in self._inside if thread != me]
                self._last_left.wait_for(lambda: not self._inside)
            yield
