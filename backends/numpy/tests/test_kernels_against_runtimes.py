"""Kernels against ONNX Runtime, where the official cases of ONNX say nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.numpy.tests.comparing import F32, check, compare, floats, run_onnxruntime
from backends.numpy.tests.models import node_model
from backends.numpy.tests.numpy_road import compile_model


@pytest.mark.parametrize("op_type", ["Relu", "Sigmoid", "Erf", "Gelu", "Neg", "Exp", "Mish", "Elu"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_functions_of_one_array_take_scalars_and_empty_arrays(op_type, shape):
    check(op_type, [floats(*shape).reshape(shape)], [F32])


@pytest.mark.parametrize("op_type", ["Sigmoid", "Tanh", "Gelu", "Softmax", "Exp", "Relu", "Erf"])
def test_half_floats_are_rounded_once(op_type):
    x = floats(4, 6).astype(np.float16)
    half = compile_model(node_model(op_type, [x], [x.dtype]))(x)[0]
    wide = compile_model(node_model(op_type, [x.astype(np.float32)], [F32]))(x.astype(np.float32))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, wide[0], rtol=2e-3, atol=2e-3)


shapes = st.lists(st.integers(1, 4), max_size=4).map(tuple)


@given(full=shapes, data=st.data())
def test_arithmetic_broadcasts_as_onnxruntime_does(full, data):
    def part():
        kept = [data.draw(st.sampled_from([dim, 1])) for dim in full]
        return floats(*kept[data.draw(st.integers(0, len(full))) :])

    a, b = part(), part()
    for op_type in ("Add", "Mul", "Greater", "Max"):
        dtype = np.dtype(np.bool_) if op_type == "Greater" else F32
        model = node_model(op_type, [a, b], [dtype])
        feeds = {"x0": a, "x1": b}
        compare(run_onnxruntime(model, feeds), compile_model(model).run(feeds))


@given(
    a=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=8),
    divisor=st.integers(-(2**31), 2**31 - 1).filter(lambda v: v not in {0, -1}),
)
def test_integer_division_truncates_towards_zero(a, divisor):
    x, y = np.array(a, np.int32), np.array([divisor], np.int32)
    model = node_model("Div", [x, y], [x.dtype])
    expected = [int(abs(v) // abs(divisor)) * (1 if (v < 0) == (divisor < 0) else -1) for v in a]
    assert compile_model(model)(x, y)[0].tolist() == expected


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("MatMul", [floats(0, 3, 4), floats(4, 5)], {}),
        ("MatMul", [floats(2, 1, 3, 4), floats(3, 4, 5)], {}),
        ("MatMul", [floats(4), floats(4)], {}),
        ("MatMul", [floats(2, 3, 4), floats(4)], {}),
        ("Gemm", [floats(4, 3), floats(5, 4), floats(3, 1)], {"transA": 1, "transB": 1}),
        ("LpNormalization", [floats(2, 3, 4)], {"p": 1, "axis": 1}),
        ("CumSum", [floats(2, 3), np.array([1])], {}),
        ("Gather", [floats(4), np.array(-1)], {}),
        ("GatherND", [floats(2, 3, 4), np.array([[[0], [2]], [[1], [1]]])], {"batch_dims": 1}),
        ("Slice", [floats(5, 6), np.array([-(2**63), 3]), np.array([-99, -(2**63)]),
                   np.array([0, 1]), np.array([-1, -2])], {}),
        ("Slice", [floats(5, 6), np.array([4, -1]), np.array([-99, 0]), np.array([0, 1]),
                   np.array([-2, -1])], {}),
        ("Pad", [floats(2, 3), np.array([1, 0, -1, 2]), np.array(3.5, np.float32)], {}),
        ("Pad", [floats(4, 0), np.array([0, -1, 0, 2]), np.array(3.5, np.float32)], {}),
        ("Pad", [floats(4, 1), np.array([-5, 3, 1, -2])], {}),
        ("OneHot", [np.array([1, -1, 7]), np.array(4), floats(2)], {"axis": 0}),
        ("Clip", [floats(3, 4), np.array(0.5, np.float32), np.array(-0.5, np.float32)], {}),
        ("PRelu", [floats(2, 3, 4), floats(3, 1)], {}),
        ("DeformConv", [floats(1, 2, 1, 3), floats(3, 2, 1, 2), floats(1, 4, 1, 2)], {}),
        ("GridSample", [floats(1, 1, 4, 5), floats(1, 5, 3, 2) * 2],
         {"mode": "cubic", "padding_mode": "border"}),
        ("GridSample", [floats(1, 2, 1, 4), floats(1, 5, 3, 2) * 2],
         {"padding_mode": "reflection", "align_corners": 1}),
        ("Pow", [np.array([2, 9], np.float32), np.array([0.5, 0.5], np.float32)], {}),
    ],
)  # fmt: skip
def test_other_kernels_agree_with_onnxruntime(op_type, inputs, attributes):
    check(op_type, inputs, [F32], **attributes)


@pytest.mark.parametrize("opset", [6, 9, 11, 13])
def test_softmax_of_every_age_agrees_with_onnxruntime(opset):
    check("Softmax", [floats(2, 3, 4)], [F32], opset=opset, axis=1)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization_of_every_age_uses_running_statistics(opset):
    inputs = [floats(2, 3, 4), floats(3), floats(3), floats(3), np.abs(floats(3)) + 0.5]
    check("BatchNormalization", inputs, [F32], opset=opset, epsilon=1e-3)


def test_batch_normalization_without_spatial_axes_has_statistics_by_element():
    inputs = [floats(2, 3, 4), *(floats(3, 4) for _ in range(3)), np.abs(floats(3, 4)) + 0.5]
    model = node_model("BatchNormalization", inputs, [F32], opset=7, spatial=0)
    x, scale, bias, mean, variance = inputs
    expected = (x - mean) / np.sqrt(variance + 1e-5) * scale + bias
    np.testing.assert_allclose(compile_model(model)(*inputs)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [10, 13, 19, 23])
def test_quantised_numbers_of_every_age_are_read(opset):
    x = np.array([[0, 3], [128, 255]], np.uint8)
    scale, zero = np.array([2.0, 0.5], np.float32), np.array([0, 128], np.uint8)
    if opset == 10:
        scale, zero = scale[0].reshape(()), zero[1].reshape(())
    model = node_model("DequantizeLinear", [x, scale, zero], [F32], opset=opset)
    expected = (x.astype(np.float32) - zero) * scale
    np.testing.assert_array_equal(compile_model(model)(x, scale, zero)[0], expected)


@pytest.mark.parametrize("points", [0, 1, 3])
@pytest.mark.parametrize("number", [1.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("opset", "words"),
    [(10, {}), (16, {}), (16, {"coordinate_transformation_mode": "output_half_pixel"})],
)
def test_regions_are_averages_and_a_number_counts_only_in_cells_that_it_is_a_part_of(
    opset, words, number, points
):
    x = floats(2, 3, 7, 9)
    x[0, 1, 3, 4] = x[1, 2, 5, 5] = number
    corners = np.abs(floats(5, 2)) * 4
    boxes = np.concatenate([corners, corners + np.abs(floats(5, 2)) * 4 + 0.1], axis=1)
    check(
        "RoiAlign",
        [x, boxes, np.array([0, 1, 0, 1, 1])],
        [F32],
        opset=opset,
        rtol=1e-4,
        output_height=3,
        output_width=2,
        sampling_ratio=points,
        spatial_scale=0.7,
        **words,
    )


@pytest.mark.parametrize("points", [0, 1, 3])
@pytest.mark.parametrize("opset", [10, 16])
def test_regions_have_the_largest_share_of_an_element(opset, points):
    corners = floats(6, 2) * 4
    boxes = np.concatenate([corners, corners + np.abs(floats(6, 2)) * 4], axis=1)
    sizes = {"output_height": 3, "output_width": 2, "sampling_ratio": points}
    inputs = [floats(2, 3, 7, 9), boxes, np.array([0, 1, 0, 1, 1, 0])]
    check("RoiAlign", inputs, [F32], opset=opset, mode="max", **sizes)


@pytest.mark.parametrize("pads", [[1, 1], [1, 0], [0, 1]])
def test_places_of_maxima_are_those_of_elements_however_small(pads):
    x = np.array([[[0, 0, 3, 0, 0]]], np.uint8)
    kinds = [x.dtype, np.dtype(np.int64)]
    check("MaxPool", [x], kinds, kernel_shape=[2], strides=[2], pads=pads)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("shift", [-(2**40), -1, 0, 2, 2**40])
def test_triangles_of_texts_are_texts(upper, shift):
    words = np.array([["a", "b", "c"], ["d", "e", "f"]], object)
    k = np.array(shift)
    model = node_model("Trilu", [words, k], [np.dtype(object)], opset=14, upper=upper)
    (made,) = compile_model(model)(words, k)
    codes = np.vectorize(ord)(words)
    kept = np.triu(codes, shift) if upper else np.tril(codes, shift)
    assert made.tolist() == [["" if not code else chr(code) for code in row] for row in kept]


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("words", [[1, 2, 3, 1, 2], [], [[1, 2, 3], [4, 5, 6]]])
@pytest.mark.parametrize("given", [{}, {"weights": [0.5, 2.0, 3.0, 0.25, 7.0]}])
def test_word_pairs_are_counted_and_weighted(mode, words, given):
    given = given | {"mode": mode, "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0}
    pool = {"pool_int64s": [1, 2, 3, 1, 2, 2, 3], "ngram_indexes": [1, 0, 2, 4, 3]}
    pool["ngram_counts"] = [0, 3]
    check("TfIdfVectorizer", [np.array(words, np.int64)], [F32], **given, **pool)


@pytest.mark.parametrize(("mode", "opset"), [("bicubic", 16), ("bilinear", 19), ("cubic", 20)])
def test_modes_of_grids_have_the_names_of_their_opset(mode, opset):
    grid = np.linspace(-0.9, 0.9, 12, dtype=np.float32).reshape(1, 2, 3, 2)
    check("GridSample", [floats(1, 2, 4, 4), grid], [F32], opset=opset, mode=mode)


def test_grids_of_doubles_are_rounded_to_doubles():
    inputs = [floats(2, 3, 4).astype(np.float64), np.array([2, 1, 2, 1, 3])]
    check("AffineGrid", inputs, [inputs[0].dtype], opset=20, rtol=1e-14)
