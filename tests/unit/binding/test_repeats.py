"""Nodes that compute what another node computed already."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import WeightUpdateError
from tests.models import parsed

TWICE = """
g (float[2, 400] x) => (float[2, 3] y) {
  v = Identity(w) a = Constant<value = float {2}>() b = Constant<value = float {2}>()
  t = Transpose(w) u = Transpose(v) p = MatMul(x, t) q = MatMul(x, u) r = Mul(p, a) s = Mul(q, b)
  y = Add(r, s)
}
"""


def twice():
    return parsed(TWICE, w=np.ones((3, 400), np.float32))


def test_what_a_network_computes_twice_is_computed_once():
    graph = sk.bind(sk.load(twice()), backend="numpy")
    assert graph.left_out[4] == "the same as #3 Transpose"
    assert graph.left_out[6] == "the same as #5 MatMul"
    assert graph.nodes[9].inputs == ("r", "r")
    assert [node for node in graph.order if not graph.is_constant_node(node)] == [5, 7, 9]
    assert sk.bind(sk.load(twice()), backend="numpy", outputs=["s"]).outputs == ("s",)


def test_weights_are_replaced_for_both_and_what_became_one_is_not_replaced():
    session = sk.InferenceSession(twice(), "numpy")
    session.update_weights({"w": np.full((3, 400), 2, np.float32)})
    assert session.run(None, {"x": np.ones((2, 400), np.float32)})[0].tolist() == [[3200.0] * 3] * 2
    for name in ("a", "b", "t", "u", "v"):
        with pytest.raises(WeightUpdateError, match="at bind"):
            session.update_weights({name: np.zeros(())})


@pytest.mark.parametrize("nodes", [
    "p = Mul(x, a) q = Mul(x, b)",
    "p = LeakyRelu<alpha=0.1>(x) q = LeakyRelu<alpha=0.2>(x)",
    "p = Sub(x, a) q = Sub(a, x)",
    "p = RandomNormalLike(x) q = RandomNormalLike(x)",
    "p = Gelu(x) q = com.microsoft.Gelu(x)",
    "p = com.microsoft.Gelu(x) q = Gelu(x)",
    "p, m = TopK(x, k) q, n = TopK<largest=0>(x, k)",
    "p = Exp(x) z = Exp(x) q = Neg(z)",
    "q, z = MaxPool<kernel_shape=[1]>(x) p, = MaxPool<kernel_shape=[1]>(x)",
    "p, = MaxPool<kernel_shape=[1]>(x) q, z = MaxPool<kernel_shape=[1]>(x)",
])  # fmt: skip
def test_what_differs_or_is_random_or_an_output_stays(nodes):
    z = ", int64[1, 1, 2] z" if "MaxPool" in nodes else ", z" if "z =" in nodes else ""
    weights = "<float a = {1}, float b = {1}, int64[1] k = {1}>"
    text = f"g (float[1, 1, 2] x) => (y{z}) {weights} {{ {nodes} y = Add(p, q) }}"
    proto = parsed(text, opset=20, imports='"com.microsoft" : 1')
    assert not sk.bind(sk.load(proto), backend="none").left_out


@pytest.mark.parametrize("nodes", [
    "a, b = Split(w, s)",
    "c = Constant<value = double[2] {1, 2}>() b = Identity(c)",
])  # fmt: skip
def test_parts_and_copies_of_what_is_stored_are_read(nodes):
    text = f"g (double x) => (y) <double[2] w = {{1, 2}}, int64[2] s = {{0, 2}}> {{ {nodes} "
    with sk.InferenceSession(parsed(text + "y = Add(b, x) }"), "numpy") as session:
        assert session.run(None, {"x": np.float64(1)})[0].tolist() == [2, 3]
