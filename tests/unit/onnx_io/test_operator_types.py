import contextlib
import os
import re
from typing import Final

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import defs, helper, shape_inference

import subgraphkit as sk
from subgraphkit.onnx_io.microsoft_rules import MICROSOFT
from subgraphkit.onnx_io.operator_rules import STANDARD
from subgraphkit.onnx_io.operator_types import BLIND, inferred_by, node_types
from subgraphkit.onnx_io.protos import normal_domain, read_type
from subgraphkit.testing.official_cases import official_cases
from subgraphkit.types import DataType, TensorType, fits
from tests.models import parsed
from tests.unit.onnx_io.microsoft_cases import CASES, MicrosoftCase

# Its sizes are known only when it runs.
COUNTED = {"Tokenizer"}
# No processor runs these; ONNX Runtime has kernels of them for other devices only.
ELSEWHERE = {"BiasSoftmax", "NhwcConv", "NhwcFusedConv", "SimplifiedLayerNormalization"}


def types_of(model, feeds):
    (node,) = model.graph.node
    types = {value.name: read_type(value.type) for value in model.graph.input}
    values = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
    opsets = {normal_domain(entry.domain): entry.version for entry in model.opset_import}
    return node_types(node, types, values, opsets)


def is_typed_by_onnx(model):
    (node,), domain = model.graph.node, normal_domain(model.graph.node[0].domain)
    opsets = {normal_domain(entry.domain): entry.version for entry in model.opset_import}
    return bool(inferred_by(node.op_type, domain, opsets[domain]))


def differences(found, value):
    if not isinstance(found, TensorType):
        return None if found is not None else "not known"
    array = np.asarray(value)
    if DataType.of(array.dtype) is not found.dtype:
        return f"{found}, not {array.dtype}"
    if found.shape is not None and not fits(array.shape, found.shape):
        return f"{found}, not {array.shape}"
    known = found.shape is not None and all(isinstance(dim, int) for dim in found.shape)
    return None if known else "open"


def test_every_operator_that_onnx_infers_nothing_for_has_a_rule():
    left_out = {
        (schema.domain, schema.name, schema.since_version)
        for schema in defs.get_all_schemas_with_history()
        if (schema.domain, schema.name) not in STANDARD
        and (schema.deprecated or not schema.has_type_and_shape_inference_function)
    }
    assert left_out == set()


def test_types_by_rules_are_those_of_the_outputs_of_every_official_case():
    tried, found = set(), {}
    for case in official_cases("node"):
        if len(case.model.graph.node) == 1 and not is_typed_by_onnx(case.model):
            tried.add(case.operator)
            inputs, outputs = next(case.data_sets())
            names = [value.name for value in case.model.graph.input]
            types = types_of(case.model, dict(zip(names, inputs, strict=True)))
            for value, output in zip(case.model.graph.output, outputs, strict=True):
                if said := differences(types.get(value.name), output):
                    found[case.name, value.name] = (case.operator, said)
    assert tried >= {"Attention", "AveragePool", "LpPool", "MaxPool"}
    assert found == {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op_type)
def test_types_of_operators_of_onnx_runtime_are_those_it_computes(case):
    session = ort.InferenceSession(
        case.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    types = types_of(case.model, case.feeds)
    for value, output in zip(session.get_outputs(), session.run(None, case.feeds), strict=True):
        counted = {"open"} if case.op_type in COUNTED else set()
        assert differences(types.get(value.name), output) in {None, *counted}, value.name


def test_every_rule_for_an_operator_of_onnx_runtime_is_tried():
    tried = {(case.domain, case.op_type) for case in CASES}
    untried = {("com.microsoft", op_type) for op_type in ELSEWHERE}
    assert tried | untried == set(MICROSOFT)


def test_a_convolution_with_channels_last_keeps_them_last():
    case = MicrosoftCase(
        "NhwcConv", (np.ones((1, 5, 6, 2), "f4"), np.ones((3, 2, 3, 3), "f4")), (True,), {}
    )
    assert types_of(case.model, case.feeds) == {"y0": TensorType(DataType.FLOAT, (1, 3, 4, 3))}


def test_inputs_that_contradict_each_other_are_reported():
    node = helper.make_node("FusedMatMul", ["x", "x"], ["y"], domain="com.microsoft")
    types = {"x": TensorType(DataType.FLOAT, (2, 3))}
    with pytest.raises(shape_inference.InferenceError, match=re.escape("Incompatible dimensions")):
        node_types(node, types, {}, {"com.microsoft": 1})


def test_an_even_split_of_the_first_operator_set_has_as_many_parts_as_the_node():
    node = helper.make_node("Split", ["x"], ["a", "b"], axis=0)
    types = {"x": TensorType(DataType.FLOAT, (4, 3))}
    part = TensorType(DataType.FLOAT, (2, 3))
    assert node_types(node, types, {}, {"": 1}) == {"a": part, "b": part}


def _asked_without_types(nodes, first):
    """Infer, in a child, what nodes make of values without types; return how many it lived through.

    Counted from the first of them that is to be asked about.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        for node in nodes[first:]:
            graph = onnx.GraphProto(name="g", node=[node])
            graph.input.extend(onnx.ValueInfoProto(name=name) for name in node.input)
            graph.output.add().name = node.output[0]
            opset = helper.make_opsetid(node.domain, int(node.doc_string))
            model = onnx.ModelProto(ir_version=10, graph=graph, opset_import=[opset])
            with contextlib.suppress(Exception):
                shape_inference.infer_shapes(model.SerializeToString())
            os.write(writing, b".")
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answers:  # noqa: PTH123 (a descriptor)
        lived = len(answers.read())
    os.waitpid(child, 0)
    return lived


def test_the_operators_that_end_inference_for_want_of_a_type_are_known():
    simple = {
        "FLOAT": 1.0, "INT": 1, "STRING": "a", "FLOATS": [1.0], "INTS": [1], "STRINGS": ["a"],
        "TENSOR": helper.make_tensor("t", onnx.TensorProto.FLOAT, [1], [1.0]),
    }  # fmt: skip
    nodes = []
    for schema in defs.get_all_schemas_with_history():
        stated = {
            name: simple[one.type.name]
            for name, one in schema.attributes.items()
            if one.type.name in simple
        }
        needed = {name: stated[name] for name in stated if schema.attributes[name].required}
        names = [f"i{place}" for place in range(max(schema.min_input, 1))]
        for attributes in (stated, needed):
            nodes.append(
                helper.make_node(schema.name, names, ["o"], domain=schema.domain, **attributes)
            )
            nodes[-1].doc_string = str(schema.since_version)
    ended, first = set(), 0
    while (first := first + _asked_without_types(nodes, first)) < len(nodes):
        ended.add(nodes[first].op_type)
        first += 1
    assert ended <= BLIND


@pytest.mark.parametrize("node", [
    'y = ai.onnx.ml.LabelEncoder<keys_strings=["a"], values_int64s=[1]>(u)',
    "y = EyeLike<dtype=11>(u)",
    'y = RegexFullMatch<pattern="a">(u)',
])  # fmt: skip
def test_what_reads_a_value_of_no_known_type_can_be_bound(node):
    text = f"g (float[2] x) => (y) {{ u = somebody.Own(x) {node} }}"
    model = parsed(text, 22, '"ai.onnx.ml" : 4, "somebody" : 1')
    assert sk.bind(sk.load(model)).dtype("u") is DataType.UNDEFINED


_MAKES: Final = {
    "LabelEncoder": 'ai.onnx.ml.LabelEncoder<keys_strings=["a"], values_int64s=[1]>',
    "EyeLike": "EyeLike<dtype=11>",
    "RegexFullMatch": 'RegexFullMatch<pattern="a">',
    "DictVectorizer": 'ai.onnx.ml.DictVectorizer<string_vocabulary=["a"]>',
}
_IN_BODIES: Final = {
    "what is around": "u = somebody.Own(x) y = If(c) <"
    "then_branch = t () => (a) { a = %s(u) }, else_branch = e () => (b) { b = Relu(x) }>",
    "what is in it": "y = If(c) <then_branch = t () => (a) { u = somebody.Own(x) a = %s(u) }, "
    "else_branch = e () => (b) { b = Relu(x) }>",
    "what is in a body in it": "n, y = Loop(m, c, x) <body = l (int64 i, bool d, float[2] v) "
    "=> (bool e, float[2] w, f) { e = Identity(d) w = Identity(v) f = If(d) <"
    "then_branch = t () => (a) { u = somebody.Own(v) a = %s(u) }, "
    "else_branch = o () => (b) { b = Relu(v) }> }>",
}


@pytest.mark.parametrize("body", _IN_BODIES.values(), ids=_IN_BODIES)
@pytest.mark.parametrize("call", _MAKES.values(), ids=_MAKES)
def test_what_reads_such_a_value_in_a_body_can_be_bound(call, body):
    text = f"g (bool c, int64 m, float[2] x) => (y) {{ {body % call} }}"
    model = parsed(text, 22, '"ai.onnx.ml" : 4, "somebody" : 1')
    bound = sk.bind(sk.load(model))
    ((_, bodies),) = bound.table.bodies.items()
    assert {node.domain for one in bodies.values() for node in one.nodes} <= {
        *("", "ai.onnx.ml", "somebody")
    }


def test_what_reads_a_typed_value_in_a_body_has_a_type():
    model = parsed(
        "g (bool c, float[2,2] x) => (y) { y = If(c) <"
        "then_branch = t () => (a) { u = somebody.Own(x) v = EyeLike(u) w = EyeLike(x) "
        "a = EyeLike<dtype=11>(w) }, else_branch = e () => (b) { b = Cast<to=11>(x) }> }",
        22,
        '"somebody" : 1',
    )
    branch = sk.bind(sk.load(model)).table.bodies[0]["then_branch"]
    assert {name: str(branch.types.get(name)) for name in "vwa"} == {
        "v": "None",
        "w": "float32[2,2]",
        "a": "float64[2,2]",
    }
