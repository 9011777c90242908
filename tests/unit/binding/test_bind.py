"""Binding fixes shapes, types every value and reads the configuration."""

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import BindError, InvalidModelError, SubgraphkitWarning
from subgraphkit.onnx_io import infer
from tests.models import CHAIN, LIGHT, LINEAR, parsed

TWO = "g (float[batch, n] a, float[batch, 3] b) => (float[batch, m] y) { y = Concat<axis=1>(a, b) }"


def test_a_symbol_gets_its_value_everywhere() -> None:
    graph = sk.bind(sk.load(parsed(TWO)), {"batch": 8})
    assert graph.shape("a") == (8, "n")
    assert graph.shape("b") == (8, 3)
    assert graph.shape("y")[0] == 8  # type: ignore[index]
    assert graph.symbols == {"batch": 8}


def test_the_shape_of_an_input_fixes_the_symbols_in_it() -> None:
    graph = sk.bind(sk.load(parsed(TWO)), {"a": (8, 5)})
    assert (graph.shape("b"), graph.shape("y")) == ((8, 3), (8, 8))


def test_a_shape_may_leave_dimensions_as_they_are() -> None:
    graph = sk.bind(sk.load(parsed(TWO)), {"a": (None, 5)})
    assert graph.shape("a") == ("batch", 5)


def test_sizes_may_be_numpys() -> None:
    shapes = {"a": (np.int64(8), 3), "batch": np.int32(8)}
    graph = sk.bind(sk.load(parsed(TWO)), shapes)  # type: ignore[arg-type]
    assert graph.shape("y") == (8, 6)


def test_without_shapes_dimensions_stay_symbolic() -> None:
    assert sk.bind(sk.load(parsed(CHAIN))).shape("y") == ("N", 4)


@pytest.mark.parametrize("path", sorted(LIGHT.glob("light_*.onnx")), ids=lambda p: p.stem)
def test_every_value_of_a_real_model_is_typed(path: object) -> None:
    graph = sk.bind(sk.load(path))  # type: ignore[arg-type]
    read = {value for inputs in graph.table.inputs for value in inputs if value}
    assert all(value in graph.types for outputs in graph.table.outputs for value in outputs)
    assert all("?" not in str(graph.types[value]) for value in read)
    assert all("..." not in str(graph.types[value]) for value in read)


@pytest.mark.parametrize(
    ("shapes", "code", "told"),
    [
        ({"bath": 8}, "SGK220", "Did you mean 'batch'?"),
        ({"c": (1, 2)}, "SGK220", "no input of that name"),
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
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    shapes: dict[str, object], code: str, told: str
) -> None:
    with pytest.raises(BindError) as refusal:
        sk.bind(sk.load(parsed(TWO)), shapes)  # type: ignore[arg-type]
    assert refusal.value.code == code
    assert told in str(refusal.value)


def test_sizes_given_for_one_symbol_may_differ_unless_strict() -> None:
    text = "g (float[S, S] x, float[S] z) => (float[M, M] y) { y = Mul(x, z) }"
    model = sk.load(parsed(text))
    with pytest.warns(SubgraphkitWarning, match="sizes 4, 6") as told:
        graph = sk.bind(model, {"x": (4, 6)})
    assert "shapes={'x': ('S', 'S_2')}" in str(told[0].message)
    assert (graph.shape("x"), graph.shape("z")) == ((4, 6), ("S",))
    with pytest.raises(BindError, match=r"SGK221.*dimension 1 of float32\[S,S\] is 4"):
        sk.bind(model, {"x": (4, 6)}, strict=True)


@pytest.mark.parametrize("name", ["?", "None", "-1", "unk__7", "??"])
def test_a_name_that_says_nothing_names_no_dimension(name: str) -> None:
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


def test_the_axis_of_an_input_has_a_size_too() -> None:
    graph = sk.bind(sk.load(parsed(TWO)), {"a[0]": 8, "a": (None, 5)})
    assert (graph.shape("a"), graph.shape("b")) == ((8, 5), (8, 3))
    with pytest.raises(BindError, match=r"SGK220.*no symbolic dimension of that name"):
        sk.bind(sk.load(parsed(TWO)), {"a[2]": 8})


def test_an_input_is_renamed_where_the_model_gives_two_dimensions_one_name() -> None:
    graph = sk.bind(sk.load(parsed(TWO)), {"a": ("N", None)})
    assert (graph.shape("a"), graph.shape("b")) == (("N", "n"), ("batch", 3))


def test_a_model_that_contradicts_itself_is_refused() -> None:
    text = "g (float[2, 3] x, float[4, 5] w) => (float[2, 5] y) { y = MatMul(x, w) }"
    with pytest.raises(InvalidModelError, match=r"SGK222.*contradict"):
        sk.bind(sk.load(parsed(text)))


def test_operators_nobody_knows_leave_their_values_untyped() -> None:
    text = "g (float[2] x) => (y) { a = com.acme.Foo(x) y = Relu(a) }"
    graph = sk.bind(sk.load(parsed(text, header='"": 18, "com.acme": 1')))
    assert str(graph.types["a"]) == "unknown[...]"


def test_the_environment_is_read_at_every_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    model = sk.load(parsed(LINEAR))
    monkeypatch.setenv("SUBGRAPH_BACKEND", "none")
    first = sk.bind(model)
    monkeypatch.setenv("SUBGRAPH_BACKEND", "numpy")
    second = sk.bind(model)
    assert [choice.name for choice in first.settings.backends] == []
    assert [choice.name for choice in second.settings.backends] == ["numpy"]


@pytest.mark.parametrize("slice_size", [1, 7, 100])
def test_types_do_not_depend_on_how_many_nodes_are_looked_at_together(slice_size: int) -> None:
    model = sk.load(LIGHT / "light_shufflenet.onnx")
    assert infer(model, {}, {}, slice_size=slice_size).types == infer(model, {}, {}).types


def test_sizes_an_exporter_left_behind_do_not_outweigh_a_symbolic_dimension() -> None:
    proto = parsed("g (float[N, 4] x) => (float[1, 4] y, int64[2] s) { y = Neg(x) s = Shape(y) }")
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("y", 1, [1, 4]))
    assert sk.bind(sk.load(proto)).shape("y") == ("N", 4)
    session = sk.InferenceSession(proto, "numpy")
    assert session.run(["s"], {"x": np.ones((2, 4), np.float32)})[0].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("attribute", "bins"), [("", 9), ("<onesided=1>", 9), ("<onesided=0>", 16)]
)
def test_a_spectrum_has_one_side_unless_told_otherwise(attribute: str, bins: int) -> None:
    text = (
        "g (float[1, 128, 1] x) => (y) <int64 step = {8}, int64 length = {16}> "
        f"{{ y = STFT{attribute}(x, step, , length) }}"
    )
    graph = sk.bind(sk.load(parsed(text)))
    assert graph.shape("y") == (1, 15, bins, 2)


def test_types_for_other_sizes_follow_without_another_bind() -> None:
    graph = sk.bind(sk.load(parsed(TWO)), {"n": 5})
    assert graph.reshape({"batch": 8}, {})["y"].shape == (8, 8)  # type: ignore[union-attr]
    assert graph.reshape({}, {"a": (2, 5), "b": (2, 3)})["y"].shape == (2, 8)  # type: ignore[union-attr]
    assert graph.shape("a") == ("batch", 5)


def test_other_sizes_that_contradict_the_model_are_told() -> None:
    graph = sk.bind(sk.load(parsed(TWO)))
    with pytest.raises(InvalidModelError, match="SGK222"):
        graph.reshape({}, {"a": (2, 5), "b": (3, 3)})
