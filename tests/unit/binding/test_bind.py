"""Models that are bound, with operators of ones own too."""

import numpy as np
import onnx
import pytest
from onnx import defs

import subgraphkit as sk
from subgraphkit.backend import hookimpl
from subgraphkit.errors import BackendError, BindError, InvalidModelError, SubgraphkitWarning
from subgraphkit.types import DataType, TensorType
from tests.fakes import extended
from tests.models import LIGHT, LINEAR, parsed

TWO = "g (float[batch, n] a, float[batch, 3] b) => (float[batch, m] y) { y = Concat<axis=1>(a, b) }"


@pytest.mark.parametrize(("shapes", "a", "b", "y"), [
    ({}, ("batch", "n"), ("batch", 3), ("batch", None)),
    ({"batch": 8}, (8, "n"), (8, 3), (8, None)),
    ({"a": (8, 5)}, (8, 5), (8, 3), (8, 8)),
    ({"a": (None, 5)}, ("batch", 5), ("batch", 3), ("batch", 8)),
    ({"a[0]": 8, "a": (None, 5)}, (8, 5), (8, 3), (8, 8)),
    ({"a": (np.int64(8), 3), "batch": np.int32(8)}, (8, 3), (8, 3), (8, 6)),
    ({"a": ("N", None)}, ("N", "n"), ("batch", 3), (None, None)),
])  # fmt: skip
def test_sizes_that_are_given_hold_wherever_their_name_stands(shapes, a, b, y):
    graph = sk.bind(sk.load(parsed(TWO)), shapes)
    assert (graph.shape("a"), graph.shape("b")) == (a, b)
    found = graph.shape("y") or ()
    assert tuple(dim if want is not None else None for dim, want in zip(found, y, strict=True)) == y


@pytest.mark.parametrize("path", sorted(LIGHT.glob("light_*.onnx")), ids=lambda p: p.stem)
def test_every_value_of_a_real_model_is_typed(path):
    graph = sk.bind(sk.load(path))  # type: ignore[arg-type]
    read = {value for inputs in graph.table.inputs for value in inputs if value}
    assert all(value in graph.types for outputs in graph.table.outputs for value in outputs)
    assert all("?" not in str(graph.types[value]) for value in read)
    assert all("..." not in str(graph.types[value]) for value in read)


@pytest.mark.parametrize(("shapes", "code", "told"), [
    ({"bath": 8}, "SGK220", "Did you mean 'batch'?"),
    ({"c": (1, 2)}, "SGK220", "no input of that name"),
    ({"a[2]": 8}, "SGK220", "no symbolic dimension of that name"),
    ({"a": (1, 2, 3)}, "SGK221", "of rank 3"),
    ({"b": (1, 4)}, "SGK221", "dimension 1 of float32[batch,3] is 3"),
    ({"batch": 4, "a": (1, 2)}, "SGK221", "dimension 0"),
    ({"batch": -1}, "SGK221", "sizes are 0 or more"),
    ({"batch": 2**63}, "SGK221", "ONNX has 64 bits for it"),
    ({"batch": "eight"}, "SGK221", "neither a size nor a shape"),
    ({"batch": True}, "SGK221", "neither a size nor a shape"),
    ({"a": (-1, 2)}, "SGK221", "sizes are 0 or more"),
    ({"a": (1.5, 2)}, "SGK221", "dimension 1.5, which is not a size"),
    ({"a": (True, 2)}, "SGK221", "dimension True, which is not a size"),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(shapes, code, told):
    with pytest.raises(BindError) as refusal:
        sk.bind(sk.load(parsed(TWO)), shapes)  # type: ignore[arg-type]
    assert refusal.value.code == code
    assert told in str(refusal.value)


def test_sizes_given_for_one_symbol_may_differ_unless_strict():
    text = "g (float[S, S] x, float[S] z) => (float[M, M] y) { y = Mul(x, z) }"
    model = sk.load(parsed(text))
    with pytest.warns(SubgraphkitWarning, match="sizes 4, 6") as told:
        graph = sk.bind(model, {"x": (4, 6)})
    assert "shapes={'x': ('S', 'S_2')}" in str(told[0].message)
    assert (graph.shape("x"), graph.shape("z")) == ((4, 6), ("S",))
    with pytest.raises(BindError, match=r"SGK221.*dimension 1 of float32\[S,S\] is 4"):
        sk.bind(model, {"x": (4, 6)}, strict=True)


@pytest.mark.parametrize("name", ["?", "None", "-1", "unk__7", "??"])
def test_a_name_that_says_nothing_names_no_dimension(name):
    proto = parsed("g (float[A, 3, A] x) => (float[B, 3, B] y) { y = Relu(x) }")
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = name
    graph = sk.bind(sk.load(proto))
    assert graph.shape("x") == (None, 3, None)
    assert str(graph.types["y"]) == "float32[?,3,?]"
    assert sk.bind(sk.load(proto), {"x": (2, 3, 4)}).shape("y") == (2, 3, 4)
    assert sk.bind(sk.load(proto), {"x[2]": 4}).shape("x") == (None, 3, 4)


def test_the_environment_is_read_at_every_bind(monkeypatch):
    model = sk.load(parsed(LINEAR))
    monkeypatch.setenv("SUBGRAPH_BACKEND", "none")
    first = sk.bind(model)
    monkeypatch.setenv("SUBGRAPH_BACKEND", "numpy")
    second = sk.bind(model)
    assert [choice.name for choice in first.settings.backends] == []
    assert [choice.name for choice in second.settings.backends] == ["numpy"]


def test_sizes_an_exporter_left_behind_do_not_outweigh_a_symbolic_dimension():
    proto = parsed("g (float[N, 4] x) => (float[1, 4] y, int64[2] s) { y = Neg(x) s = Shape(y) }")
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("y", 1, [1, 4]))
    assert sk.bind(sk.load(proto)).shape("y") == ("N", 4)
    session = sk.InferenceSession(proto, "numpy")
    assert session.run(["s"], {"x": np.ones((2, 4), np.float32)})[0].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("attribute", "bins"), [("", 9), ("<onesided=1>", 9), ("<onesided=0>", 16)]
)
def test_a_spectrum_has_one_side_unless_told_otherwise(attribute, bins):
    text = (
        "g (float[1, 128, 1] x) => (y) <int64 step = {8}, int64 length = {16}> "
        f"{{ y = STFT{attribute}(x, step, , length) }}"
    )
    graph = sk.bind(sk.load(parsed(text)))
    assert graph.shape("y") == (1, 15, bins, 2)


def test_types_for_other_sizes_follow_without_another_bind():
    graph = sk.bind(sk.load(parsed(TWO)), {"n": 5})
    assert graph.reshape({"batch": 8}, {})["y"].shape == (8, 8)  # type: ignore[union-attr]
    assert graph.reshape({}, {"a": (2, 5), "b": (2, 3)})["y"].shape == (2, 8)  # type: ignore[union-attr]
    assert graph.shape("a") == ("batch", 5)


def test_other_sizes_that_contradict_the_model_are_told():
    graph = sk.bind(sk.load(parsed(TWO)))
    with pytest.raises(InvalidModelError, match="SGK222"):
        graph.reshape({}, {"a": (2, 5), "b": (3, 3)})


IMPORTS = 17, '"com.acme": 1'
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

    def __init__(self, answer=None):
        self.answer = answer

    @hookimpl
    def subgraphkit_types(self, node, inputs):
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
def types():
    with extended(Types(), "acme") as extension:
        yield extension


def bound(text=MODEL, **shapes):
    return sk.bind(sk.load(parsed(text, *IMPORTS)), shapes, backend="numpy")


def test_without_an_extension_all_behind_it_is_unknown():
    graph = bound()
    assert str(graph.types["half"]) == "unknown[...]"


@pytest.mark.usefixtures("types")
def test_types_flow_behind_an_operator_of_somebodys_own():
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
def test_a_wrong_answer_is_the_fault_of_its_author(types, answer, text):
    types.answer = answer
    with pytest.raises(BackendError, match="SGK223") as caught:
        bound()
    assert text in caught.value.message
    assert caught.value.backend == "acme"


def test_what_the_model_declares_is_held_against_the_answer(types):
    text = MODEL.replace("<float[2, 5]", "<float[N, 2] half, float[2, 5]")
    assert str(bound(text).types["half"]) == "float32[N,2]"
    types.answer = [TensorType(FLOATS, ("N",))]
    with pytest.raises(BackendError, match=r"returned float32\[N\], where the model declares"):
        bound(text)


def test_a_registered_schema_is_heard_too():
    schema = defs.OpSchema(
        "Halve",
        "com.acme",
        1,
        inputs=[defs.OpSchema.FormalParameter("x", "T")],
        outputs=[defs.OpSchema.FormalParameter("y", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=[defs.OpSchema.Attribute("axis", defs.OpSchema.AttrType.INT)],
    )

    def infer(context):
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

    def properties(self):
        return [HalveProperty()]


class HalveProperty(sk.SubgraphProperty):
    def create_selector(self, graph):
        return sk.OpSelector(graph, ["com.acme::Halve"])

    def create_operator(self, subgraph, context):
        return Halve()


class Halve(sk.SubgraphOperator):
    def run(self, inputs, outputs=None):
        return [inputs[0][:, : inputs[0].shape[1] // 2].copy()]


@pytest.mark.parametrize("isolate", ["none", "acme"])
def test_it_runs_end_to_end_and_a_bundle_needs_no_extension(types, tmp_path, isolate):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    proto = parsed(MODEL, *IMPORTS)
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


def test_a_result_of_another_type_is_refused(types):
    types.answer = [TensorType(FLOATS, ("N", 1))]
    text = "m (float[N, 4] x) => (y) { y = com.acme.Halve <axis = 1> (x) }"
    proto = parsed(text, *IMPORTS)
    session = sk.InferenceSession(proto, [HalveBackend, "numpy"])
    with pytest.raises(sk.errors.ExecutionError, match="SGK132"):
        session.run(None, {"x": np.ones((2, 4), np.float32)})
