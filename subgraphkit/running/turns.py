"""Turns of runs on threads of a session: callers one after the other, and short runs past long."""

import threading
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, Final

from subgraphkit.running.messages import run_closed

_LONG_SECONDS: Final = 0.02
_LONG_FACTOR: Final = 4
_MOST_LONG: Final = 16
_MOST_OF_ONE: Final = 12
"""How many of them a caller may have: where all come from one address, they are one caller."""
_MEMORY: Final = 1 / 16
"""The weight of the latest run in the mean of their times."""
_QUICK_SECONDS: Final = 0.0002
"""Quicker runs stay on one thread, as waking another would take as long."""
_MOST: Final = 0.5
_LOOK_SECONDS: Final = 0.001
_HELD_SECONDS: Final = 0.0005
"""How long the answer of a quick run waits for others: waking a loop takes as long as a run."""

Turn = tuple[int, int, Callable[[], Any], Any, Hashable]
"""Which round, and which number in all; the work, the future of a loop, and the caller."""
_Outcome = tuple[Any, Any, BaseException | None]


class Turns:
    """Threads for so many runs at once, and for some that take long besides.

    A run is long after 20 ms, and four times the mean of those that returned results. It goes on,
    and another begins. A caller without a long run comes first, and one with 12 begins no more;
    None counts as one without. Of the runs that wait, each caller's first comes before anybody's
    second. If runs are quick, one thread does one after the other, and a second thread watches. It
    begins another run as soon as one is no longer quick.

    Thread-safety: safe.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._pool = ThreadPoolExecutor(places + _MOST_LONG, "subgraphkit arun")
        self._lock = threading.Lock()
        # Not a queue: ``SimpleQueue.get`` of Python 3.11 may wait for ever in spite of a timeout.
        self._call_came = threading.Condition(self._lock)
        self._called = self._coming = self._idle = 0  # calls; threads on their way, and waiting
        self._ended = False
        self._waiting: list[Turn] = []
        self._numbers = count()
        self._begun: dict[int, tuple[float, Hashable]] = {}
        self._round, self._rounds = 0, dict[Hashable, int]()
        self._mean_s, self._quick = 0.0, 1.0  # of the latest: their time, and how many were quick
        self._held: list[_Outcome] = []
        self._held_since = 0.0

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def submit(self, work: Callable[[], Any], answer: Any, caller: Hashable = None) -> Turn:
        """Have something called when it is its turn; its outcome is that of a future of a loop."""
        with self._lock:
            if self._ended:
                run_closed()
            place = self._rounds[caller] = max(self._round, self._rounds.get(caller, 0)) + 1
            turn = (place, next(self._numbers), work, answer, caller)
            insort(self._waiting, turn)
            try:
                self._call()
            except RuntimeError:  # there are too many threads
                if not (self._begun or self._coming or self._idle):
                    self._waiting.remove(turn)
                    raise
        return turn

    def withdraw(self, turn: Turn) -> bool:
        """Give up a turn; False if it has begun."""
        with self._lock, suppress(ValueError):
            self._waiting.remove(turn)
            return True
        return False

    def shutdown(self, *, wait: bool) -> None:
        """Take nothing more; earlier calls are answered."""
        with self._lock:
            self._ended = True
            self._called = self._idle
            self._call_came.notify_all()
        self._pool.shutdown(wait=wait)

    def _call(self) -> None:
        """Call a thread if one may begin a waiting turn, or nobody would look whether it may."""
        coming = self._called + self._coming
        expected, room = len(self._begun) + coming, self._room(time.monotonic())
        if len(self._waiting) > coming and (expected < room or not (coming or self._idle)):
            if self._idle > self._called:
                self._called += 1
                self._call_came.notify()
            else:
                self._pool.submit(self._work)
                self._coming += 1

    def _work(self) -> None:
        """Do waiting turns one after the other: another thread would have to wake up for each."""
        while (turn := self._begin()) is not None:
            while turn is not None:
                turn = self._do(turn)

    def _begin(self) -> Turn | None:
        """Begin the next turn; or wait for a call, and look now and then whether one may begin."""
        with self._lock:
            self._coming = max(self._coming - 1, 0)  # a failed thread may still come
            turn = self._take_next()
            stays = turn is None
            self._idle += stays
        while stays:
            oldest = next(iter(self._begun.copy()), None)
            with self._lock:
                if not self._called:
                    self._call_came.wait(_LOOK_SECONDS * (1 if self._quick > _MOST else 10))
                held, self._held = self._held, []
                self._idle -= 1
                self._called = min(self._called, self._idle)
                turn = self._take_next()
                is_still = self._ended or oldest == next(iter(self._begun), None)
                stays = turn is None and bool(self._waiting or not is_still)
                self._idle += stays
            _tell(held)
        return turn

    def _do(self, turn: Turn) -> Turn | None:
        """Do the turn, and return the next; None if this thread is to look again."""
        _, number, work, answer, _ = turn
        result = error = None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 (raised where somebody waits)
            error = raised
        with self._lock:
            now, (started, _) = time.monotonic(), self._begun.pop(number)
            if error is None:
                self._mean_s += (now - started - self._mean_s) * _MEMORY
                self._quick += ((now - started < _QUICK_SECONDS) - self._quick) * _MEMORY
            after = self._take_next()
            self._coming += after is None  # nobody needs to be called while this one tells
            if not self._held:
                self._held_since = now
            self._held.append((answer, result, error))
            is_late = now - self._held_since > _HELD_SECONDS
            told: list[_Outcome] = []
            if after is None or is_late or not self._idle or self._quick < _MOST:
                told, self._held = self._held, told
        _tell(told)
        return after

    def _take_next(self) -> Turn | None:
        """Begin the next turn that may begin, and call a thread for the one after it."""
        if not self._waiting:
            return None
        now, under_way, place = time.monotonic(), len(self._begun), 0
        if under_way >= self._places:
            since = now - max(_LONG_SECONDS, _LONG_FACTOR * self._mean_s)
            long = [caller for started, caller in self._begun.values() if started < since]
            if under_way - len(long) >= self._places:
                return None
            has, waiting = Counter(one for one in long if one is not None), self._waiting
            few = (at for at, (*_, it) in enumerate(waiting) if has[it] < _MOST_OF_ONE)
            none = (at for at, (*_, it) in enumerate(waiting) if not has[it])
            place = next(none, next(few, -1))
        elif under_way and under_way >= self._room(now):
            place = -1
        if place < 0:
            return None
        turn = self._waiting.pop(place)
        self._round, number, _, _, caller = turn
        self._begun[number] = now, caller
        if not self._waiting:
            self._rounds.clear()
        else:
            with suppress(RuntimeError):  # shut down: working threads do the rest
                self._call()
        return turn

    def _room(self, now: float) -> int:
        """Return how many may be under way: one while runs are quick."""
        started, _ = next(iter(self._begun.values()), (now, None))
        is_quick = self._quick > _MOST and now - started < _LOOK_SECONDS
        return 1 if is_quick else self._places


def _tell(outcomes: Sequence[_Outcome]) -> None:
    """Wake each loop once for all that came to an end."""
    for loop in {answer.get_loop() for answer, *_ in outcomes}:
        with suppress(RuntimeError):  # it is closed
            loop.call_soon_threadsafe(_deliver, loop, outcomes)


def _deliver(loop: object, outcomes: Sequence[_Outcome]) -> None:
    for answer, result, error in outcomes:
        if answer.get_loop() is loop and not answer.done():
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)
