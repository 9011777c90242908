"""Turns of runs on threads of a session: callers one after the other, and short runs past long."""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, Final

_LONG_SECONDS: Final = 0.05
_LONG_FACTOR: Final = 4
_MOST_LONG: Final = 16
_MEMORY: Final = 1 / 16
"""What the latest run weighs in the mean of their times."""


class Turns:
    """Threads for so many runs at once, and for some that take long besides.

    A run is long after 50 ms, and four times the mean of those that returned results. It goes on,
    and another begins, but for a caller who has a long one: None has none. Of the runs that wait,
    each caller's first comes before anybody's second.

    Thread-safety: safe.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._pool = ThreadPoolExecutor(places + _MOST_LONG, "subgraphkit arun")
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Future[Any], Callable[[], Any], Hashable]] = []
        self._numbers = count()
        self._begun: dict[Future[Any], tuple[float, Hashable]] = {}
        self._round, self._rounds = 0, dict[Hashable, int]()
        self._mean_s = 0.0
        self._watched = False

    def submit(self, work: Callable[..., Any], *given: Any, caller: Hashable = None) -> Future[Any]:
        """Have something called when it is its turn."""
        future: Future[Any] = Future()
        with self._changed:
            turn = self._rounds[caller] = max(self._round, self._rounds.get(caller, 0)) + 1
            one = (turn, next(self._numbers), future, lambda: work(*given), caller)
            self._waiting.append(one)
            if self._watched and len(self._begun) < self._places:
                self._changed.notify()
            wanted = not self._watched
        try:
            if wanted:
                self._pool.submit(self._work)
        except RuntimeError:
            future.cancel()
            raise
        return future

    def shutdown(self, *, wait: bool) -> None:
        """Take nothing more; what came before is answered."""
        self._pool.shutdown(wait=wait)

    def _work(self) -> None:
        """Do what waits, one after the other: another thread would have to wake up for each."""
        while (taken := self._take_next()) is not None:
            future, work = taken
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 (raised where somebody waits)
                self._end(future)
                future.set_exception(error)
            else:
                self._end(future, returned=True)
                future.set_result(result)

    def _end(self, future: Future[Any], *, returned: bool = False) -> None:
        with self._changed:
            started, _ = self._begun.pop(future)
            if returned:
                self._mean_s += (time.monotonic() - started - self._mean_s) * _MEMORY

    def _take_next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Begin what is next; None if nothing waits, or somebody else watches it.

        Where all places are taken, one thread watches whether what runs there becomes long.
        """
        with self._changed:
            while self._waiting:
                place = self._next()
                if place is None:
                    if self._watched:
                        return None
                    self._watched = True
                    self._changed.wait(_LONG_SECONDS)
                    self._watched = False
                    continue
                self._round, _, future, work, caller = self._waiting.pop(place)
                if not self._waiting:
                    self._rounds.clear()
                if future.set_running_or_notify_cancel():
                    self._begun[future] = time.monotonic(), caller
                    if self._waiting and not self._watched:
                        with suppress(RuntimeError):  # shut down: who works does what is left
                            self._pool.submit(self._work)
                    return future, work
        return None

    def _next(self) -> int | None:
        """Return which of those that wait begins now."""
        since = time.monotonic() - max(_LONG_SECONDS, _LONG_FACTOR * self._mean_s)
        long = [caller for started, caller in self._begun.values() if started < since]
        if len(self._begun) - len(long) >= self._places:
            return None
        held = {one for one in long if one is not None} if len(self._begun) >= self._places else ()
        ready = [at for at, one in enumerate(self._waiting) if one[4] not in held]
        return min(ready, key=self._waiting.__getitem__, default=None)
