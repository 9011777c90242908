"""Medians with the interval that holds the true one, of times and of ratios of turns."""

import math
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

_CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """A median, and the interval that holds the true one with a confidence of 95 %.

    Fewer than 6 values have none; then it is from the smallest to the largest.
    """

    median: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """Return the median of values and its interval, by order statistics."""
    ranked, count = sorted(values), len(values)
    below, tail = 0, 0.5**count  # the chance that fewer than ``below + 1`` are below the median
    while 2 * tail < 1 - _CONFIDENCE and below < count // 2:
        below += 1
        tail += math.comb(count, below) * 0.5**count
    at = max(below - 1, 0)
    return Interval(statistics.median(ranked), ranked[at], ranked[-1 - at])


def ratio(turns: Sequence[float], others: Sequence[float]) -> Interval:
    """Return what turns took by what others took, round by round."""
    return interval([one / other for one, other in zip(turns, others, strict=False)])
