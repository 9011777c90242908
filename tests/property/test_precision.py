"""Whatever the graph: what is written is valid, has the same edge, and is not written again."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk
from subgraphkit.precision import Precision, calibrate, rewrite
from subgraphkit.testing.small_models import random_graph
from subgraphkit.testing.variants import without_foreign

KINDS = ("fp16", "bf16")


def edge(model):
    values = (*model.graph.input, *model.graph.output)
    return [(v.name, v.type.SerializeToString(deterministic=True)) for v in values]


def check_rewriting(model, wanted, ranges):
    before = model.SerializeToString(deterministic=True)
    done = rewrite(model, wanted, ranges)
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(done.model, full_check=True)
    assert edge(done.model) == edge(model)
    again = rewrite(done.model, wanted, ranges)
    assert again.model == done.model
    assert again.casts == 0
    return done


def check_results(model, rewritten, feeds, part):
    with sk.InferenceSession(model, backend="numpy") as session:
        expected = session.run(None, feeds)
    with sk.InferenceSession(rewritten, backend="numpy") as session:
        got = session.run(None, feeds)
    size = max(1.0, *(float(np.abs(one).max()) for one in expected))
    for one, other in zip(expected, got, strict=True):
        assert one.dtype == other.dtype
        assert np.abs(one - other).max() <= part * size


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), keep=st.sampled_from([(), ("Tanh",), ("Transpose|Add",)]))
def test_random_graphs_stay_valid_and_close_in_short_floats(kind, seed, keep):
    graph = random_graph(seed)
    model = without_foreign(graph.proto)
    done = check_rewriting(model, Precision(kind, keep=keep), None)
    assert done.lowered
    # forty layers at most, of which differences of nearly equal values lose most
    check_results(model, done.model, graph.feeds(), {"fp16": 0.02, "bf16": 0.2}[kind])


LAYERS = st.lists(
    st.sampled_from(["conv", "conv_bn_relu", "residual", "branch", "pool", "depthwise", "scale"]),
    min_size=1,
    max_size=7,
)


class Growing:
    """A network of 16 channels while layers are added."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def stored(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def add(self, operator, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def conv(self, value, group=1, read=16):
        kernel = self.rng.standard_normal((16, read // group, 3, 3)) / np.sqrt(read * 9 / group)
        bias = self.stored(self.rng.standard_normal(16) / 4)
        return self.add("Conv", value, self.stored(kernel), bias, pads=[1] * 4, group=group)

    def conv_bn_relu(self, value):
        facts = [self.stored(self.rng.uniform(0.5, 1.5, 16)) for _ in range(4)]
        return self.add("Relu", self.add("BatchNormalization", self.conv(value), *facts))

    def residual(self, value):
        return self.add("Add", value, self.conv(self.add("Relu", self.conv(value))))

    def branch(self, value):
        joined = self.add("Concat", self.conv(value), self.add("Relu", value), axis=1)
        return self.conv(joined, read=32)

    def pool(self, value):
        return self.add("MaxPool", value, kernel_shape=[3, 3], pads=[1] * 4)

    def depthwise(self, value):
        return self.add("Clip", self.conv(value, 16), self.stored(-6), self.stored(6))

    def scale(self, value):
        return self.add("Mul", value, self.stored(0.5))


def convolutional(layers, seed):
    """Make a network of 16 channels that ends in a matrix product."""
    net = Growing(seed)
    value = "x"
    for kind in layers:
        value = getattr(net, kind)(value)
    flat = net.add("Flatten", net.add("GlobalAveragePool", value))
    made = net.add("MatMul", flat, net.stored(net.rng.standard_normal((16, 24)) / 4))
    graph = helper.make_graph(
        net.nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16, 6, 6])],
        [helper.make_tensor_value_info(made, TensorProto.FLOAT, ["N", 24])],
        net.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@settings(max_examples=25)
@given(layers=LAYERS, seed=st.integers(0, 2**32), high=st.sampled_from(["fp32", "fp16"]))
def test_random_networks_stay_valid_and_close_in_int8(layers, seed, high):
    model = convolutional(layers, seed)
    rng = np.random.default_rng(seed)
    batches = [{"x": rng.standard_normal((4, 16, 6, 6)).astype(np.float32)} for _ in range(2)]
    ranges = calibrate(model, batches, method="minmax")
    done = check_rewriting(model, Precision("int8", high_precision=high), ranges)
    assert done.quantized
    check_results(model, done.model, batches[0], 0.15)
