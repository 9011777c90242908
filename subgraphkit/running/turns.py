"""Turns of runs on threads of a session: callers one after the other, and short runs past long."""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from heapq import heappop, heappush
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
    and another begins. Of the runs that wait, each caller's first comes before anybody's second.

    Thread-safety: safe.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._pool = ThreadPoolExecutor(places + _MOST_LONG, "subgraphkit arun")
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._numbers = count()
        self._begun: dict[Future[Any], float] = {}
        self._round, self._rounds = 0, dict[Hashable, int]()
        self._mean_s = 0.0

    def submit(self, work: Callable[..., Any], *given: Any, caller: Hashable = None) -> Future[Any]:
        """Have something called when it is its turn."""
        future: Future[Any] = Future()
        with self._changed:
            turn = self._rounds[caller] = max(self._round, self._rounds.get(caller, 0)) + 1
            heappush(self._waiting, (turn, next(self._numbers), future, lambda: work(*given)))
        try:
            self._pool.submit(self._take)
        except RuntimeError:
            future.cancel()
            raise
        return future

    def shutdown(self, *, wait: bool) -> None:
        """Take nothing more; what came before is answered."""
        self._pool.shutdown(wait=wait)

    def _take(self) -> None:
        with self._changed:
            while (seconds := self._seconds_to_place()) > 0:
                self._changed.wait(seconds)
            self._round, _, future, work = heappop(self._waiting)
            if not self._waiting:
                self._rounds.clear()
            if not future.set_running_or_notify_cancel():
                return
            started = self._begun[future] = time.monotonic()
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 (raised where somebody waits)
            future.set_exception(error)
        else:
            self._mean_s += (time.monotonic() - started - self._mean_s) * _MEMORY
            future.set_result(result)
        finally:
            with self._changed:
                del self._begun[future]
                self._changed.notify()

    def _seconds_to_place(self) -> float:
        now, limit = time.monotonic(), max(_LONG_SECONDS, _LONG_FACTOR * self._mean_s)
        short = [left for one in self._begun.values() if (left := one + limit - now) > 0]
        return min(short) if len(short) >= self._places else 0.0
