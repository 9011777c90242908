"""Graph passes of extensions: what they replace, what is checked, and who sees it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

import subgraphkit as sk
from subgraphkit.backend import Edit
from subgraphkit.comparing import verify
from subgraphkit.errors import BackendError
from subgraphkit.ir import BoundGraph
from tests.fakes import claiming
from tests.models import parsed

MODEL = parsed("""
silus (float[N, 4] x, bool late) => (float[N, 4] y, float[N, 4] z) <float[1] one = {1}> {
  s = Sigmoid (x)
  silu = Mul (x, s)
  d = Add (silu, one)
  y = Relu (d)
  z = If (late) <then_branch = a () => (float[N, 4] t) { t = Neg (silu) },
                 else_branch = b () => (float[N, 4] e) { e = Identity (silu) }>
}
""")
FEEDS = {"x": np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4), "late": np.ones((), bool)}

Edits = Callable[[BoundGraph], Any]


class Pass:
    """A graph pass that does what the test says."""

    def __init__(self, edits):
        self.edits = edits

    @sk.hookimpl
    def subgraphkit_edits(self, graph):
        return self.edits(graph)


@pytest.fixture
def run_pass():
    def register(edits):
        sk.register_extension(Pass(edits), "fuse")

    register(lambda _: [])
    yield register
    sk.unregister_extension("fuse")


def silus(graph, replacement=()):
    """Put one node in the place of each product of a value and its sigmoid."""
    for node in graph.nodes:
        if node.op_type == "Mul":
            sigmoid = graph.nodes[graph.producers[node.inputs[1]]]
            fused = helper.make_node("Silu", [node.inputs[0]], [*node.outputs], domain="com.acme")
            yield Edit([sigmoid.id, node.id], replacement or [fused], reason="fused into Silu")


class Silu(sk.SubgraphOperator):
    def run(self, inputs, outputs=None):
        return [inputs[0] / (1 + np.exp(-inputs[0]))]


Acme = claiming(["com.acme::Silu"], "acme", make=lambda _: Silu())


def test_a_pass_puts_an_operator_of_its_own_in_the_place_of_nodes(run_pass):
    expected = sk.InferenceSession(MODEL, "numpy").run(None, FEEDS)
    run_pass(silus)
    with sk.InferenceSession(MODEL, [Acme, "numpy"]) as session:
        assert str(session.graph.types["silu"]) == "float32[N,4]"
        for found, wanted in zip(session.run(None, FEEDS), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
        partitioning = session.partitioning
        assert [s.backend for s in partitioning.subgraphs].count("acme") == 1
        text = str(partitioning.explain(1))
        assert "replaced by extension 'fuse': fused into Silu" in text
        assert "2 nodes replaced by extension 'fuse': fused into Silu" in partitioning.report(
            details=True
        )


def test_without_the_pass_the_graph_is_as_it_was(run_pass):
    run_pass(silus)
    bound = sk.bind(MODEL, backend="numpy", block=["fuse"])
    assert not bound.left_out
    assert "Sigmoid" in {node.op_type for node in bound.nodes}


def test_nodes_are_replaced_by_nodes_and_constants(run_pass):
    def halve(graph):
        (node,) = (node for node in graph.nodes if node.op_type == "Relu")
        halved = helper.make_node("Mul", [node.inputs[0], "half"], [*node.outputs])
        return [Edit([node.id], [halved], {"half": np.float32(0.5)})]

    run_pass(halve)
    with sk.InferenceSession(MODEL, "numpy") as session:
        y = session.run(["y"], FEEDS)[0]
    silu = FEEDS["x"] / (1 + np.exp(-FEEDS["x"]))
    np.testing.assert_allclose(y, (silu + 1) / 2, rtol=1e-6)


def test_the_reference_of_a_check_is_the_model_as_it_was(run_pass):
    wrong = helper.make_node("Neg", ["x"], ["silu"])
    run_pass(lambda graph: silus(graph, [wrong]))
    assert verify(MODEL, FEEDS, backend="onnxruntime,numpy", reference="numpy").outcome == "differs"


@pytest.mark.parametrize("isolate", ["none", "all"])
def test_other_processes_and_bundles_have_what_the_pass_made_of_it(run_pass, tmp_path, isolate):
    twice = helper.make_node("Add", ["x", "x"], ["silu"])
    run_pass(lambda graph: silus(graph, [twice]))
    with sk.InferenceSession(MODEL, "onnxruntime,numpy", isolate=isolate) as session:
        (y,) = session.run(["y"], FEEDS)
        session.export(tmp_path / "bundle")
    np.testing.assert_allclose(y, np.maximum(2 * FEEDS["x"] + 1, 0), rtol=1e-6)
    run_pass(lambda graph: [Edit([graph.nodes[0].id], [])])  # which would leave no graph
    with sk.InferenceSession(tmp_path / "bundle") as opened:
        np.testing.assert_array_equal(opened.run(["y"], FEEDS)[0], y)


def node(op_type, *inputs, outputs=("silu",), **attributes):
    return helper.make_node(op_type, inputs, outputs, **attributes)


@pytest.mark.parametrize(("edits", "text"), [
    (lambda _: 1 // 0, "raised ZeroDivisionError"),
    (lambda _: ["Mul"], "expected an Edit"),
    (lambda _: [Edit([99], [])], "no node of number 99"),
    (lambda _: [Edit([0], []), Edit([0], [])], "two edits replace node"),
    (lambda _: [Edit([1], ["Mul"])], "raised"),
    (lambda _: [Edit([1], [])], "'silu'"),
    (lambda _: [Edit([1], [node("Nought", "x")])], "operator 'Nought'"),
    (lambda _: [Edit([1], [node("Neg")])], "input"),
    (lambda _: [Edit([1], [node("Neg", "y")])], "cycle"),
    (lambda _: [Edit([1], [node("Neg", "nowhere")])], "'nowhere'"),
    (lambda _: [Edit([1], [node("Neg", "x", outputs=["silu", "s"])])], "output"),
    (lambda _: [Edit([], [node("Neg", "x", outputs=["s"])])], "'s'"),
    (lambda _: [Edit([], [], {"one": np.zeros(1)})], "'one'"),
    (lambda _: [Edit([], [], {"y": np.zeros(1)})], "'y'"),
    (lambda _: [Edit([], [], {"x": np.zeros(1)})], "'x'"),
    (lambda _: [Edit([1], [node("Cast", "x", to=7)])], "int64"),
    (lambda _: [Edit([1], [node("Transpose", "x")])], "'silu' would be float32[4,N]"),
])  # fmt: skip
def test_a_wrong_edit_is_the_fault_of_its_author(run_pass, edits, text):
    run_pass(edits)
    with pytest.raises(BackendError, match="SGK224") as caught:
        sk.bind(MODEL, {"N": 2} if "4,N" not in text else {"N": 3}, backend="numpy")
    assert text.replace("4,N", "4,3") in caught.value.message
    assert caught.value.backend == "fuse"
