"""Ranges of a model's values: histograms over the user's batches, and thresholds from them."""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.progress import Progress
from subgraphkit.binding import bind
from subgraphkit.errors import CallerError, SubgraphkitWarning
from subgraphkit.ir import BoundGraph
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.rewriting import Range, Ranges, content_hash
from subgraphkit.rewriting.records import check_word
from subgraphkit.running import Session
from subgraphkit.running.tapping import tap_groups, tapped_session
from subgraphkit.types import DataType

BINS: Final = 2048

STEPS: Final = 127
"""The largest int8 that stands for a threshold."""

_CHUNK: Final = 1 << 20  # elements whose copies are in memory at once


@dataclass(eq=False)
class Histogram:
    """Magnitudes of the elements of one value.

    The first elements fix the width of the bins. When larger ones come, neighbouring bins are
    joined until the largest fits. No element is ever counted in a wrong bin. Zeros are counted
    apart, because any scale represents them exactly.

    Attributes:
        counts: Elements per bin, zeros left out.
        limit: The upper edge of the last bin; 0 until an element other than 0 was seen.
        zeros: How many elements were 0.
        lowest: The smallest element; infinity if there was none.
        highest: The largest element; minus infinity if there was none.
    """

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    limit: float = 0.0
    zeros: int = 0
    lowest: float = np.inf
    highest: float = -np.inf

    @property
    def samples(self) -> int:
        """How many elements were seen."""
        return int(self.counts.sum()) + self.zeros

    @property
    def magnitude(self) -> float:
        """The largest magnitude seen; 0 if there was none."""
        return max(abs(self.lowest), abs(self.highest)) if self.samples else 0.0

    @property
    def width(self) -> float:
        """The width of a bin."""
        return self.limit / BINS

    def snr_db(self, threshold: float) -> float:
        """Return the power of the elements by that of the error of int8 with a threshold, in dB.

        Within a bin elements count as spread evenly.
        """
        power = float(self.counts @ self._middles() ** 2)
        error = float(self.counts @ self.errors(np.array([threshold]))[0]) if power else 0.0
        return 10 * math.log10(power / error) if error else math.inf

    def errors(self, thresholds: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the squared error that int8 makes of an element, per threshold and bin."""
        step = thresholds[:, None] / STEPS
        middles = self._middles()
        held = np.minimum(np.rint(middles / step), STEPS) * step
        errors: npt.NDArray[Any] = (middles - held) ** 2 + self.width**2 / 12
        return errors

    def _middles(self) -> npt.NDArray[Any]:
        return (np.arange(BINS) + 0.5) * self.width

    def add(self, array: npt.NDArray[Any]) -> None:
        """Count elements, all of them finite."""
        if not array.size:
            return
        self.lowest = min(self.lowest, float(array.min()))
        self.highest = max(self.highest, float(array.max()))
        self._reach(max(abs(self.lowest), abs(self.highest)))
        flat = array.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            self._count(np.abs(flat[start : start + _CHUNK].astype(np.float64)))

    def _count(self, sizes: npt.NDArray[np.float64]) -> None:
        nonzero = sizes[sizes > 0]
        self.zeros += sizes.size - nonzero.size
        if nonzero.size:
            places = np.minimum((nonzero * (BINS / self.limit)).astype(np.int64), BINS - 1)
            self.counts += np.bincount(places, minlength=BINS)

    def _reach(self, largest: float) -> None:
        """Widen the bins until the largest magnitude lies within."""
        if not self.limit:
            self.limit = largest
        while self.limit < largest:
            self.counts[: BINS // 2] = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts[BINS // 2 :] = 0
            self.limit *= 2


Method = Literal["mse", "percentile", "minmax"]
"""How a threshold is chosen."""

LEVELS: Final = 128
"""Magnitudes that int8 tells apart."""

_WHOLE: Final = 100.0

# Every so many bins ends a candidate of the squared error, which is flat about its least.
_STRIDE: Final = 8


def check_method(method: str, percentile: float) -> None:
    """Refuse an unknown method or percentile (CallerError, SGK231)."""
    check_word("the method", method, get_args(Method))
    if not 0 < percentile <= _WHOLE:
        raise CallerError("SGK231", f"the percentile is {percentile}, expected one of 0 to 100")


def threshold_of(histogram: Histogram, method: str, percentile: float) -> tuple[float, str]:
    """Choose a threshold.

    Args:
        histogram: The elements so far.
        method: ``minmax`` takes the largest magnitude. ``percentile`` leaves out the largest ones.
            ``mse`` weighs clipping against wide steps, by the squared error.
        percentile: The percentage of elements that are not clipped, for that method.

    Returns:
        The threshold, 0 if nothing but zeros was seen; and the method by which it was found.
        Fewer elements other than 0 than there are levels say nothing of their distribution, so
        ``mse`` takes the largest then.
    """
    largest = histogram.magnitude
    nonzero = int(histogram.counts.sum())
    if method == "minmax" or not nonzero:
        return largest, "minmax" if nonzero else method
    if method == "percentile":
        return min(_percentile(histogram, percentile), largest), method
    if nonzero < LEVELS:
        return largest, "minmax"
    return min(_least_error(histogram), largest), method


def _least_error(histogram: Histogram) -> float:
    """Return the threshold at which int8 is off by least, squared and added up."""
    candidates = np.arange(LEVELS, BINS + 1, _STRIDE) * histogram.width
    return float(candidates[int(np.argmin(histogram.errors(candidates) @ histogram.counts))])


def _percentile(histogram: Histogram, percentile: float) -> float:
    """Return the upper edge of the bin in which the percentile lies; zeros count as elements."""
    wanted = math.ceil(histogram.samples * percentile / 100) - histogram.zeros
    if wanted <= 0:  # nearly all is 0: the scale is for the rest
        wanted = math.ceil(int(histogram.counts.sum()) * percentile / 100)
    place = int(np.searchsorted(np.cumsum(histogram.counts), wanted))
    return (place + 1) * histogram.width


_Array = npt.NDArray[Any]


def calibrate(  # noqa: PLR0913 (the model, the batches and the method)
    source: ModelSource | Model,
    batches: Iterable[Mapping[str, Any]],
    *,
    backend: Any = "numpy",
    values: Sequence[str] | None = None,
    method: Method = "mse",
    percentile: float = 99.99,
    progress: Progress | None = None,
    **settings: Any,
) -> Ranges:
    """Run a model over batches and find out how large its values get.

    The model is run as it is, not quantized. One batch is in memory at a time, with as many inner
    values as fit into 1 GiB. A model with more is run several times per batch. The same batches in
    the same order make the same ranges.

    Args:
        source: The model, as for ``InferenceSession``.
        batches: Arrays by input name; a generator will do.
        backend: What runs the model, as for ``SUBGRAPH_BACKEND``.
        values: The values looked at; every float32 value that is not constant if not given.
        method: How thresholds are chosen: ``mse``, ``percentile`` or ``minmax``.
        percentile: The percentage of elements that are not clipped, for that method.
        progress: Told after every batch; stops the work.
        **settings: What else ``bind`` takes, such as ``options`` and ``shapes``.

    Returns:
        The ranges. A value that was infinite somewhere, such as a mask, has none, and a warning
        says so.

    Raises:
        CallerError: There is no batch, one holds NaN or infinity or leads to NaN (SGK234), or a
            value or method does not exist (SGK231).
        SubgraphkitError: Whatever a step of the road raises.
    """
    check_method(method, percentile)
    bound = bind(source, backend=backend, **settings)
    progress = bound.extensions.hearing(progress)
    names = _value_names(bound, values)
    seen = {name: Histogram() for name in names}
    unbounded: set[str] = set()
    total = len(batches) if isinstance(batches, Sized) else None
    with ExitStack() as stack:
        inner = [name for name in names if name in bound.producers]
        groups = tap_groups(bound, inner, lambda name: (name,))
        sessions = [stack.enter_context(tapped_session(bound, one)) for one in groups]
        done = 0
        for done, feeds in enumerate(batches, 1):
            for name, array in _values(sessions, names, feeds, done):
                _count(seen[name], name, array, done, unbounded)
            progress("calibrating", done, total)
            progress.check()
    if not done:
        raise CallerError("SGK234", "there is no batch to calibrate with; give one")
    if unbounded:
        text = f"{len(unbounded)} values were infinite and have no range: {sorted(unbounded)[:5]}"
        warnings.warn(SubgraphkitWarning(text), stacklevel=2)
    found = {
        name: _range(one, method, percentile)
        for name, one in seen.items()
        if name not in unbounded and one.samples
    }
    return Ranges(found, content_hash(bound.model))


def _value_names(bound: BoundGraph, values: Sequence[str] | None) -> list[str]:
    fed = (*bound.inputs, *bound.defaults)
    made = (v for i in bound.order for v in bound.table.outputs[i] if v not in bound.constants)
    known = [name for name in dict.fromkeys((*fed, *made)) if bound.dtype(name) is DataType.FLOAT]
    if values is None:
        return known
    for name in values:
        if name not in known:
            missing = f"there is no float32 value {name!r} that is not constant in the model"
            raise CallerError("SGK231", missing)
    return list(dict.fromkeys(values))


def _values(
    sessions: Sequence[Session], names: Sequence[str], feeds: Mapping[str, Any], number: int
) -> Iterator[tuple[str, _Array]]:
    """Return the values of one batch; those of a session go before those of the next come."""
    for name, given in feeds.items():
        array = np.asarray(given)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            problem = f"batch {number} holds NaN or infinity in input {name!r}"
            hint = "Calibrate with inputs as they come in practice."
            raise CallerError("SGK234", problem, hint=hint)
        if name in names:
            yield name, array
    for session in sessions:
        results = session.run(None, feeds)
        yield from zip(session.graph.outputs, results, strict=True)
        del results


def _count(seen: Histogram, name: str, array: _Array, number: int, unbounded: set[str]) -> None:
    if np.isnan(array).any():
        hint = "The model itself fails on this batch; leave it out or mend the model."
        raise CallerError("SGK234", f"batch {number} leads to NaN in value {name!r}", hint=hint)
    if np.isinf(array).any():
        unbounded.add(name)
    else:
        seen.add(array)


def _range(seen: Histogram, method: Method, percentile: float) -> Range:
    threshold, found_by = threshold_of(seen, method, percentile)
    ratio = seen.snr_db(threshold) if threshold else math.inf
    known = ratio if math.isfinite(ratio) else None
    return Range(threshold, found_by, seen.samples, seen.lowest, seen.highest, known)
