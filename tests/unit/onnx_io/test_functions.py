"""Model-local functions are inlined, within reason."""

import onnx
import pytest
from onnx import helper, parser

import subgraphkit as sk
from subgraphkit.errors import InvalidModelError, UnsupportedModelError

HEADER = '<ir_version: 10, opset_import: ["": 18, "local": 1]>'
FUNCTION = '<domain: "local", opset_import: ["": 18, "local": 1]>'


def model(*functions: str, body: str = "y = local.Twice(x)") -> onnx.ModelProto:
    text = "\n".join(f"{FUNCTION}\n{function}" for function in functions)
    return parser.parse_model(f"{HEADER}\ng (float[2] x) => (float[2] y) {{ {body} }}\n{text}")


def test_calls_are_replaced_by_the_nodes_of_the_function() -> None:
    twice = "Twice (a) => (b) { c = Add(a, a) b = Relu(c) }"
    graph = sk.load(model(twice, body="z = local.Twice(x) y = local.Twice(z)")).graph
    assert [node.op_type for node in graph.nodes] == ["Add", "Relu", "Add", "Relu"]


def test_functions_may_call_functions() -> None:
    graph = sk.load(
        model("Twice (a) => (b) { b = local.Inner(a) }", "Inner (a) => (b) { b = Neg(a) }")
    ).graph
    assert [node.op_type for node in graph.nodes] == ["Neg"]


@pytest.mark.parametrize(
    "functions",
    [
        ["Twice (a) => (b) { b = local.Twice(a) }"],
        ["Twice (a) => (b) { b = local.Inner(a) }", "Inner (a) => (b) { b = local.Twice(a) }"],
    ],
)
def test_functions_that_call_each_other_in_a_circle_are_refused(functions: list[str]) -> None:
    with pytest.raises(InvalidModelError, match=r"SGK212.*Twice"):
        sk.load(model(*functions))


def test_calls_that_multiply_beyond_reason_are_refused_before_they_are_inlined() -> None:
    calls = " ".join(f"t{i} = local.F1({'a' if i == 0 else f't{i - 1}'})" for i in range(10))
    functions = [f"Twice (a) => (b) {{ {calls} b = Relu(t9) }}"]
    for level in range(1, 9):
        inner = calls.replace("F1", f"F{level + 1}")
        functions.append(f"F{level} (a) => (b) {{ {inner} b = Relu(t9) }}")
    functions.append("F9 (a) => (b) { b = Relu(a) }")
    with pytest.raises(UnsupportedModelError, match="nodes once its functions are inlined; the li"):
        sk.load(model(*functions))


def test_constants_that_calls_multiply_count_as_well() -> None:
    calls = [
        f"F{i} (a) => (b) {{ t = local.F{i + 1}(a) b = local.F{i + 1}(t) }}" for i in range(10)
    ]
    proto = model("Twice (a) => (b) { b = local.F0(a) }", *calls, "F10 (a) => (b) { b = Relu(a) }")
    assert len(sk.load(proto).graph.nodes) > 1 << 9
    constant = helper.make_node("Constant", [], ["c"], value_floats=[0.5] * 100_000)
    proto.functions[-1].node.append(constant)
    with pytest.raises(UnsupportedModelError, match="SGK216"):
        sk.load(proto)


def test_operator_sets_that_only_functions_import_come_along() -> None:
    imports = '<domain: "local", opset_import: ["": 18, "ai.onnx.ml": 3]>'
    proto = parser.parse_model(
        f"{HEADER}\ng (float[2] x) => (float[2] y) {{ y = local.Over(x) }}\n"
        f"{imports}\nOver (a) => (b) {{ b = ai.onnx.ml.Binarizer <threshold = 1.0> (a) }}"
    )
    graph = sk.load(proto).graph
    assert graph.nodes[0].qualified_op_type == "ai.onnx.ml::Binarizer"
    assert graph.nodes[0].opset == 3
    assert "ai.onnx.ml" not in {entry.domain for entry in proto.opset_import}


def test_a_function_of_another_operator_set_version_is_converted() -> None:
    imports = '<domain: "local", opset_import: ["": 11]>'
    proto = parser.parse_model(
        f"{HEADER}\ng (float[2, 1] x) => (float[2] y) {{ y = local.Flat(x) }}\n"
        f"{imports}\nFlat (a) => (b) {{ b = Squeeze <axes = [1]> (a) }}"
    )
    graph = sk.load(proto).graph
    assert [node.op_type for node in graph.nodes][-1] == "Squeeze"
    assert len(graph.nodes[len(graph.nodes) - 1].inputs) == 2


def test_a_function_that_means_the_same_in_the_models_operator_set_needs_no_types() -> None:
    # What the function returns depends on the value of a cast, of which onnx infers no type.
    text = """<ir_version: 10, opset_import: ["": 22, "local": 1, "own": 1]>
    g (float[2] x) => (float[2] y) { a = own.Foo(x) y = local.Twice(a) }
    <domain: "local", opset_import: ["": 21]>
    Twice (a) => (b) { c = Dropout(a) b = Identity(c) }"""
    graph = sk.load(parser.parse_model(text)).graph
    assert [node.op_type for node in graph.nodes] == ["Foo", "Dropout", "Identity"]
