"""A tally of the runs of one session: how many, how long, and at whose fault they failed."""

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, get_args

from subgraphkit.errors import Fault, SubgraphkitError

__all__ = ["BUCKETS", "RunStats", "Tally"]

BUCKETS: Final = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Seconds, from a run of a small network to one of a large one."""

_FAULTS: Final = get_args(Fault)


@dataclass(frozen=True, slots=True)
class RunStats:
    """What a session has done since somebody first asked.

    Attributes:
        since: When counting began, in seconds since the epoch.
        runs: How many runs returned results, warm-ups and pings included.
        in_flight: How many threads are inside of a run now.
        errors: How many failed, by their ``fault``: ``"caller"``, ``"model"``, ``"backend"`` or
            ``"machine"``; an interruption by Ctrl-C is nobody's.
        seconds: How long the runs that returned results took, all together.
        histogram: How many of them took up to so many seconds, and longer than the number before;
            the last number is infinite.
    """

    since: float
    runs: int
    in_flight: int
    errors: Mapping[str, int]
    seconds: float
    histogram: Mapping[float, int]


class Tally:
    """Counts runs.

    Attributes:
        since: When it began, in seconds since the epoch.
        last: When the last run returned results, on the clock of ``time.monotonic``.

    Thread-safety: safe.
    """

    def __init__(self) -> None:
        self.since = time.time()
        self.last = -math.inf
        self._counts = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._errors = dict.fromkeys(_FAULTS, 0)
        self.leave_parent()

    def leave_parent(self) -> None:
        """Go on in a forked child, where a thread that is not there may hold the lock."""
        self._lock = threading.Lock()

    def counting(self, execute: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        """Return the code of a plan such that every call that returns is counted."""

        def execute_counted(*arguments: Any) -> list[Any]:
            started = time.perf_counter()
            results = execute(*arguments)
            seconds = time.perf_counter() - started
            with self._lock:
                self._counts[bisect_left(BUCKETS, seconds)] += 1
                self._seconds += seconds
                self.last = time.monotonic()
            return results

        return execute_counted

    def add_failure(self, error: Exception) -> None:
        """Count a run that failed."""
        with self._lock:
            # what has no code is a warning that a filter has raised
            self._errors[error.fault if isinstance(error, SubgraphkitError) else "caller"] += 1

    def stats(self, in_flight: int) -> RunStats:
        """Return what was counted.

        Args:
            in_flight: How many runs are under way.
        """
        with self._lock:
            counts, errors = list(self._counts), dict(self._errors)
            seconds = self._seconds
        return RunStats(
            since=self.since,
            runs=sum(counts),
            in_flight=in_flight,
            errors=MappingProxyType(errors),
            seconds=seconds,
            histogram=MappingProxyType(dict(zip((*BUCKETS, math.inf), counts, strict=True))),
        )
