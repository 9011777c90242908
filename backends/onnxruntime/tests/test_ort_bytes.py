"""Products of 8-bit numbers are exact, on processors without VNNI, too."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from backends.onnxruntime.tests.ort_models import homes, open_ort, parsed, refusals
from subgraphkit_onnxruntime.deviations import cuts_products_off

PRODUCT = """
g (float[4, 64] x) => (float[4, 16] y)
<float s = {0.00787401574}, int8 z = {0}> {
  q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) b = DequantizeLinear(w, s, z)
  y = MatMul(a, b)
}
"""
CONVOLUTION = """
g (float[1, 64, 4, 4] x) => (float[1, 16, 4, 4] y)
<float s = {0.00787401574}, int8 z = {0}, float t = {1.0}> {
  q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) b = DequantizeLinear(w, s, z)
  c = Conv(a, b)
  d = QuantizeLinear(c, t, z)
  y = DequantizeLinear(d, t, z)
}
"""
TWO = """
g (float[4, 64] x) => (float[4, 64] y)
<float s = {0.00787401574}, int8 z = {0}, float t = {1.0}> {
  q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) b = DequantizeLinear(w, s, z)
  c = MatMul(a, b)
  d = QuantizeLinear(c, t, z)
  e = DequantizeLinear(d, t, z)
  v = Transpose <perm = [1, 0]> (u)
  f = DequantizeLinear(v, s, z)
  g = MatMul(e, f)
  h = QuantizeLinear(g, t, z)
  y = DequantizeLinear(h, t, z)
}
"""
INTEGERS = "g (uint8[4, 64] x%s) => (int32[4, 16] y) { y = MatMulInteger(x, w) }"


def _with_weight(text, shape, **others):
    return parsed(text, w=np.full(shape, 127, np.int8), **others)


@pytest.mark.parametrize(
    ("text", "shape", "feed"),
    [(PRODUCT, (64, 16), (4, 64)), (CONVOLUTION, (16, 64, 1, 1), (1, 64, 4, 4))],
    ids=["product", "convolution"],
)
def test_sums_of_the_largest_int8_are_not_cut_off(text, shape, feed):
    with open_ort(_with_weight(text, shape), "onnxruntime") as session:
        (found,) = session.run(None, {"x": np.ones(feed, np.float32)})
    np.testing.assert_allclose(found, 64, rtol=1e-5)


def test_weights_that_share_a_zero_point_stay_in_one_session():
    with open_ort(_with_weight(TWO, (64, 64), u=np.eye(64, dtype=np.int8) * 127)) as session:
        assert {backend for backend, _ in homes(session)} == {"onnxruntime"}
        (found,) = session.run(None, {"x": np.ones((4, 64), np.float32)})
    np.testing.assert_allclose(found, 64, rtol=1e-5)


@pytest.mark.parametrize("operator", ["QLinearConv", "QLinearMatMul"])
def test_int8_times_the_largest_int8_is_exact(operator):
    x, w = np.full((4, 64), 127, np.int8), np.full((64, 16), 127, np.int8)
    if operator == "QLinearConv":
        x, w = x.reshape(4, 64, 1, 1), w.T.reshape(16, 64, 1, 1)
    text = (
        f"g (int8{list(x.shape)} x) => (y) "
        "<float s = {0.015625}, int8 z = {0}, float t = {4.0}> "
        f"{{ y = {operator}(x, s, z, w, s, z, t, z) }}"
    )
    with open_ort(parsed(text, opset=13, w=w)) as session:
        assert len(session.partitioning.subgraphs) == 1
        (found,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(found, round(64 * 127 * 127 / 64**2 / 4))


def test_bytes_times_constant_int8_are_exact():
    with open_ort(_with_weight(INTEGERS % "", (64, 16)), "onnxruntime") as session:
        (found,) = session.run(None, {"x": np.full((4, 64), 255, np.uint8)})
    np.testing.assert_array_equal(found, 64 * 255 * 127)


def _three(operator):
    """Return a product of bytes and int8, both fed, and feeds that 16 bits do not hold."""
    x, w = np.full((4, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    if operator == "MatMulInteger":
        return parsed(INTEGERS % ", int8[64, 16] w"), {"x": x, "w": w}
    if operator == "QLinearConv":
        x, w = x.reshape(4, 64, 1, 1), w.T.reshape(16, 64, 1, 1)
    constants = {"s": np.float32(1 / 64), "z": np.uint8(0), "i": np.int8(0), "t": np.float32(4)}
    node = f"y = {operator}(x, s, z, w, s, i, t, z)"
    text = f"g (uint8{[*x.shape]} x, int8{[*w.shape]} w) => (y) {{ {node} }}"
    return parsed(text, **constants), {"x": x, "w": w}


@pytest.mark.parametrize("operator", ["MatMulInteger", "QLinearMatMul", "QLinearConv"])
def test_bytes_times_int8_that_are_fed_are_exact_wherever_they_run(operator):
    model, feeds = _three(operator)
    with open_ort(model) as session:
        (found,) = session.run(None, feeds)
        assert homes(session) == [("numpy" if cuts_products_off() else "onnxruntime", (0,))]
        assert [code for code, _ in refusals(session)] == ["deviates"] * cuts_products_off()
    total = 64 * 255 * 127
    np.testing.assert_array_equal(
        found, total if operator == "MatMulInteger" else np.rint(total / 64 / 64 / 4)
    )


def test_who_wants_the_faster_products_may_have_them():
    config = ["session.x64quantprecision=0"]
    model = _with_weight(INTEGERS % "", (64, 16))
    with open_ort(model, "onnxruntime", session_config=config) as session:
        (found,) = session.run(None, {"x": np.full((4, 64), 255, np.uint8)})
    assert (found != 64 * 255 * 127).any() == cuts_products_off()


ALONE = """
g (float[4, 64] x) => (float[4, 16] y) <float s = {0.0078}, %s z = {0}>
{ a = DequantizeLinear(w, s, z) y = MatMul(x, a) }
"""


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_fractions_times_dequantized_weights_are_not_rounded_unless_asked_for(bits, *, rounded):
    kind = {4: TensorProto.INT4, 8: TensorProto.INT8}[bits]
    model = parsed(ALONE % TensorProto.DataType.Name(kind).lower(), opset=21)
    w = np.random.default_rng(1).integers(-8, 8, (64, 16))
    model.graph.initializer.append(helper.make_tensor("w", kind, w.shape, w.reshape(-1)))
    x = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
    entry = {"session_config": ["session.qdq_matmulnbits_accuracy_level=4"]} if rounded else {}
    with open_ort(model, **entry) as session:
        assert homes(session) == [("onnxruntime", (0, 1))]
        (y,) = session.run(None, {"x": x})
    difference = np.abs(y - x @ (w.astype(np.float32) * np.float32(0.0078))).max()
    assert difference < 1e-5 or rounded
