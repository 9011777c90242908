"""Ranges of values, and the thresholds that are made of them."""

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import subgraphkit as sk
from subgraphkit.backend import Progress, ProgressEvent
from subgraphkit.errors import CallerError, SubgraphkitWarning
from subgraphkit.precision import Histogram, Range, Ranges, calibrate, content_hash, threshold_of
from subgraphkit.precision.calibration import BINS, check_method
from subgraphkit.running import tapping
from tests.models import CHAIN, parsed

Batch = dict[str, np.ndarray[Any, Any]]


def batches(count=3, scale=1.0):
    rng = np.random.default_rng(1)
    return [{"x": (scale * rng.standard_normal((5, 4))).astype(np.float32)} for _ in range(count)]


def test_every_float_value_that_is_not_constant_gets_a_range():
    given = batches()
    ranges = calibrate(parsed(CHAIN), given, method="minmax")
    assert sorted(ranges.values) == ["a", "b", "x", "y"]
    stacked = np.concatenate([batch["x"] for batch in given])
    found = ranges.values["x"]
    assert (found.lowest, found.highest) == (stacked.min(), stacked.max())
    assert found.samples == 60
    assert ranges.values["a"].threshold == stacked.max()
    assert ranges.values["y"] == Range(0.0, "minmax", 60, 0.0, 0.0)
    assert ranges.model == content_hash(sk.load(parsed(CHAIN)))


def test_the_same_batches_make_the_same_ranges_whatever_fits_into_memory(monkeypatch):
    once = calibrate(parsed(CHAIN), batches())
    monkeypatch.setattr(tapping, "_GROUP_BYTES", 1)
    assert calibrate(parsed(CHAIN), (batch for batch in batches())) == once


def test_only_the_values_that_were_asked_for_are_looked_at():
    assert list(calibrate(parsed(CHAIN), batches(), values=["a"]).values) == ["a"]
    with pytest.raises(CallerError, match=r"SGK231.*no float32 value 'zzz'"):
        calibrate(parsed(CHAIN), batches(), values=["zzz"])


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_batch_with_numbers_that_are_none_is_refused_by_its_place(odd):
    spoilt = batches()
    spoilt[1]["x"][0, 0] = odd
    with pytest.raises(CallerError, match=r"SGK234.*batch 2 holds NaN or infinity in input 'x'"):
        calibrate(parsed(CHAIN), spoilt)


def test_a_batch_that_leads_to_nan_is_refused_by_the_value():
    model = parsed("g (float[N,4] x) => (float[N,4] y) { a = Sub(x, x) y = Div(a, a) }")
    with (
        pytest.raises(CallerError, match=r"SGK234.*batch 1 leads to NaN in value 'y'"),
        np.errstate(all="ignore"),
    ):
        calibrate(model, batches())


def test_an_infinite_mask_has_no_range_and_a_warning_says_so():
    body = """g (float[N,4] x) => (float[N,4] y)
    { z = Sub(x, x) o = Exp(z) i = Div(o, z) m = Max(x, i) y = Min(x, m) }"""
    told = pytest.warns(SubgraphkitWarning, match=r"2 values were infinite.*'i', 'm'")
    with told, np.errstate(all="ignore"):
        ranges = calibrate(parsed(body), batches())
    assert sorted(ranges.values) == ["o", "x", "y", "z"]


def test_no_batch_is_refused():
    with pytest.raises(CallerError, match=r"SGK234.*no batch"):
        calibrate(parsed(CHAIN), [])


def test_ranges_are_stored_and_read(tmp_path):
    ranges = calibrate(parsed(CHAIN), batches())
    ranges.save(tmp_path / "ranges.json")
    assert Ranges.load(tmp_path / "ranges.json") == ranges
    first = (tmp_path / "ranges.json").read_bytes()
    Ranges.load(tmp_path / "ranges.json").save(tmp_path / "ranges.json")
    assert (tmp_path / "ranges.json").read_bytes() == first


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": "other/1"}',
        *(
            f'{{"schema": "subgraphkit.ranges/1", "model": "", "values": {{"a": {{{facts}}}}}}}'
            for facts in (
                '"threshold": -1, "method": ""',
                '"threshold": NaN, "method": ""',
                '"threshold": "1", "method": ""',
                '"scale": 1',
            )
        ),
    ],
)
def test_damaged_ranges_are_refused(text, tmp_path):
    (tmp_path / "ranges.json").write_text(text)
    with pytest.raises(CallerError, match=r"SGK233.*ranges.json"):
        Ranges.load(tmp_path / "ranges.json")


def test_ranges_tell_how_well_int8_holds_a_value():
    ranges = calibrate(parsed(CHAIN), batches(20))
    known = ranges.values["x"].snr_db
    assert known is not None
    assert 25 < known < 45
    assert ranges.values["y"].snr_db is None  # it was always 0


def test_ranges_of_another_model_are_told():
    ranges = calibrate(parsed(CHAIN), batches())
    ranges.check_model(sk.load(parsed(CHAIN)))
    with pytest.raises(CallerError, match=r"SGK232.*belong to a model with hash"):
        ranges.check_model(sk.load(parsed(CHAIN.replace("Neg", "Abs"))))


def cache(tmp_path, *lines):
    path = tmp_path / "calibration.cache"
    path.write_text("\n".join(["TRT-8601-EntropyCalibration2", *lines]) + "\n")
    return path


def test_a_calibration_cache_holds_scales_as_bits(tmp_path):
    bits = struct.pack(">f", 0.02).hex()
    found = Ranges.load(cache(tmp_path, f"a: {bits}", f"x: 0: {bits}"))
    assert found.values["a"] == Range(pytest.approx(2.54), "imported")
    assert sorted(found.values) == ["a", "x: 0"]


@pytest.mark.parametrize(("line", "why"), [
    ("a 3c008912", "line 3 is 'a 3c008912', expected a name"),
    ("a: 3c00891", "line 3 is 'a: 3c00891'"),
    ("a: 7fc00000", "line 3 gives 'a' the scale nan"),
    ("a: bf800000", "line 3 gives 'a' the scale -1.0"),
    ("first: 3f800000", "line 3 names 'first' again"),
])  # fmt: skip
def test_a_damaged_cache_is_refused_with_its_line(line, why, tmp_path):
    with pytest.raises(CallerError, match="SGK233") as caught:
        Ranges.load(cache(tmp_path, "first: 3f800000", line))
    assert why in str(caught.value)


def test_every_batch_is_reported_to_whoever_asks():
    told: list[ProgressEvent] = []
    calibrate(parsed(CHAIN), list(batches()), progress=Progress(told.append))
    count = len(told)
    assert told == [ProgressEvent("calibrating", at + 1, count) for at in range(count)]
    calibrate(parsed(CHAIN), iter(list(batches())), progress=Progress(told.append))
    assert told[-1] == ProgressEvent("calibrating", count, None)


def test_a_calibration_that_is_cancelled_stops_after_the_batch_under_way():
    told: list[ProgressEvent] = []

    def listen(event):
        told.append(event)
        progress.cancel(TimeoutError("enough"))

    progress = Progress(listen)
    with pytest.raises(TimeoutError, match="enough"):
        calibrate(parsed(CHAIN), list(batches()), progress=progress)
    assert len(told) == 1


def histogram_of(*arrays):
    seen = Histogram()
    for array in arrays:
        seen.add(np.asarray(array, np.float32))
    return seen


def int8_error(elements, threshold):
    step = threshold / 127
    held = np.clip(np.rint(elements / step), -127, 127) * step
    return float(((elements - held) ** 2).mean())


@given(st.integers(0, 2**32), st.sampled_from(["normal", "laplace", "uniform", "outliers"]))
def test_the_threshold_of_least_error_is_nearly_the_best_there_is(seed, kind):
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


def test_a_few_huge_elements_leave_int8_little_of_the_rest():
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


def test_a_percentile_leaves_the_largest_out():
    seen = histogram_of(np.arange(1, 10_001))
    threshold, _ = threshold_of(seen, "percentile", 99.0)
    assert threshold == pytest.approx(9900, abs=2 * seen.width)
    assert threshold_of(seen, "percentile", 100)[0] == 10_000


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
def test_values_that_are_always_zero_have_the_threshold_zero(method):
    assert threshold_of(histogram_of(np.zeros(1000)), method, 99.99)[0] == 0.0
    assert threshold_of(Histogram(), method, 99.99)[0] == 0.0


def test_a_value_that_is_nearly_always_zero_keeps_the_rest():
    rest = np.zeros(100_000)
    rest[:5] = 2.0
    assert threshold_of(histogram_of(rest), "percentile", 99.0)[0] == 2.0


@given(st.lists(st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=1), min_size=1))
def test_growing_counts_every_element_in_the_bin_it_belongs_to(batches):
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


def test_what_cannot_be_a_method_is_refused():
    with pytest.raises(CallerError, match=r"SGK231.*expected one of 'mse'"):
        check_method("best", 99)
    with pytest.raises(CallerError, match=r"SGK231.*percentile is 0"):
        check_method("percentile", 0)
