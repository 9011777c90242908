"""Cutting a region out of a graph."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import subgraphkit as sk
from subgraphkit.ir import boundary, make_subgraph
from tests.models import DIAMOND, LIGHT, LINEAR, bound

SHARED = """
shared (float[2] x) => (float[2] inner, float[2] y) {
  inner = Add(x, x)
  other = Relu(inner)
  y = Neg(other)
}
"""


CLIP = "g (float[2] x, float m) => (float[2] y) { y = Clip(x, , m) }"
SPLIT = "g (float[4] x) => (float[2] y) { a, b = Split<num_outputs=2>(x) y = Relu(a) }"


@pytest.mark.parametrize(
    ("text", "region", "inputs", "outputs", "constants"),
    [
        (SHARED, [0], "x", "inner", ""),
        (SHARED, [0, 1], "x", "inner other", ""),
        (SHARED, [0, 1, 0], "x", "inner other", ""),
        (DIAMOND, range(4), "x", "y", ""),
        (LINEAR, [1], "product", "y", "bias"),
        (CLIP, [0], "x m", "y", ""),
        (SPLIT, [0], "x", "a", ""),
    ],
    ids=["one", "an output", "twice", "whole", "weights", "inputs left out", "outputs unread"],
)
def test_the_boundary_of_a_region(text, region, inputs, outputs, constants):
    found = boundary(bound(text), region)
    assert found == tuple(tuple(names.split()) for names in (inputs, outputs, constants))


def test_a_constant_node_elsewhere_is_a_constant_here():
    graph = bound("g (float[2] x) => (float[2] y) {c = Constant<value_float=2.0>() y = Mul(x, c)}")
    subgraph = make_subgraph(graph, [1], "fake")
    assert subgraph.inputs == ("x",)
    assert [node.op_type for node in subgraph.members] == ["Mul"]
    assert subgraph.constants["c"].array() == 2.0


def test_a_subgraph_is_named_after_its_backend_and_first_node():
    assert make_subgraph(bound(DIAMOND), [2, 3], "fake").id == "fake_2"


@pytest.mark.parametrize("name", ["resnet50", "shufflenet", "inception_v1"])
def test_a_part_of_a_real_model_is_a_valid_model_of_its_own(name):
    graph = sk.bind(sk.load(LIGHT / f"light_{name}.onnx"), backend="none")
    size = len(graph.nodes)
    subgraph = make_subgraph(graph, graph.order[size // 3 : 2 * size // 3], "fake")
    onnx.checker.check_model(subgraph.to_model(), full_check=True)


def test_a_subgraph_with_a_body_carries_what_the_body_captures():
    graph = bound(
        """g (bool c, float[2] x) => (float[2] y) <float[2] w = {3, 4}> {
        a = Relu(x)
        y = If (c) <then_branch = t () => (float[2] p) { p = Add(a, w) },
                    else_branch = e () => (float[2] q) { q = Neg(a) }> }"""
    )
    subgraph = make_subgraph(graph, [1], "fake")
    assert subgraph.inputs == ("c", "a")
    model = subgraph.to_model()
    onnx.checker.check_model(model, full_check=True)
    a = np.array([1, 2], np.float32)
    (y,) = ReferenceEvaluator(model).run(None, {"c": np.array([1], bool).reshape(()), "a": a})
    np.testing.assert_array_equal(y, [4, 6])
