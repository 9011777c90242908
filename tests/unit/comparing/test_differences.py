"""Two values side by side, and how far apart they may be."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from subgraphkit.comparing import Difference, compare_values, tolerance_for


def _one(got: Any, expected: Any, **tolerance: float) -> Difference:
    (found,) = compare_values("y", got, expected, lambda dtype: tolerance_for(dtype, **tolerance))
    return found


def _floats(*values: float, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


def test_the_figures_are_those_of_the_elements() -> None:
    found = _one(_floats(1, 2.5, -4), _floats(1, 2, -4))
    assert not found.agrees
    assert (found.wrong, found.elements) == (1, 3)
    assert (found.max_abs, found.max_rel, found.scaled) == (0.5, 0.25, 0.125)
    assert (found.worst, found.got, found.expected) == ((1,), 2.5, 2.0)


def test_the_worst_place_is_where_the_tolerance_is_exceeded_most() -> None:
    # 0.5 of 1000 is within the tolerance, 0.1 of 1 is far beyond it
    found = _one(_floats(1000.5, 1.1), _floats(1000, 1), absolute=0)
    assert (found.wrong, found.worst, found.max_abs) == (1, (1,), 0.5)
    found = _one(_floats(1.25, 7, 2), _floats(1, 4, 2), relative=0, absolute=0)
    assert found.worst == (1,)


@pytest.mark.parametrize(
    ("dtype", "close", "far"),
    [
        (np.float64, 1e-10, 5e-8),
        (np.float32, 1e-4, 1e-2),
        (np.float16, 5e-3, 1.2e-2),
        (ml_dtypes.bfloat16, 2e-2, 8e-2),
        (ml_dtypes.float8_e4m3fn, 0, 0.2),
        (np.complex64, 1e-4, 1e-2),
    ],
)
def test_every_float_type_has_a_tolerance_of_its_own(dtype: Any, close: float, far: float) -> None:
    expected = np.array([1, 2], dtype)
    assert _one(np.array([1 + close, 2], dtype), expected).agrees
    assert not _one(np.array([1 + far, 2], dtype), expected).agrees


def test_what_cancels_is_measured_by_what_was_there() -> None:
    # 1e-4 where 0 is expected is noise beside 100 and everything beside 1e-3
    assert _one(_floats(100, 1e-4), _floats(100, 0)).agrees
    assert not _one(_floats(1e-3, 1e-4), _floats(1e-3, 0)).agrees
    assert not _one(_floats(100, 1e-4), _floats(100, 0), absolute=1e-6).agrees


@pytest.mark.parametrize(
    "dtype",
    [np.int64, np.uint64, np.int8, np.bool_, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.uint2],
)
def test_integers_are_exact_whatever_is_allowed(dtype: Any) -> None:
    one, other = np.array([1, 0, 1]).astype(dtype), np.array([1, 1, 1]).astype(dtype)
    assert _one(one, one).agrees
    found = _one(one, other, relative=1, absolute=10)
    assert not found.agrees
    assert (found.wrong, found.worst) == (1, (1,))


def test_integers_beyond_any_float_are_told_apart() -> None:
    large = 2**63 - 2
    found = _one(np.array([large + 1]), np.array([large]))
    assert (found.agrees, found.max_abs) == (False, 1)
    assert (found.got, found.expected) == (large + 1, large)


def test_nan_agrees_with_nan_and_infinity_with_the_same_infinity() -> None:
    values = _floats(np.nan, np.inf, -np.inf, 1)
    assert _one(values, values.copy()).agrees


@pytest.mark.parametrize(
    ("got", "expected", "counts"),
    [
        (np.nan, 1, (1, 0)),
        (1, np.nan, (1, 0)),
        (np.inf, 1, (0, 1)),
        (np.inf, -np.inf, (0, 1)),
        (np.nan, np.inf, (1, 0)),
    ],
)
def test_values_that_are_not_finite_are_counted_by_kind(
    got: float, expected: float, counts: tuple[int, int]
) -> None:
    found = _one(_floats(5, got), _floats(5, expected), relative=1, absolute=100)
    assert not found.agrees
    assert (found.nan, found.infinite) == counts
    assert (found.wrong, found.worst, found.max_abs) == (1, (1,), 0)


def test_the_largest_floats_do_not_overflow_in_silence() -> None:
    largest = np.finfo(np.float64).max
    found = _one(_floats(largest, dtype=np.float64), _floats(-largest, dtype=np.float64))
    assert not found.agrees
    assert found.max_abs == np.inf
    assert found.cosine == pytest.approx(-1)


@pytest.mark.parametrize(
    ("got", "expected", "problem"),
    [
        (np.zeros(2), np.zeros(2, np.float32), "dtype float64, expected float32"),
        (np.zeros((2, 1)), np.zeros(2), "shape [2, 1], expected [2]"),
        ([np.zeros(2)], np.zeros(2), "a sequence, expected an array"),
        (None, np.zeros(2), "nothing, expected an array"),
        ([np.zeros(2)], [], "a sequence of 1, expected one of 0"),
        ({"a": np.zeros(1)}, {"b": np.zeros(1)}, "a map with other keys than expected"),
    ],
)
def test_what_is_of_another_kind_is_a_problem_in_words(
    got: Any, expected: Any, problem: str
) -> None:
    found = _one(got, expected)
    assert not found.agrees
    assert found.problem == problem


def test_sequences_and_maps_are_compared_part_by_part() -> None:
    got = [np.zeros(2), {"a": np.ones(1)}, None]
    expected = [np.zeros(2), {"a": np.zeros(1)}, None]
    found = compare_values("y", got, expected)
    assert [(one.name, one.agrees) for one in found] == [
        ("y[0]", True),
        ("y[1]['a']", False),
        ("y[2]", True),
    ]
    assert _one([], []).agrees


def test_text_is_exact_and_may_be_bytes_on_one_side() -> None:
    got = np.array([["a", "ü"]], object)
    assert _one(got, np.array([[b"a", "ü".encode()]], object)).agrees
    found = _one(got, np.array([["a", "u"]], object))
    assert (found.agrees, found.wrong, found.worst) == (False, 1, (0, 1))
    assert (found.got, found.expected) == ("ü", "u")


_F16 = np.float16


@pytest.mark.parametrize(
    ("expected", "nothing"),
    [
        (np.array([1.0, 2.0], np.float32), ""),
        (np.array([3.0], np.float32), ""),
        (np.array([0.0], np.float32), "the tolerance is larger than the signal"),
        (np.full((4, 4), 0.25, np.float32), "every element is 0.25"),
        (np.array([1.0, 1.0001], np.float32), "1 everywhere would agree"),
        (np.array([1.0, 1.001], _F16), "1 everywhere would agree"),
        (np.array([1e-30, -1e-30], np.float32), ""),
        (np.array([1e300, -1e300]), ""),
        (np.array([np.nan, np.nan]), "no element is finite"),
        (np.array([np.inf, 2.0, 2.0]), ""),
        (np.empty((0, 7), np.float32), "it is empty"),
        (np.array([5, 5]), ""),  # the same class twice
        (np.array([0, 0]), "every element is 0"),
        (np.array([127, 127], np.int8), "every element is 127"),
        (np.array([0]), ""),
        (np.array([True, False]), ""),
        (np.array([1 + 1j, 1 - 1j]), ""),
        (np.array(["a", "a"]), ""),
    ],
)
def test_agreeing_means_nothing_where_one_number_everywhere_would_agree(
    expected: Any, nothing: str
) -> None:
    (found,) = compare_values("y", expected.copy(), expected)
    assert found.agrees
    assert found.nothing.startswith(nothing)
    assert bool(found.nothing) is bool(nothing)
