"""Equal filters make equal results, wherever they lie, and so does what comes after them."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import subgraphkit as sk
from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.testing import light_models
from subgraphkit_numpy.kernels.repeats import find_repeats

GRAPHS = {
    "pointwise": ("g (float[2,130,14,14] x) => (float[2,F,14,14] y) { y = Conv(x, w) }", (1, 1)),
    "windows": (
        "g (float[1,130,15,13] x) => (float[1,F,15,13] y) { y = Conv<pads=[1,1,1,1]>(x, w) }",
        (3, 3),
    ),
    "any size": (
        "g (float[N,130,A,B] x) => (float[N,F,C,D] y) { y = Conv(x, w) }",
        (3, 3),
    ),
    "one axis": ("g (float[1,130,99] x) => (float[1,F,97] y) { y = Conv(x, w) }", (3,)),
    "three axes": ("g (float[1,130,4,9,9] x) => (float[1,F,2,7,7] y) { y = Conv(x, w) }", (3,) * 3),
    "halves": ("g (float16[1,130,9,9] x) => (float16[1,F,9,9] y) { y = Conv(x, w) }", (1, 1)),
    "continued": (
        "g (float[1,130,14,14] x) => (float[1,F,14,14] y) { c = Conv(x, w) y = Sigmoid(c) }",
        (1, 1),
    ),
    "gemm": ("g (float[131,130] x) => (float[131,F] y) { y = Gemm<transB=1>(x, w) }", ()),
    "gemm of one row": ("g (float[1,130] x) => (float[1,F] y) { y = Gemm<transB=1>(x, w) }", ()),
    "gemm continued": (
        "g (float[131,130] x) => (float[131,F] y) { p = Gemm<transB=1>(x, w) y = Tanh(p) }",
        (),
    ),
    "matmul": ("g (float[3,41,130] x) => (float[3,41,F] y) { y = MatMul(x, v) }", ()),
    "matmul of any size": ("g (float[N,M,130] x) => (float[N,M,F] y) { y = MatMul(x, v) }", ()),
    "matmul of a vector": ("g (float[130] x) => (float[F] y) { y = MatMul(x, v) }", ()),
}


def _model(name: str, filters: int, weights: Any) -> onnx.ModelProto:
    text, _ = GRAPHS[name]
    model = parsed(text.replace("F]", f"{filters}]").replace("F,", f"{filters},"))
    stored = weights.astype(np.float16) if "float16" in text else weights
    stored, key = (weights.T, "v") if "v)" in text else (stored, "w")
    model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(stored), key))
    return model


def _input(model: onnx.ModelProto) -> Any:
    sizes = {"N": 3, "M": 40, "A": 12, "B": 13}
    type_ = model.graph.input[0].type.tensor_type
    shape = [dim.dim_value or sizes[dim.dim_param] for dim in type_.shape.dim]
    values = np.random.default_rng(3).uniform(1, 2, shape)
    return values.astype(onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type))


@pytest.mark.parametrize("filters", [12, 61, 252, 1003])
@pytest.mark.parametrize("name", GRAPHS)
def test_equal_filters_make_equal_results(name: str, filters: int) -> None:
    rng = np.random.default_rng(filters)
    kinds = rng.standard_normal((3, 130, *GRAPHS[name][1])).astype(np.float32)
    order = rng.integers(0, 3, filters)
    model = _model(name, filters, kinds[order])
    x = _input(model)
    (found,) = compile_model(model)(x)
    axis = 1 if "Conv" in GRAPHS[name][0] else -1
    firsts = [int(np.flatnonzero(order == kind)[0]) for kind in range(3)]
    for place, kind in enumerate(order):
        np.testing.assert_array_equal(found.take(place, axis), found.take(firsts[kind], axis))
    # and they are those of the filters that differ
    (alone,) = compile_model(_model(name, 3, kinds))(x)
    close = {"rtol": 1e-2, "atol": 1e-1} if x.dtype == np.float16 else {"rtol": 1e-4, "atol": 1e-3}
    np.testing.assert_allclose(found.take(firsts, axis), alone, **close)


def test_every_filter_has_its_own_scale_bias_and_residual() -> None:
    model = parsed("""
    g (float[2,64,14,14] x, float[2,96,14,14] r) => (float[2,96,14,14] y)
    <float[96] s, float[96] m, float[96] b> {
      c = Conv(x, w)
      n = BatchNormalization(c, s, b, m, v)
      a = Add(n, r)
      y = Relu(a)
    }
    """)
    rng = np.random.default_rng(0)
    stored = {name: rng.uniform(0.5, 2, 96).astype(np.float32) for name in "smbv"}
    stored["s"][:40] = stored["v"][:40] = 1.5
    stored["w"] = np.tile(rng.standard_normal((1, 64, 1, 1)), (96, 1, 1, 1)).astype(np.float32)
    del model.graph.initializer[:]
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in stored.items())
    x = rng.standard_normal((2, 64, 14, 14)).astype(np.float32)
    r = rng.standard_normal((2, 96, 14, 14)).astype(np.float32)
    (found,) = compile_model(model)(x, r)
    y = np.einsum("fc,ncij->nfij", stored["w"][:, :, 0, 0], x, dtype=np.float64)
    along = {name: stored[name][:, None, None] for name in "smbv"}
    y = (y - along["m"]) / np.sqrt(along["v"] + 1e-5) * along["s"] + along["b"] + r
    np.testing.assert_allclose(found, np.maximum(y, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [(2, 2), (1, 3)])
def test_equal_filters_of_groups_that_repeat_differently(count: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    model = parsed(
        "g (float[1,60,9,9] x) => (float[1,80,9,9] y) { y = Conv<group=2, pads=[1,1,1,1]>(x, w) }"
    )
    orders = [rng.integers(0, kinds, 40) for kinds in count]
    w = np.concatenate([rng.standard_normal((3, 30, 3, 3))[order] for order in orders])
    model.graph.initializer.append(numpy_helper.from_array(w.astype(np.float32), "w"))
    x = rng.standard_normal((1, 60, 9, 9)).astype(np.float32)
    (found,) = compile_model(model)(x)
    for start, order in zip((0, 40), orders, strict=True):
        for place, kind in enumerate(order):
            first = start + int(np.flatnonzero(order == kind)[0])
            np.testing.assert_array_equal(found[:, start + place], found[:, first])
    expected = sk.InferenceSession(model, backend="onnxruntime").run(None, {"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_new_weights_may_repeat_otherwise() -> None:
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((64, 130, 1, 1)).astype(np.float32)
    model = _model("pointwise", 64, weights)
    compiled, x = compile_model(model), _input(model)
    assert compiled.operator is not None
    for place in (5, 40):
        repeated = weights.copy()
        repeated[place:] = weights[place]
        compiled.operator.update_weights({"w": repeated})
        (found,) = compiled(x)
        assert (found[:, place:] == found[:, place : place + 1]).all()
        assert (found[:, place - 1] != found[:, place]).any()


def test_averages_of_equal_channels_are_equal() -> None:
    model = parsed(
        "g (float[1,1003,14,14] x) => (float[1,1003,1,1] y) { y = GlobalAveragePool(x) }"
    )
    x = np.tile(np.random.default_rng(0).standard_normal((1, 1, 14, 14)), (1, 1003, 1, 1))
    (found,) = compile_model(model)(x.astype(np.float32))
    assert len(np.unique(found)) == 1


def test_filters_are_compared_within_their_group_and_zeros_are_left_alone() -> None:
    w = np.array([[1, 2], [1, 2], [3, 4], [1, 2]], np.float32)
    found = find_repeats(w)
    assert found is not None
    assert found.kept.tolist() == [0, 2]
    assert found.places.tolist() == [0, 0, 1, 0]
    found = find_repeats(w, groups=2)
    assert found is not None
    assert found.kept.tolist() == [0, 0, 2, 3]
    assert found.places.tolist() == [0, 0, 2, 3]
    assert find_repeats(w[::2]) is None
    assert find_repeats(w, groups=4) is None
    assert find_repeats(np.zeros((3, 2), np.float32)) is None
    assert find_repeats(np.array([[1, 0, 0, 0, 5], [1, 0, 0, 0, 6]], np.float32)) is None


@pytest.mark.parametrize("seed", range(4))
def test_a_network_of_equal_filters_finds_all_classes_as_likely(seed: int) -> None:
    model = onnx.load(light_models.light_model_path("squeezenet"))
    with sk.InferenceSession(model, backend="numpy") as session:
        (picture,) = session.get_inputs()
        x = np.random.default_rng(seed).random(picture.shape, np.float32)
        (found,) = session.run(None, {picture.name: x})
    np.testing.assert_array_equal(found, np.float32(0.001))
