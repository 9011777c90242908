"""Types of operators that onnx does not know: given by an extension, or by a schema."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs

import subgraphkit as sk
from subgraphkit.backend import hookimpl
from subgraphkit.errors import BackendError
from subgraphkit.ir import Node
from subgraphkit.types import DataType, TensorType, ValueType
from tests.fakes import extended

HEADER = '<ir_version: 10, opset_import: ["": 17, "com.acme": 1]>'
MODEL = """
m (float[N, 4] x) => (float[N, K] y) <float[2, 5] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0}>
{
  half = com.acme.Halve <axis = 1> (x)
  b = Relu(half)
  y = MatMul(b, w)
}
"""


class Types:
    """Types one operator, or answers something else for it."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    @hookimpl
    def subgraphkit_types(
        self, node: Node, inputs: Sequence[ValueType | None]
    ) -> Sequence[ValueType | None] | None:
        if (node.domain, node.op_type) != ("com.acme", "Halve"):
            return None
        if callable(self.answer):
            return self.answer(node, inputs)  # type: ignore[no-any-return]
        if self.answer is not None:
            return self.answer  # type: ignore[no-any-return]
        (x,) = inputs
        assert isinstance(x, TensorType)
        assert x.shape is not None
        axis = node.attribute("axis")
        shape = list(x.shape)
        size = shape[axis]
        shape[axis] = size // 2 if isinstance(size, int) else None
        return [TensorType(x.dtype, tuple(shape))]


@pytest.fixture
def types() -> Iterator[Types]:
    with extended(Types(), "acme") as extension:
        yield extension


def bound(text: str = MODEL, **shapes: Any) -> Any:
    return sk.bind(sk.load(onnx.parser.parse_model(HEADER + text)), shapes, backend="numpy")


def test_without_an_extension_all_behind_it_is_unknown() -> None:
    graph = bound()
    assert str(graph.types["half"]) == "unknown[...]"


@pytest.mark.usefixtures("types")
def test_types_flow_behind_an_operator_of_somebodys_own() -> None:
    graph = bound()
    assert [str(graph.types[name]) for name in ("half", "b", "y")] == [
        "float32[N,2]",
        "float32[N,2]",
        "float32[N,5]",
    ]
    assert str(graph.reshape({"N": 3}, {})["y"]) == "float32[3,5]"
    assert str(bound(N=7).types["b"]) == "float32[7,2]"


FLOATS = DataType.FLOAT


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (TensorType(FLOATS, (2,)), "expected 1 types or None"),
        ([], "expected 1 types"),
        ([TensorType(FLOATS), TensorType(FLOATS)], "expected 1 types"),
        (["float"], "expected a type such as TensorType"),
        ([TensorType(FLOATS, (-1, 2))], "no type of a tensor"),
        ([TensorType(FLOATS, [1, 2])], "no type of a tensor"),  # type: ignore[arg-type]
        ([TensorType(FLOATS, (True,))], "no type of a tensor"),
        ([TensorType("float")], "no type of a tensor"),  # type: ignore[arg-type]
        (lambda *_: 1 // 0, "raised ZeroDivisionError"),
        ([TensorType(FLOATS, ("N", 3))], "contradicts what is behind it"),
        ([TensorType(DataType.STRING, ("N", 2))], "contradicts what is behind it"),
    ],
)
def test_a_wrong_answer_is_the_fault_of_its_author(types: Types, answer: Any, text: str) -> None:
    types.answer = answer
    with pytest.raises(BackendError, match="SGK223") as caught:
        bound()
    assert text in caught.value.message
    assert caught.value.backend == "acme"


def test_what_the_model_declares_is_held_against_the_answer(types: Types) -> None:
    text = MODEL.replace("<float[2, 5]", "<float[N, 2] half, float[2, 5]")
    assert str(bound(text).types["half"]) == "float32[N,2]"
    types.answer = [TensorType(FLOATS, ("N",))]
    with pytest.raises(BackendError, match=r"returned float32\[N\], where the model declares"):
        bound(text)


def test_a_registered_schema_is_heard_too() -> None:
    schema = defs.OpSchema(
        "Halve",
        "com.acme",
        1,
        inputs=[defs.OpSchema.FormalParameter("x", "T")],
        outputs=[defs.OpSchema.FormalParameter("y", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=[defs.OpSchema.Attribute("axis", defs.OpSchema.AttrType.INT)],
    )

    def infer(context: Any) -> None:
        found = onnx.TypeProto()
        found.CopyFrom(context.get_input_type(0))
        found.tensor_type.shape.dim[1].dim_value //= 2
        context.set_output_type(0, found)

    schema.set_type_and_shape_inference_function(infer)
    defs.register_schema(schema)
    try:
        assert str(bound().types["b"]) == "float32[N,2]"
    finally:
        defs.deregister_schema("Halve", 1, "com.acme")


class HalveBackend(sk.Backend):
    """Computes the operator."""

    name = "acme"

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        return [HalveProperty()]


class HalveProperty(sk.SubgraphProperty):
    def create_selector(self, graph: Any) -> sk.SubgraphSelector:
        return sk.OpSelector(graph, ["com.acme::Halve"])

    def create_operator(self, subgraph: Any, context: Any) -> sk.SubgraphOperator:
        return Halve()


class Halve(sk.SubgraphOperator):
    def run(self, inputs: Sequence[Any], outputs: Any = None) -> list[Any]:
        return [inputs[0][:, : inputs[0].shape[1] // 2].copy()]


@pytest.mark.parametrize("isolate", ["none", "acme"])
def test_it_runs_end_to_end_and_a_bundle_needs_no_extension(
    types: Types, tmp_path: Any, isolate: str
) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    proto = onnx.parser.parse_model(HEADER + MODEL)
    with sk.InferenceSession(proto, [HalveBackend, "numpy"], isolate=isolate) as session:
        (y,) = session.run(None, {"x": x})
        session.export(tmp_path / "bundle")
    np.testing.assert_array_equal(
        y, x[:, :2] @ np.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]], np.float32)
    )
    types.answer = lambda *_: None
    with sk.InferenceSession(tmp_path / "bundle", [HalveBackend]) as session:
        assert str(session.graph.types["half"]) == "float32[N,2]"
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], y)


def test_a_result_of_another_type_is_refused(types: Types) -> None:
    types.answer = [TensorType(FLOATS, ("N", 1))]
    text = "m (float[N, 4] x) => (y) { y = com.acme.Halve <axis = 1> (x) }"
    proto = onnx.parser.parse_model(HEADER + text)
    session = sk.InferenceSession(proto, [HalveBackend, "numpy"])
    with pytest.raises(sk.errors.ExecutionError, match="SGK132"):
        session.run(None, {"x": np.ones((2, 4), np.float32)})
