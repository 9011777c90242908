"""What a graph answers about its nodes and values."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import InvalidModelError
from subgraphkit.types import DataType
from tests.models import CHAIN, DIAMOND, LINEAR, bound, parsed

BRANCH = """
branch (bool c, float[2] x) => (float[2] y) {
  outer = Relu(x)
  y = If (c) <
    then_branch = then () => (float[2] t) { t = Neg(outer) },
    else_branch = other () => (float[2] e) { e = Identity(x) }
  >
}
"""


def test_nodes_are_numbered_by_their_place_in_the_file():
    graph = sk.load(parsed(DIAMOND)).graph
    assert [node.op_type for node in graph.nodes] == ["Relu", "Neg", "Abs", "Add"]
    assert [node.id for node in graph.nodes[1:3]] == [1, 2]
    assert graph.nodes[-1].label == "#3 Add"


def test_a_node_knows_its_neighbours():
    relu, neg, abs_, add = sk.load(parsed(DIAMOND)).graph.nodes
    assert relu.consumers() == (neg, abs_)
    assert add.producer(0) == neg
    assert relu.producer(0) is None
    assert len({relu, *relu.graph.nodes}) == 4


def test_a_bound_node_knows_dtypes_and_shapes():
    relu = bound(CHAIN, N=5).nodes[0]
    assert relu.dtype() is DataType.FLOAT
    assert relu.shape() == (5, 4)
    assert str(relu.output_type()) == "float32[5,4]"
    assert relu.dtype(7) is DataType.UNDEFINED
    assert relu.shape(7) is None


def test_weights_are_constants_and_not_dependencies():
    matmul, add = sk.load(parsed(LINEAR)).graph.nodes
    assert matmul.is_constant(1)
    assert not matmul.is_constant(0)
    np.testing.assert_array_equal(add.constant(1), [10, 20])
    assert matmul.constant(0) is None
    with pytest.raises(ValueError, match="read-only"):
        add.constant(1)[0] = 1  # type: ignore[index]


def test_an_array_that_somebody_holds_is_not_read_again():
    graph = sk.load(parsed(LINEAR)).graph
    held = graph.initializers["w"].array()
    assert graph.initializers["w"].array() is held


def test_names_captured_by_bodies_are_dependencies():
    graph = sk.load(parsed(BRANCH)).graph
    relu, branch = graph.nodes
    assert branch.captures == ("outer", "x")
    assert relu.consumers() == (branch,)
    assert set(branch.bodies) == {"then_branch", "else_branch"}


def test_values_inside_bodies_are_typed_when_bound():
    body = bound(BRANCH).nodes[1].bodies["then_branch"]
    assert body.dtype("t") is DataType.FLOAT
    assert body.captures == ("outer",)


def test_an_inner_binding_hides_the_outer_one():
    text = BRANCH.replace("t = Neg(outer)", "outer = Neg(x) t = Relu(outer)")
    assert sk.load(parsed(text)).graph.nodes[1].captures == ("x",)


def test_a_file_in_the_wrong_order_is_put_into_a_right_one():
    graph = sk.load(parsed("g (float x) => (float y) { y = Relu(a) a = Neg(x) }")).graph
    assert list(graph.order) == [1, 0]


@pytest.mark.parametrize(("body", "code", "told"), [
    ("a = Add(x, b) b = Relu(a) y = Relu(b)", "SGK203", "cycle of 2 nodes"),
    ("a = Relu(a) y = Relu(x)", "SGK203", "cycle of 1 node:"),
    ("y = Relu(x) y = Neg(x)", "SGK204", "node #0 Relu and by node #1 Neg"),
    ("x = Relu(x) y = Relu(x)", "SGK204", "an input or initializer"),
    ("y = Relu(nothing)", "SGK205", "read by node #0 Relu but nothing makes it"),
    ("z = Relu(x)", "SGK205", "'y' of graph 'g' is read by the graph's outputs"),
])  # fmt: skip
def test_a_graph_that_breaks_a_rule_is_refused(body, code, told):
    with pytest.raises(InvalidModelError) as refusal:
        sk.load(parsed(f"g (float x) => (float y) {{ {body} }}"))
    assert refusal.value.code == code
    assert told in str(refusal.value)
