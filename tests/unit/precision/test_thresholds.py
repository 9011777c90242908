"""Histograms that grow, and the thresholds taken from them."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgraphkit.errors import CallerError
from subgraphkit.precision import Histogram, threshold_of
from subgraphkit.precision.calibration import BINS, check_method


def histogram_of(*arrays: Any) -> Histogram:
    seen = Histogram()
    for array in arrays:
        seen.add(np.asarray(array, np.float32))
    return seen


def int8_error(elements: Any, threshold: float) -> float:
    step = threshold / 127
    held = np.clip(np.rint(elements / step), -127, 127) * step
    return float(((elements - held) ** 2).mean())


@given(st.integers(0, 2**32), st.sampled_from(["normal", "laplace", "uniform", "outliers"]))
def test_the_threshold_of_least_error_is_nearly_the_best_there_is(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    drawn = {
        "normal": lambda: rng.standard_normal(20000),
        "laplace": lambda: rng.laplace(size=20000),
        "uniform": lambda: rng.uniform(-1, 1, 20000),
        "outliers": lambda: np.concatenate([rng.standard_normal(20000), [-9, 8]]),
    }[kind]().astype(np.float32)
    seen = histogram_of(drawn)
    threshold, method = threshold_of(seen, "mse", 99.99)
    assert method == "mse"
    best = min(int8_error(drawn, part * seen.magnitude) for part in np.linspace(0.05, 1, 100))
    assert int8_error(drawn, threshold) <= 1.05 * best
    measured = 10 * math.log10(float((drawn**2).mean()) / int8_error(drawn, threshold))
    assert seen.snr_db(threshold) == pytest.approx(measured, abs=0.3)


def test_a_few_huge_elements_leave_int8_little_of_the_rest() -> None:
    rng = np.random.default_rng(0)
    calm = rng.standard_normal(50000)
    wild = calm.copy()
    wild[:20] *= 30
    ratios = []
    for elements in (calm, wild):
        seen = histogram_of(elements)
        ratios.append(seen.snr_db(threshold_of(seen, "mse", 99.99)[0]))
    assert ratios[0] > 35
    assert ratios[1] < 25
    assert histogram_of(np.zeros(4)).snr_db(1.0) == math.inf


def test_a_percentile_leaves_the_largest_out() -> None:
    seen = histogram_of(np.arange(1, 10_001))
    threshold, _ = threshold_of(seen, "percentile", 99.0)
    assert threshold == pytest.approx(9900, abs=2 * seen.width)
    assert threshold_of(seen, "percentile", 100)[0] == 10_000


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
def test_values_that_are_always_zero_have_the_threshold_zero(method: Any) -> None:
    assert threshold_of(histogram_of(np.zeros(1000)), method, 99.99)[0] == 0.0
    assert threshold_of(Histogram(), method, 99.99)[0] == 0.0


def test_a_value_that_is_nearly_always_zero_keeps_the_rest() -> None:
    rest = np.zeros(100_000)
    rest[:5] = 2.0
    assert threshold_of(histogram_of(rest), "percentile", 99.0)[0] == 2.0


@given(st.lists(st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=1), min_size=1))
def test_growing_counts_every_element_in_the_bin_it_belongs_to(batches: list[list[float]]) -> None:
    seen = histogram_of(*batches)
    sizes = np.abs(np.concatenate([np.asarray(b, np.float32) for b in batches]).astype(float))
    assert seen.samples == sizes.size
    assert seen.zeros == (sizes == 0).sum()
    assert seen.magnitude == sizes.max()
    edges = np.concatenate([[0.0], np.cumsum(seen.counts)])
    for place in (1, BINS // 4, BINS // 2, BINS - 1):
        edge = place * seen.width
        near = np.isclose(sizes, edge, rtol=1e-9)
        below = ((sizes < edge) & (sizes > 0) & ~near).sum()
        assert below <= edges[place] <= below + near.sum()


def test_what_cannot_be_a_method_is_refused() -> None:
    with pytest.raises(CallerError, match=r"SGK231.*expected one of 'mse'"):
        check_method("best", 99)
    with pytest.raises(CallerError, match=r"SGK231.*percentile is 0"):
        check_method("percentile", 0)
