"""Converters: used where TensorRT would not take the node."""

import re

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from backends.tensorrt.tests.tensorrt_claims import (
    ask,
    divided,
    homes,
    loaded,
    parsed,
    reasons,
    workers,
)
from backends.tensorrt.tests.tensorrt_models import needs_rtx, options
from subgraphkit.errors import BackendError, OptionError, UnclaimedNodesError
from subgraphkit.ir import make_subgraph
from subgraphkit_tensorrt.building.model import prepare_model
from subgraphkit_tensorrt.lowering import (
    Replacement,
    converter,
    identity,
    load_modules,
    lower,
    unregister,
)

pytestmark = needs_rtx

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
TWIST = helper.make_node("Twist", ["a"], ["b"], domain="com.acme", factor=3.0, name="twist")


@pytest.fixture
def twist():
    """Register a converter for an operator of another domain while a test runs."""

    @converter("Twist", domain="com.acme")
    def twisted(node, fresh):
        factor, one, scaled = fresh("factor"), fresh("one"), fresh("scaled")
        values = np.float32(node.attribute("factor")), np.float32(1)
        return Replacement(
            [
                helper.make_node("Mul", [node.inputs[0], factor], [scaled]),
                helper.make_node("Add", [scaled, one], [node.outputs[0]]),
            ],
            [
                onnx.numpy_helper.from_array(np.asarray(value), name)
                for value, name in zip(values, (factor, one), strict=True)
            ],
        )

    yield twisted
    unregister("Twist", domain="com.acme")


def _twisted_model():
    model = parsed("g (float[3,4] x) => (float[3,4] y) { a = Relu(x) c = Tanh(b) y = Neg(c) }")
    model.graph.node.insert(1, TWIST)
    model.graph.value_info.append(
        helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [3, 4])
    )
    return model


@pytest.mark.usefixtures("twist")
def test_a_converter_gives_tensorrt_an_operator_it_lacks():
    graph = loaded(_twisted_model())
    questions, _, _ = ask(graph)
    assert questions.refusals_in(workers(graph)) == {}
    assert homes(divided(_twisted_model())) == {0, 1, 2, 3}
    proto = workers(graph).to_model()
    lower(proto, workers(graph), options(flavour="tensorrt_rtx"))
    assert [one.op_type for one in proto.graph.node] == ["Relu", "Mul", "Add", "Tanh", "Neg"]
    (made,) = ReferenceEvaluator(proto).run(None, {"x": X})
    np.testing.assert_allclose(made, -np.tanh(3 * np.maximum(X, 0) + 1), rtol=1e-6)


@pytest.mark.usefixtures("twist")
def test_engines_are_told_apart_by_their_converters():
    before = identity()
    unregister("Twist", domain="com.acme")
    assert before
    assert identity() != before


def test_without_its_converter_the_operator_stays_elsewhere():
    graph = loaded(_twisted_model())
    questions, _, _ = ask(graph)
    assert list(questions.refusals_in(workers(graph))) == [1]


ATTENTION = """
g (float[1,2,3,8] q, float[1,2,3,8] k, float[1,2,3,8] v) => (float[1,2,3,8] y)
  { y = Attention(q, k, v) }
"""


def test_what_is_converted_is_taken_and_computes_the_same():
    model = parsed(ATTENTION, 23)
    graph = loaded(model)
    questions, _, _ = ask(graph)
    assert questions.refusals_in(workers(graph)) == {}
    proto = workers(graph).to_model()
    lower(proto, workers(graph), options(flavour="tensorrt_rtx"))
    assert "Attention" not in {one.op_type for one in proto.graph.node}
    numbers = np.random.default_rng(0)
    feeds = {name: numbers.normal(size=(1, 2, 3, 8)).astype(np.float32) for name in "qkv"}
    (expected,), (found,) = (ReferenceEvaluator(one).run(None, feeds) for one in (model, proto))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_truth_values_are_counted_in_float32_and_other_whole_numbers_are_left_to_others(dtype):
    text = (
        f"g (bool[2,n] m, {dtype}[2,n] o) => ({dtype}[2,n] y, {dtype}[2,n] z) <int64 axis = {{1}}> "
        f"{{ x = Cast<to = {6 if dtype == 'int32' else 7}>(m) y = CumSum<reverse = 1>(x, axis) "
        "z = CumSum(o, axis) }"
    )
    graph = loaded(parsed(text))
    assert reasons(divided(text, min_subgraph_nodes=1), 2) == [
        f"dtype: CumSum of {dtype}, TensorRT takes float32, float16, bfloat16"
    ]
    counted = make_subgraph(graph, [0, 1], "tensorrt")
    assert ask(graph)[0].refusals_in(counted) == {}
    proto = counted.to_model()
    lower(proto, counted, options(flavour="tensorrt_rtx"))
    assert [one.op_type for one in proto.graph.node] == ["Cast", "Cast", "CumSum", "Cast"]
    m = np.random.default_rng(0).random((2, 9)) < 0.5
    (found,) = ReferenceEvaluator(proto).run(None, {"m": m})
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.cumsum(m[:, ::-1], 1)[:, ::-1])


def test_nodes_in_bodies_go_by_the_node_that_has_them():
    graph = loaded(
        "g (bool c, float[4] x) => (float[4] z) { y = Relu(x) z = If(c) <"
        "then_branch = t () => (float[4] a) { b = Abs(y) a = If(c) <"
        "then_branch = u () => (float[4] d) { d = Neg(b) }, "
        "else_branch = v () => (float[4] e) { e = Exp(b) }> }, "
        "else_branch = w () => (float[4] f) { f = Sqrt(y) }> }"
    )
    names = prepare_model(workers(graph), options(flavour="tensorrt_rtx")).proto.SerializeToString()
    found = sorted(one.decode() for one in re.findall(rb"sgk\d+_\d+_[A-Z][A-Za-z]+", names))
    assert [one.partition("_")[0] for one in found] == ["sgk0", *["sgk1"] * 6]
    assert b"made" not in names


def test_a_window_wider_than_its_padded_input_is_left_to_others():
    body = (
        "g (float[1,2,7,7] x) => (float[1,2,1,1] y) { y = AveragePool"
        "<kernel_shape = [12,12], strides = [12,12], pads = [1,1,1,1], ceil_mode = 1>(x) }"
    )
    found = divided(body, min_subgraph_nodes=1)
    assert reasons(found, 0)[0] == (
        "attribute: AveragePool with a window of 12 x 12 over 7 x 7, which is smaller"
    )


def test_a_converter_that_fails_at_a_node_is_named():
    @converter("Twist", domain="com.acme")
    def brittle(node, fresh):
        if node.name == "twist":
            raise ValueError("not this one")
        return Replacement([helper.make_node("Identity", list(node.inputs), list(node.outputs))])

    try:
        with pytest.raises(BackendError, match="raised ValueError: not this one at node #1"):
            divided(_twisted_model())
    finally:
        unregister("Twist", domain="com.acme")


def test_where_nobody_else_has_an_operator_the_error_says_how_to_write_its_converter():
    with pytest.raises(UnclaimedNodesError, match="SGK120") as caught:
        divided(_twisted_model())
    assert (
        "#1 com.acme::Twist 'twist': tensorrt: op_unsupported: com.acme::Twist is not ONNX's, and "
        "TensorRT for RTX has no plugins; node #1 com.acme::Twist 'twist'. If other operators can "
        'compute it, register a converter: @subgraphkit_tensorrt.lowering.converter("Twist", '
        'domain="com.acme"), in a module that the option modules names; numpy: '
    ) in str(caught.value)


def test_a_module_that_cannot_be_imported_is_told_by_name_and_cause():
    with pytest.raises(OptionError, match=r"SGK168.*'no.such.module'.*ModuleNotFoundError"):
        load_modules(["math", "no.such.module"])
