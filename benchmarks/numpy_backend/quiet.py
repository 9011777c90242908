"""Measuring on a machine that others use too: what other processes take, and waiting for quiet.

Runtimes do not suffer alike from a busy machine. The threads of OpenBLAS wait for each other after
every product, so one foreign process on one of two CPUs can make NumPy ten times slower and others
twice: ratios taken meanwhile mean nothing.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from measuring import THREADS

__all__ = ["Quiet", "threads"]

ALLOWED: Final = 0.1
"""CPUs that other processes may keep busy, beside those that the measured threads leave over."""

_STATISTICS: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)
_GUEST: Final = 8  # guests are counted as user time already

Measured = TypeVar("Measured")


def threads() -> int:
    """Return the threads every runtime gets: ``OPENBLAS_NUM_THREADS``, or two.

    With one, a machine of two CPUs may be used by others and still tell something.
    """
    return int(os.environ.get("OPENBLAS_NUM_THREADS", THREADS))


class Quiet:
    """Repeats a measurement until other processes left the machine alone during it.

    Where the system does not tell (not Linux), the first measurement counts.

    Args:
        patience: Seconds spent on repetitions, in all; then the first measurement counts.

    Attributes:
        disturbed: Measurements that counted although the machine was busy.
    """

    def __init__(self, patience: float) -> None:
        self.disturbed = 0
        self._left = patience
        self._allowed = ALLOWED + max(0, (os.cpu_count() or 1) - threads())

    def measure(self, call: Callable[[], Measured]) -> Measured:
        """Return what a call returns that nobody disturbed."""
        while True:
            started, busy = time.perf_counter(), _foreign_seconds()
            result = call()
            taken = time.perf_counter() - started
            # The system counts in hundredths of a second.
            allowed = self._allowed * taken + 1 / os.sysconf("SC_CLK_TCK")
            if _foreign_seconds() - busy <= allowed:
                return result
            self._left -= taken
            if self._left <= 0:
                self.disturbed += 1
                return result


def _foreign_seconds() -> float:
    """Return the CPU time that everybody but this process took so far; 0 if it is not known."""
    if not _STATISTICS.exists():
        return 0.0
    with _STATISTICS.open() as file:
        ticks = [int(field) for field in file.readline().split()[1:]]
    busy = sum(count for at, count in enumerate(ticks[:_GUEST]) if at not in _IDLE)
    return busy / os.sysconf("SC_CLK_TCK") - time.process_time()
