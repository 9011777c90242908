"""Resize against the definition, one sum per element."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import subgraphkit as sk

MODES: list[dict[str, Any]] = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest", "nearest_mode": "ceil"},
    {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    {"mode": "linear"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "asymmetric", "exclude_outside": 1},
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
    {"mode": "cubic", "cubic_coeff_a": -0.5},
    {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel", "exclude_outside": 1},
]
SIZES = [(1, 2, 13, 22), (1, 2, 130, 14), (1, 2, 26, 77), (3, 2, 5, 11), (1, 4, 13, 3)]


def model(shape, sizes, attributes):
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
        [numpy_helper.from_array(np.array(sizes), "sizes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def resized(proto, x):
    (y,) = sk.InferenceSession(proto, backend="numpy").run(None, {"x": x})
    result: np.ndarray[Any, Any] = y
    return result


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("attributes", MODES, ids=lambda a: "-".join(map(str, a.values())))
def test_resize_computes_what_the_definition_says(sizes, attributes):
    shape = (sizes[0], 2, 13, 11)
    proto = model(shape, sizes, attributes)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(resized(proto, x), wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("size", [26, 20])
def test_what_is_not_finite_stays_with_its_neighbours(value, size):
    x = np.zeros((1, 2, 13, 13), np.float32)
    x[0, 1, 6, 6] = value
    y = resized(model(x.shape, (1, 2, size, size), {"mode": "linear"}), x)
    rows, columns = np.nonzero(~np.isfinite(y[0, 1]))
    assert np.isfinite(y[0, 0]).all()
    assert len(rows)
    assert np.abs(np.array([rows, columns]) - 6.5 * size / 13).max() <= size / 13 + 0.5


def test_whole_numbers_are_rounded_where_the_reference_knows_no_such_coordinates():
    how = {"mode": "linear", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    wanted = model((1, 1, 5, 6), (1, 1, 3, 4), how)
    whole = model((1, 1, 5, 6), (1, 1, 3, 4), how)
    for value in (*whole.graph.input, *whole.graph.output):
        value.type.tensor_type.elem_type = TensorProto.INT32
    x = np.random.default_rng(0).integers(-9, 9, (1, 1, 5, 6)).astype(np.int32)
    exact = resized(wanted, x.astype(np.float32))
    np.testing.assert_array_equal(resized(whole, x), np.rint(exact))
