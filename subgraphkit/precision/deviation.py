"""Deviation of one value from the same value of the original model, added up over batches."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.tolerances import ToleranceOf, tolerance_for
from subgraphkit.types import DataType


@dataclass(frozen=True, slots=True)
class ValueAccuracy:
    """The distance of one value from the same value of the original model.

    Attributes:
        name: Name of the value.
        elements: How many elements were compared.
        max_abs: Largest absolute error; infinity if something is NaN or infinite on one side only,
            or the shapes of one batch differ.
        mean_abs: Mean absolute error; infinity if the largest is.
        snr_db: Ratio of the power of the value to that of the error, in dB. It is infinity without
            an error, and minus infinity if the largest error is infinite.
        cosine: Cosine of the angle between the two as vectors; NaN if one of them is all zeros, or
            the largest error is infinite.
        largest: Largest finite magnitude in the original.
        not_finite: How many elements are finite in the original, and NaN or infinite here.
        noise: Power of the error as a part of that of the value, of what is finite on both sides.
        wrong: How many elements ``verify`` would call wrong, by the tolerance of their type.
    """

    name: str
    elements: int
    max_abs: float
    mean_abs: float
    snr_db: float
    cosine: float
    largest: float
    not_finite: int = 0
    noise: float = 0.0
    wrong: int = 0


@dataclass(eq=False)
class Sums:
    """Sums over batches, of the elements that are finite on both sides."""

    elements: int = 0
    max_abs: float = 0.0
    largest: float = 0.0
    not_finite: int = 0
    wrong: int = 0
    tolerance: ToleranceOf = tolerance_for
    sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(5))

    def add(self, expected: npt.NDArray[Any], got: npt.NDArray[Any]) -> None:
        """Add the elements of one batch."""
        if expected.shape != got.shape:  # what was found decides how many there are
            self.max_abs = math.inf
            self.elements += expected.size
            self.wrong += expected.size
            return
        right, found = (np.asarray(one).reshape(-1).astype(np.float64) for one in (expected, got))
        known = np.isfinite(right)
        both = known & np.isfinite(found)
        same = both | (right == found) | (np.isnan(right) & np.isnan(found))
        if not same.all():
            self.max_abs = math.inf
        self.not_finite += int(np.count_nonzero(known & ~both))
        self.wrong += int(np.count_nonzero(~same))
        self.largest = max(self.largest, float(np.abs(right).max(where=known, initial=0.0)))
        right, found = right[both], found[both]
        self.elements += int(same.size)
        if not right.size:
            return
        error, sizes = np.abs(right - found), np.abs(right)
        self.max_abs = max(self.max_abs, float(error.max()))
        allowed = self.tolerance(DataType.of(got.dtype))
        self.wrong += int(np.count_nonzero(error > allowed.limit(sizes, float(sizes.max()))))
        self.sums += (
            error.sum(),
            np.dot(error, error),
            np.dot(right, right),
            np.dot(found, found),
            np.dot(right, found),
        )

    def result(self, name: str) -> ValueAccuracy:
        """Return what comes out of all that was added."""
        total, squares, right, found, product = map(float, self.sums)
        lengths = math.sqrt(right * found)
        ratio = right / squares if squares else math.inf
        # the sums know nothing of what is not finite
        is_known = math.isfinite(self.max_abs)
        mean = total / self.elements if self.elements else 0.0
        return ValueAccuracy(
            name=name,
            elements=self.elements,
            max_abs=self.max_abs,
            mean_abs=mean if is_known else math.inf,
            snr_db=10 * math.log10(ratio) if is_known and ratio > 0 else -math.inf,
            cosine=product / lengths if is_known and lengths else math.nan,
            largest=self.largest,
            not_finite=self.not_finite,
            noise=1 / ratio if ratio > 0 else math.inf,
            wrong=self.wrong,
        )
