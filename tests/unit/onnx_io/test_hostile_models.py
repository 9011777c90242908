"""Models that break a rule nobody looks for are refused with a code, wherever they break it."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import subgraphkit as sk

OUTSIDE = 99
HUGE = 2**62


def small_model():
    """Make a model with something of every kind in it."""
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["inner"])],
        "body",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, [3])],
    )
    constant = helper.make_tensor("c", TensorProto.FLOAT, [3], [1, 2, 3])
    nodes = [
        helper.make_node("Constant", [], ["c"], name="first", value=constant),
        helper.make_node("Add", ["x", "c"], ["a"]),
        helper.make_node("Add", ["a", "w"], ["b"]),
        helper.make_node("If", ["yes"], ["d"], then_branch=body, else_branch=body),
        helper.make_node("Softmax", ["d"], ["e"], axis=0),
        helper.make_node("Add", ["b", "e"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("yes", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["some size"])],
        [helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 1, 1])],
        value_info=[helper.make_tensor_value_info("a", TensorProto.FLOAT, [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    model.producer_name = "maker"
    model.doc_string = "words"
    model.metadata_props.add(key="key of it", value="value of it")
    sparse = model.graph.sparse_initializer.add(dims=[3])
    sparse.values.CopyFrom(helper.make_tensor("s", TensorProto.FLOAT, [1], [1]))
    sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [1], [0]))
    return model


def refusal(model):
    data = model if isinstance(model, bytes) else model.SerializeToString()
    with pytest.raises(sk.errors.InvalidModelError) as refused:
        sk.bind(sk.load(data), backend="numpy")
    return str(refused.value)


def texts_in(message):
    """Yield every text of a message, at any depth; the name of indices means nothing."""
    for field, value in message.ListFields():
        for one in value if hasattr(value, "extend") else [value]:
            if field.type == field.TYPE_MESSAGE:
                yield from texts_in(one)
            elif field.type == field.TYPE_STRING and one != "i":
                yield one


def test_the_model_that_is_broken_below_is_whole():
    with sk.InferenceSession(small_model(), backend="numpy") as session:
        (found,) = session.run(None, {"x": np.zeros(3, np.float32), "yes": np.bool_(1)})
    assert found.shape == (3,)


@pytest.mark.parametrize("text", sorted({text for text in texts_in(small_model()) if text}))
def test_a_text_that_is_not_utf_8_is_named(text):
    data = small_model().SerializeToString()
    stored = bytes([len(text)]) + text.encode()
    assert stored in data
    said = refusal(data.replace(stored, bytes([len(text)]) + b"\xff" + stored[2:]))
    assert said.startswith("[SGK214] field ")
    assert "which is not UTF-8" in said


def _types(model):
    listed = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    return {value.name: value.type for value in listed}


BROKEN: dict[str, tuple[str, Callable[[onnx.ModelProto], object]]] = {
    "an output without a name": ("SGK214", lambda m: m.graph.output.add()),
    "an input without a name": ("SGK214", lambda m: m.graph.input.add()),
    "an initializer without a name": (
        "SGK214",
        lambda m: m.graph.initializer[0].ClearField("name"),
    ),
    "a data type that ONNX lacks, of an input": (
        "SGK214",
        lambda m: setattr(_types(m)["x"].tensor_type, "elem_type", OUTSIDE),
    ),
    "of an output": ("SGK214", lambda m: setattr(_types(m)["y"].tensor_type, "elem_type", OUTSIDE)),
    "of an inner value": (
        "SGK214",
        lambda m: setattr(_types(m)["a"].tensor_type, "elem_type", OUTSIDE),
    ),
    "of a sequence": (
        "SGK214",
        lambda m: setattr(_types(m)["a"].sequence_type.elem_type.tensor_type, "elem_type", OUTSIDE),
    ),
    "of a map": ("SGK214", lambda m: setattr(_types(m)["a"].map_type, "key_type", OUTSIDE)),
    "of an optional": (
        "SGK214",
        lambda m: setattr(_types(m)["a"].optional_type.elem_type.tensor_type, "elem_type", -1),
    ),
    "of a sparse tensor": (
        "SGK208",
        lambda m: setattr(m.graph.sparse_initializer[0].values, "data_type", OUTSIDE),
    ),
    "of an attribute": (
        "SGK208",
        lambda m: setattr(m.graph.node[0].attribute[0].t, "data_type", OUTSIDE),
    ),
    "a Constant that makes nothing": ("SGK215", lambda m: m.graph.node[0].ClearField("output")),
    "a Constant of two values": (
        "SGK214",
        lambda m: m.graph.node[0].attribute.append(helper.make_attribute("value_int", 1)),
    ),
    "an If without a branch": ("SGK218", lambda m: m.graph.node[3].attribute.pop()),
    "more elements than a memory has": (
        "SGK214",
        lambda m: _types(m)["x"].tensor_type.shape.dim.extend(
            [onnx.TensorShapeProto.Dimension(dim_value=HUGE)] * 2
        ),
    ),
    "indices of a sparse tensor that are none": (
        "SGK208",
        lambda m: setattr(m.graph.sparse_initializer[0].indices, "data_type", TensorProto.INT32),
    ),
    "a cycle through a body": ("SGK203", lambda m: _read_in_body(m, "y")),
    "a value that a body reads and nobody makes": ("SGK205", lambda m: _read_in_body(m, "nothing")),
}


def _read_in_body(model, name):
    model.graph.node[3].attribute[0].g.node[0].input[0] = name


@pytest.mark.parametrize("what", BROKEN)
def test_what_breaks_the_specification_is_refused_with_a_code(what):
    code, break_it = BROKEN[what]
    model = small_model()
    break_it(model)
    assert refusal(model).startswith(f"[{code}] ")


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("imported", ["", "ai.onnx"])
def test_either_name_of_the_default_domain_does_everywhere(domain, imported):
    model = small_model()
    model.opset_import[0].domain = imported
    for node in [*model.graph.node, *(a.g.node[0] for a in model.graph.node[3].attribute)]:
        node.domain = domain
    assert sk.bind(sk.load(model), backend="numpy").shape("y") == (3,)
