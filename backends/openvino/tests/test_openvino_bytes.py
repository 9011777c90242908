"""Products of 8-bit numbers are exact, on processors without VNNI, too."""

import numpy as np
import pytest

from backends.openvino.tests.openvino_road import OpenedModel, parsed
from subgraphkit_openvino import library
from subgraphkit_openvino.operator import OpenVINOOperator

_PAIRS = """
  q = QuantizeLinear(x, s, z)
  a = DequantizeLinear(q, s, z)
  b = DequantizeLinear(w, t, o)
  y = """
GRAPHS = {
    "convolution": (
        "g (float[1,64,4,4] x) => (float[1,16,4,4] y) {" + _PAIRS + "Conv(a, b) }",
        (16, 64, 1, 1),
    ),
    "product": ("g (float[4,64] x) => (float[4,16] y) {" + _PAIRS + "MatMul(a, b) }", (64, 16)),
}


def _quantized(graph, dtype):
    """Return a product of the largest numbers of 8 bits, and an input of ones; it finds 64."""
    text, shape = GRAPHS[graph]
    steps = {"s": np.float32(1 / np.iinfo(dtype).max), "t": np.float32(1 / 127)}
    model = parsed(text, w=np.full(shape, 127, np.int8), z=dtype(0), o=np.int8(0), **steps)
    fed = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return model, np.ones(fed, np.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("graph", GRAPHS)
def test_sums_of_the_largest_numbers_of_8_bits_are_not_cut_off(graph, dtype):
    model, x = _quantized(graph, dtype)
    opened = OpenedModel(model)
    np.testing.assert_allclose(opened(x)[0], 64, rtol=1e-5)
    assert isinstance(opened.operator, OpenVINOOperator)
    restored = opened.backend.deserialize(
        opened.operator.serialize(), opened.subgraph, opened.context
    )
    np.testing.assert_allclose(restored.run([x])[0], 64, rtol=1e-5)


@pytest.mark.parametrize("operator", ["MatMulInteger", "ConvInteger", "QLinearMatMul"])
def test_operators_on_integers_are_exact(operator):
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((4, 64), (64, 16))
    if operator == "ConvInteger":
        shapes = (4, 64, 1, 1), (16, 64, 1, 1)
    w = np.full(shapes[1], 127, np.int8)
    constants = {"w": w, "s": np.float32(1 / 64), "z": np.uint8(0), "i": np.int8(0)}
    constants["t"] = np.float32(4)
    is_linear = operator == "QLinearMatMul"
    names = "x, s, z, w, s, i, t, z" if is_linear else "x, w"
    text = f"g (uint8{[*shapes[0]]} x) => (y) {{ y = {operator}({names}) }}"
    model = parsed(text, 18, **constants)
    (found,) = OpenedModel(model)(np.full(shapes[0], 255, np.uint8))
    total = 64 * 255 * 127
    np.testing.assert_array_equal(found, np.rint(total / 64 / 64 / 4) if is_linear else total)


def test_the_processor_is_tried_only_where_bytes_are_multiplied(monkeypatch):
    monkeypatch.setattr(library, "exact_bytes", lambda: pytest.fail("tried"))
    opened = OpenedModel(parsed("g (float[2,8] x) => (float[2,8] y) { y = Exp(x) }"))
    np.testing.assert_allclose(opened(np.zeros((2, 8), np.float32))[0], 1)


def test_a_library_without_the_switch_is_left_as_it_is(monkeypatch):
    def refused(settings):
        if settings:
            raise RuntimeError("no such property")
        return 0.0

    monkeypatch.setattr(library, "_sum_of_bytes", refused)
    assert dict(library.exact_bytes.__wrapped__()) == {}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zeros", [[0], [3], [127], [2, 3], [-1, -4]])
def test_halves_go_to_the_even_step_wherever_zero_lies(dtype, zeros):
    limits = np.iinfo(dtype)
    zero = np.clip(np.array(zeros), limits.min, limits.max).astype(dtype)
    scale = np.array([0.5, 0.25], np.float32)[: len(zeros)]
    kind = "uint8" if dtype is np.uint8 else "int8"
    s, z = (one if len(zeros) > 1 else one.reshape(()) for one in (scale, zero))
    text = f"g (float[N,2] x) => ({kind}[N,2] y) {{ y = QuantizeLinear(x, s, z) }}"
    model = parsed(text, s=s, z=z)
    x = (np.arange(-400, 400, dtype=np.float32) / 8).reshape(-1, 2)
    steps = np.rint(x / scale) + zero
    expected = np.clip(steps, limits.min, limits.max).astype(dtype)
    np.testing.assert_array_equal(OpenedModel(model)(x)[0], expected)
