"""int8: what lies between products, beside them, and what is too fine for it."""

import numpy as np
import pytest

from subgraphkit.precision import Range, Ranges
from tests.unit.rewriting import quantizing_nets as nets


def activated(net, value, kind):
    """Add what follows a product in its kernel, or is too fine for int8."""
    if kind == "silu":
        return net.add("Mul", [value, net.add("Sigmoid", [value], "sigmoid")], "e")
    if kind == "gelu":
        erf = net.add("Erf", [net.add("Div", [value, np.array(1.4142)], "d")], "erf")
        scaled = net.add("Mul", [value, net.add("Add", [erf, np.array(1)], "plus")], "scaled")
        return net.add("Mul", [scaled, np.array(0.5)], "e")
    if kind == "layernorm":
        return net.add("LayerNormalization", [value, np.ones(16), np.zeros(16)], "e", axis=-1)
    if kind == "relu, pool":
        pooled = net.add("Relu", [value], "relu")
        return net.add("MaxPool", [pooled], "e", kernel_shape=[1, 1])
    extra = {"Clip": [np.array(0), np.array(6)], "BiasAdd": [np.ones((16, 1, 1))]}
    operator = "Add" if kind == "BiasAdd" else kind
    return net.add(operator, [value, *extra.get(kind, [])], "e")


@pytest.mark.parametrize("kind", [
    *("BiasAdd", "Relu", "LeakyRelu", "Clip", "silu", "relu, pool"),
    *("Softmax", "gelu", "layernorm", "Transpose"),
])  # fmt: skip
def test_nothing_lies_between_a_product_and_what_follows_it_in_its_kernel(kind):
    net = nets.Net([1, 16, 16, 16])
    a = net.add("Conv", ["x", nets.kernel(16, 16)], "a")
    e = activated(net, a, kind)
    net.add("Conv", [e, nets.kernel(16, 16)], "y")
    names = {name for node in net.nodes for name in node.output} | {"x"}
    done = nets.quantized(net.model("y"), nets.ranges_of(**dict.fromkeys(names, 1.0)))
    found = nets.sources(done)
    between = [name for name in found if name in names - {"a", "y"}]
    assert all(nets.DQ not in found[name] for name in between)
    assert found["y"] == [nets.DQ, nets.DQ]
    assert [n.op_type for n in done.model.graph.node].count("QuantizeLinear") == 2


def test_the_stream_that_a_transformer_adds_to_stays_as_it_is():
    net = nets.Net([4, 32])
    a = net.add("MatMul", ["x", nets.RNG.standard_normal((32, 32))], "a")
    b = net.add("Add", [a, np.ones(32)], "b")
    done = nets.quantized(net.model(net.add("Add", ["x", b], "y")), nets.ranges_of(x=1, a=1, b=1))
    assert done.quantized == ("a",)
    assert nets.sources(done)["y"] == ["", "Add"]


def test_a_product_whose_input_int8_would_hold_badly_stays_unless_that_is_allowed():
    net = nets.Net([4, 32])
    a = net.add("MatMul", ["x", nets.RNG.standard_normal((32, 32))], "a")
    net.add("MatMul", [a, nets.RNG.standard_normal((32, 32))], "y")
    ranges = Ranges(
        {"x": Range(1.0, "mse", 1, -1.0, 1.0, 35.0), "a": Range(40.0, "mse", 1, -40.0, 40.0, 12.0)}
    )
    done = nets.quantized(net.model("y"), ranges)
    assert done.quantized == ("a",)
    assert [(one.node, one.code) for one in done.kept] == [("y", "coarse")]
    assert "12.0 dB" in done.kept[0].text
    assert nets.quantized(net.model("y"), ranges, min_input_snr=0.0).quantized == ("a", "y")


def residual(first, second):
    """Return a block whose shortcut is plain, or has a product of its own."""
    net = nets.Net([1, 16, 4, 4])
    r = net.add("Relu", ["x"], "r")
    a = net.add("Conv", [r, nets.kernel(16, 16)], "a")
    b = net.add("Conv", [net.add("Relu", [a], "ra"), nets.kernel(16, 16)], first)
    shortcut = r if second is None else net.add("Conv", [r, nets.kernel(16, 16)], second)
    return net.model(net.add("Add", [shortcut, b], "y"))


def test_only_the_shortcut_of_a_residual_add_is_quantized():
    done = nets.quantized(residual("b", None), nets.ranges_of(r=1, ra=1, b=1))
    assert nets.sources(done)["y"] == [nets.DQ, "Conv"]
    assert "y" in done.quantized


def test_a_sum_of_values_that_no_product_makes_is_left_alone():
    net = nets.Net([1, 16, 4, 4])
    a = net.add("Conv", ["x", nets.kernel(16, 16)], "a")
    r = net.add("Relu", [a], "r")
    done = nets.quantized(net.model(net.add("Add", [r, "x"], "y")), nets.ranges_of(x=1, r=1, a=1))
    assert nets.sources(done)["y"] == ["Relu", ""]


def test_values_that_a_concat_joins_share_one_scale():
    net = nets.Net([1, 16, 4, 4])
    a, b = (net.add("Relu", [net.add("Neg", ["x"], f"n{i}")], f"r{i}") for i in "ab")
    net.add("Conv", [a, nets.kernel(16, 16)], "ya")
    net.add("Conv", [b, nets.kernel(16, 16)], "yb")
    joined = net.add("Concat", [a, b], "j", axis=1)
    net.add("Conv", [joined, nets.kernel(16, 32)], "yj")
    done = nets.quantized(net.model("ya", "yb", "yj"), nets.ranges_of(ra=1, rb=2, j=1.5))
    assert {nets.scale_of(done, name) for name in ("ra", "rb", "j")} == {np.float32(2 / 127)}
