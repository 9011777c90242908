"""What integers do at their limits, what casts make of numbers out of range, and where NaN goes."""

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from backends.numpy.tests.comparing import F32, I64, run_onnxruntime
from backends.numpy.tests.models import node_model
from backends.numpy.tests.numpy_road import compile_model

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_wrap_around(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a, b = np.array([high, low, high], dtype), np.array([1, 1, high], dtype)
    for operator, compute in (("Add", int.__add__), ("Sub", int.__sub__), ("Mul", int.__mul__)):
        (y,) = compile_model(node_model(operator, [a, b], [a.dtype]))(a, b)
        exact = [compute(p, q) for p, q in zip(a.tolist(), b.tolist(), strict=True)]
        assert y.tolist() == [(v - low) % (high - low + 1) + low for v in exact]


def test_a_product_of_integers_with_fractional_factors_is_cut_off_once_as_the_reference_does():
    a, b = np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2)
    c = np.ones((2, 2), np.int32)
    model = node_model("Gemm", [a, b, c], [a.dtype], alpha=0.5, beta=1.5)
    (expected,) = ReferenceEvaluator(model).run(None, {"x0": a, "x1": b, "x2": c})
    (y,) = compile_model(model)(a, b, c)
    assert y.dtype == np.int32
    assert y.tolist() == expected.tolist() == [[6, 8], [15, 21]]


OUT_OF_RANGE = [np.nan, np.inf, -np.inf, 1e10, -1e10, 3e9, -3e9, 300.7, -300.7, -1.5, 1e19, -1e19]


@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
def test_floats_out_of_range_become_the_integers_of_onnxruntime(source):
    with np.errstate(all="ignore"):
        x = np.array(OUT_OF_RANGE * 5, source)
    for target in [*map(np.dtype, "bBhHiI"), np.dtype(np.int64), np.dtype(np.uint64)]:
        to = helper.np_dtype_to_tensor_dtype(target)
        model = node_model("Cast", [x], [target], opset=19, to=to)
        (expected,) = run_onnxruntime(model, {"x0": x})
        np.testing.assert_array_equal(compile_model(model)(x)[0], expected)


def test_integers_out_of_range_keep_their_low_bits():
    x = np.array([300, -1, 2**40 + 5], np.int64)
    for target, expected in ((np.int8, [44, -1, 5]), (np.uint16, [300, 65535, 5])):
        to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
        (y,) = compile_model(node_model("Cast", [x], [np.dtype(target)], to=to))(x)
        assert y.tolist() == expected


def test_text_is_cast_to_integers_exactly_or_truncated():
    x = np.array(["9007199254740993", "1.5", "-1e3"], object)
    (y,) = compile_model(node_model("Cast", [x], [I64], to=7))(x)
    assert y.tolist() == [9007199254740993, 1, -1000]


def test_text_is_padded_with_text():
    x, pads = np.array(["a"], object), np.array([1, 0])
    assert compile_model(node_model("Pad", [x, pads], [x.dtype]))(x, pads)[0].tolist() == ["", "a"]


NAN = np.array([1.0, np.nan, 3.0], np.float32)
TWO = np.full(3, 2, np.float32)
AFTER_NAN: dict[str, tuple[list[Array], dict[str, Any], list[float]]] = {
    "Max": ([NAN, TWO], {}, [2, np.nan, 3]),
    "Min": ([TWO, NAN], {}, [1, np.nan, 2]),
    "Relu": ([NAN], {}, [1, np.nan, 3]),
    "Clip": ([NAN, np.array(0, np.float32), np.array(2, np.float32)], {}, [1, np.nan, 2]),
    "LeakyRelu": ([NAN], {}, [1, np.nan, 3]),
    "Sign": ([NAN], {}, [1, np.nan, 1]),
    "ReduceMax": ([NAN], {"keepdims": 0}, np.nan),  # type: ignore[dict-item] # of rank 0
}


@pytest.mark.parametrize("operator", AFTER_NAN)
def test_nan_is_handed_on(operator):
    inputs, attributes, expected = AFTER_NAN[operator]
    for dtype in (np.float16, np.float32, np.float64):
        given = [value.astype(dtype) for value in inputs]
        model = node_model(operator, given, [np.dtype(dtype)], **attributes)
        np.testing.assert_array_equal(compile_model(model)(*given)[0], np.array(expected, dtype))


def test_nan_counts_as_the_extreme_in_positions():
    for operator in ("ArgMax", "ArgMin"):
        (y,) = compile_model(node_model(operator, [NAN], [I64]))(NAN)
        assert y.tolist() == [1]


def test_sorting_takes_nan_for_the_largest_number():
    k = np.array([2], np.int64)
    for largest, expected in ((1, [1, 2]), (0, [0, 2])):
        model = node_model("TopK", [NAN, k], [F32, I64], largest=largest)
        assert compile_model(model)(NAN, k)[1].tolist() == expected


def test_the_smallest_integer_divided_by_minus_one_wraps_around():
    a, b = np.array([-(2**31)], np.int32), np.array([-1], np.int32)
    (y,) = compile_model(node_model("Div", [a, b], [a.dtype]))(a, b)
    assert y.tolist() == [-(2**31)]
