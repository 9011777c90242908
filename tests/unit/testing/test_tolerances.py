"""Results are compared in kind, shape, dtype and value, each dtype by its own measure."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from subgraphkit.testing.tolerances import difference

ONE = np.ones(3, np.float32)


def found(expected: Any, actual: Any, **more: Any) -> tuple[str, str] | None:
    """Return stage and text of a difference."""
    difference_ = difference(expected, actual, **more)
    return None if difference_ is None else (difference_.stage, difference_.text)


@pytest.mark.parametrize(
    ("actual", "stage", "text"),
    [
        (np.ones((3, 1), np.float32), "shape", "shape [3, 1], expected [3]"),
        (np.ones(3), "dtype", "dtype float64, expected float32"),
        ([ONE], "dtype", "a sequence, expected an array"),
        (None, "dtype", "nothing, expected an array"),
        (np.float32([1, 1, 2]), "value", "1 of 3 elements differ; at [2] expected 1.0, got 2.0"),
        (np.float32([1, np.nan, 2]), "value", "2 of 3 elements differ; at [1]"),
        (np.float32([1, np.inf, 2]), "value", "at [1] expected 1.0, got inf"),
    ],
)
def test_what_differs_is_told_with_its_stage(actual: Any, stage: str, text: str) -> None:
    got = found(ONE, actual)
    assert got is not None
    assert got[0] == stage
    assert got[1].startswith(text) or text in got[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_floats_may_be_off_by_a_rounding_of_their_dtype_and_not_by_ten_percent(dtype: Any) -> None:
    numbers = np.array([0.1, 1.0, -30.0]).astype(dtype)
    rounded = (numbers.astype(np.float64) * (1 + float(ml_dtypes.finfo(dtype).eps))).astype(dtype)
    assert found(numbers, rounded) is None
    assert found(numbers, (numbers.astype(np.float64) * 1.1).astype(dtype)) is not None


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint64, ml_dtypes.int4, ml_dtypes.float8_e4m3fn, ml_dtypes.uint2]
)
def test_integers_and_small_floats_are_equal_or_wrong(dtype: Any) -> None:
    numbers = np.array([0, 1, 1]).astype(dtype)
    assert found(numbers, numbers.copy()) is None
    assert found(numbers, np.array([0, 1, 0]).astype(dtype)) is not None


def test_the_largest_integers_are_compared_to_the_last_digit() -> None:
    large = np.array([2**63 - 1], np.int64)
    assert found(large, large - 1) is not None


def test_where_large_numbers_cancel_the_rest_is_measured_by_them() -> None:
    expected = np.float32([1000.0, 0.0])
    assert found(expected, np.float32([1000.0, 2e-4])) is None
    assert found(np.float32([1.0, 0.0]), np.float32([1.0, 2e-4])) is not None


def test_a_declared_tolerance_replaces_that_of_the_dtype_in_both_directions() -> None:
    bytes_ = np.array([10, 255], np.uint8)
    assert found(bytes_, bytes_ - 1) is not None
    assert found(bytes_, bytes_ - 1, declared={"uint8": (0.0, 1.0)}) is None
    assert found(bytes_, bytes_ - 2, declared={"uint8": (0.0, 1.0)}) is not None
    assert found(ONE, ONE * np.float32(1.0001), declared={"float32": (1e-6, 0.0)}) is not None


def test_the_least_tolerances_widen_floats_and_leave_integers_exact() -> None:
    assert found(ONE, ONE * np.float32(1.1), rtol=0.2) is None
    assert found(np.array([10]), np.array([11]), rtol=0.2, atol=5.0) is not None


def test_nan_and_infinity_stand_where_they_should() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 0.0])
    assert found(odd, odd.copy()) is None
    assert found(odd, odd[::-1].copy()) is not None


def test_strings_lists_and_mappings_are_compared_element_by_element() -> None:
    text = np.array(["a", "ü"], object)
    assert found(text, text.astype(str)) is None
    assert found(text, np.array(["a", "u"], object)) == (
        "value",
        "1 of 2 elements differ; at [1] expected ü, got u",
    )
    assert found([ONE, None], [ONE, None]) is None
    assert found([ONE, ONE], [ONE, ONE * 2]) is not None
    assert found([ONE], []) == ("shape", "a sequence of 0, expected one of 1")
    assert found({"k": 1.0}, {"l": 1.0}) == ("value", "a map with other keys than expected")
    place, text_ = found([[ONE]], [[ONE * 2]]) or ("", "")
    assert (place, text_[:10]) == ("value", "[0][0]: 3 ")


def test_no_elements_and_no_axes_are_compared_as_well() -> None:
    assert found(np.zeros((0, 3)), np.zeros((0, 3))) is None
    assert found(np.zeros((0, 3)), np.zeros((0, 4))) is not None
    assert found(np.float64(1.0)[...], np.float64(1.5)[...]) is not None
