"""Thresholds: the magnitude that the largest int8 represents, chosen from a histogram."""

import math
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import CallerError
from subgraphkit.precision.histograms import BINS, Histogram

__all__ = ["LEVELS", "Method", "check_method", "entropy_threshold", "threshold_of"]

Method = Literal["mse", "entropy", "percentile", "minmax"]
"""How a threshold is chosen."""

LEVELS: Final = 128
"""Magnitudes that int8 tells apart."""

_WHOLE: Final = 100.0

_STRIDE: Final = 8
"""Every so many bins ends a candidate of the squared error, which is flat about its least."""

_Floats = npt.NDArray[np.float64]


def check_method(method: str, percentile: float) -> None:
    """Make sure that a method exists.

    Raises:
        CallerError: It does not, or the percentile is none (SGK231).
    """
    if method not in get_args(Method):
        known = ", ".join(map(repr, get_args(Method)))
        raise CallerError("SGK231", f"the method is {method!r}, expected one of {known}")
    if not 0 < percentile <= _WHOLE:
        raise CallerError("SGK231", f"the percentile is {percentile}, expected one of 0 to 100")


def threshold_of(histogram: Histogram, method: str, percentile: float) -> tuple[float, str]:
    """Choose a threshold.

    Args:
        histogram: What was seen.
        method: ``minmax`` takes the largest magnitude. ``percentile`` leaves out the largest ones.
            ``entropy`` weighs what is clipped against steps that are too wide, by what they tell of
            the distribution; ``mse`` weighs them by the squared error.
        percentile: How many percent of the elements are not clipped, for that method.

    Returns:
        The threshold, 0 if nothing but zeros was seen; and the method by which it was found.
        Fewer elements other than 0 than there are levels say nothing of their distribution, so
        ``entropy`` and ``mse`` take the largest then.
    """
    largest = histogram.magnitude
    nonzero = int(histogram.counts.sum())
    if method == "minmax" or not nonzero:
        return largest, "minmax" if nonzero else method
    if method == "percentile":
        return min(_percentile(histogram, percentile), largest), method
    if nonzero < LEVELS:
        return largest, "minmax"
    if method == "mse":
        return min(_least_error(histogram), largest), method
    return min(entropy_threshold(histogram.counts, histogram.limit), largest), method


def _least_error(histogram: Histogram) -> float:
    """Return the threshold at which int8 is off by least, squared and added up."""
    candidates = np.arange(LEVELS, BINS + 1, _STRIDE) * histogram.width
    return float(candidates[int(np.argmin(histogram.errors(candidates) @ histogram.counts))])


def _percentile(histogram: Histogram, percentile: float) -> float:
    """Return the upper edge of the bin in which the percentile lies; zeros count as elements."""
    wanted = math.ceil(histogram.samples * percentile / 100) - histogram.zeros
    if wanted <= 0:  # nearly all is 0: the rest is what there is to represent
        wanted = math.ceil(int(histogram.counts.sum()) * percentile / 100)
    place = int(np.searchsorted(np.cumsum(histogram.counts), wanted))
    return (place + 1) * histogram.width


def entropy_threshold(counts: npt.NDArray[Any], limit: float) -> float:
    """Return the threshold at which int8 distorts a distribution least.

    For every candidate, the bins below it are the distribution P, what lies above being added to
    its last bin; Q is what 128 levels make of them without that, each level spread evenly over its
    bins that are not empty. The candidate with the least divergence KL(P || Q) is taken. All
    candidates are computed at once, from running sums.

    Args:
        counts: Elements per bin, of equal width, beginning at 0.
        limit: The upper edge of the last bin.

    Source: Migacz, "8-bit Inference with TensorRT", GPU Technology Conference 2017.
    """
    kept = np.asarray(counts, np.float64)
    bins = len(kept)
    ends = np.arange(LEVELS, bins + 1)
    below = np.concatenate([[0.0], np.cumsum(kept)])
    filled = np.concatenate([[0], np.cumsum(kept > 0)])
    total = below[-1]
    last = kept[ends - 1]
    moved = last + (total - below[ends])
    edges = _edges(ends)
    sums = np.diff(below[edges], axis=1)
    sizes = np.diff(filled[edges], axis=1).astype(np.float64)
    # the last bin is one of P's even where only what was clipped is in it
    sizes[:, -1] += (last == 0) & (moved > 0)
    own = np.concatenate([[0.0], np.cumsum(_xlogx(kept))])
    entropy = own[ends] - _xlogx(last) + _xlogx(moved)
    mass = sums.copy()
    mass[:, -1] += moved - last
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(mass > 0, np.log(sums / sizes), 0.0)
        cross = np.where(mass > 0, mass * logs, 0.0).sum(axis=1)
        divergence = (entropy - cross) / total - math.log(total) + np.log(below[ends])
    divergence[~np.isfinite(divergence)] = np.inf
    return float(ends[int(np.argmin(divergence))]) * limit / bins


def _edges(ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return, per candidate, where its levels begin and end; the last one takes what is left."""
    edges = (ends // LEVELS)[:, None] * np.arange(LEVELS + 1)
    edges[:, -1] = ends
    return edges


def _xlogx(values: Any) -> _Floats:
    array = np.asarray(values, np.float64)
    return np.where(array > 0, array * np.log(np.where(array > 0, array, 1.0)), 0.0)
