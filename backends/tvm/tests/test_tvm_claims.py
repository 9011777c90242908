"""Which nodes are taken, and what is said of those that are not."""

import numpy as np
import onnx
import pytest
from onnx import helper

from backends.tvm.tests.tvm_models import dense, homes, open_tvm, parsed, refusals
from subgraphkit.errors import UnclaimedNodesError
from subgraphkit_tvm import claims
from subgraphkit_tvm.importing import import_region

VECTOR = "(float[4] x) => (float[4] y)"


def test_what_tvm_can_compile_is_one_region():
    with open_tvm(parsed(f"g {VECTOR} {{ a = Relu(x) b = Exp(a) y = Neg(b) }}")) as session:
        assert homes(session) == [("tvm", (0, 1, 2))]


def test_an_operator_without_a_converter_is_refused_by_name():
    with open_tvm(parsed(f"g {VECTOR} {{ y = Celu(x) }}")) as session:
        assert homes(session) == [("numpy", (0,))]
        assert refusals(session) == [
            ("op_unsupported", "TVM's ONNX importer has no converter for Celu")
        ]


def test_the_importers_own_words_reach_the_report():
    model = parsed(
        "g (float[1, 1, 6, 6] x) => (float[1, 1, 5, 5] y, int64[1, 1, 5, 5] i) "
        "{ y, i = MaxPool <kernel_shape = [2, 2]> (x) }"
    )
    with open_tvm(model) as session:
        ((code, text),) = refusals(session)
        assert homes(session) == [("numpy", (0,))]
    assert code == "op_unsupported"
    assert "TVM's ONNX importer: AssertionError: Missing outputs during conversion" in text


@pytest.fixture
def questions(tmp_path, monkeypatch):
    """Return the operators that TVM was asked about since, with no answers from before."""
    found = []

    def asked(subgraph, weights):
        found.append(subgraph.members[0].op_type)
        return ask(subgraph, weights)

    ask = claims._ask
    monkeypatch.setattr(claims, "_ask", asked)
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    claims._ANSWERS._known.clear()
    return found


def test_nothing_is_printed_when_the_importer_fails(capsys, questions):
    with open_tvm(parsed("g (int64[4] x) => (int64[4] y) { y = Erf(x) }")) as session:
        assert homes(session) == [("numpy", (0,))]
    assert questions == ["Erf"]
    assert capsys.readouterr().out == ""


def test_a_dimension_that_is_not_known_is_refused_until_it_is_given():
    model = parsed("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }")
    with open_tvm(model) as session:
        assert homes(session) == [("numpy", (0,))]
        assert [code for code, _ in refusals(session)] == ["dynamic_shape"]
    with open_tvm(model, shapes={"x": (3, 4)}) as session:
        assert homes(session) == [("tvm", (0,))]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(float[4] x) => (bool[4] y) { y = IsInf <detect_negative = 0> (x) }", "both signs"),
        ("(float[4] x) => (float[4] y) { y = Mod <fmod = 1> (x, x) }", "infinities"),
        ("(float[4] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }", "largest finite"),
        ("(float[4] x) => (float[4] y) { y = Max (x, x) }", "largest finite"),
        ("(float[4] x) => (float[4] y) { y = ThresholdedRelu (x) }", "NaN of infinities"),
        ("(float[2,2] x) => (float[2,2] y) { y = EyeLike (x) }", "same memory"),
        (
            "(float[1,2,3,3] x) => (float[1,2,3,3] y) { y = MeanVarianceNormalization(x) }",
            "a difference of squares",
        ),
        (
            (
                "(int8[1,1,3,3] x) => (int8[1,1,6,6] y) <float[4] s = {1.0, 1.0, 2.0, 2.0}> "
                '{ y = Resize<mode = "linear">(x, "", s) }'
            ),
            "fractions of whole numbers",
        ),
        ("(int64[4] x) => (int64[4] y) { y = Shrink (x) }", "integers"),
        (
            (
                "(float[1,2,3,3] x) => (float[1,2,1,1] y) { y = AveragePool <kernel_shape = "
                "[512, 512], strides = [512, 512], ceil_mode = 1, count_include_pad = 1> (x) }"
            ),
            "shorter than a window",
        ),
        ("(int32[4] x) => (int32[1] y) { y = ReduceMean(x) }", "in int64"),
        (
            (
                "(float[1,1,6,6] x, float[1,4] r) => (float[1,1,1,1] y) <int64[1] b = {0}> "
                "{ y = RoiAlign (x, r, b) }"
            ),
            "without a size",
        ),
        ("(float[4] x) => (int64 y) { y = ArgMax <keepdims = 0> (x) }", "answers -1"),
        (
            (
                "(float[2,2,4] x, int64[1,2,3] i, float[1,2,3] u) => (float[2,2,4] y) "
                "{ y = ScatterElements(x, i, u) }"
            ),
            "writes elsewhere",
        ),
        ('(uint8[2] x) => (uint8[2] y) { y = BitShift <direction = "LEFT"> (x, x) }', "7 bits"),
    ],
)
def test_what_tvm_would_get_wrong_is_refused_with_the_reason(text, said):
    with open_tvm(parsed(f"g {text}")) as session:
        assert homes(session) == [("numpy", (0,))]
        ((code, reason),) = refusals(session)
    assert code == "attribute"
    assert said in reason


def test_upsampling_by_a_scale_that_fits_is_taken_and_one_that_is_rounded_is_not():
    def model(scale):
        scales = np.array([1, 1, scale, scale], np.float32)
        return parsed(
            "g (float[1, 1, 3, 3] x) => (float[1, 1, H, W] y) "
            '{ y = Resize <mode = "nearest"> (x, , s) }',
            s=scales,
        )

    with open_tvm(model(2.0)) as session:
        assert homes(session) == [("tvm", (0,))]
    with open_tvm(model(1.5)) as session:
        assert homes(session) == [("numpy", (0,))]
        assert "rounded" in refusals(session)[0][1]


def test_plain_numbers_stated_by_constant_nodes_are_what_they_say():
    model = parsed(
        f"g {VECTOR} {{ c = Constant <value_float = 0.5> () d = Constant <value_floats = "
        "[1.0, 2.0, 3.0, 4.0]> () a = Add(x, c) y = Mul(a, d) }"
    )
    with open_tvm(model) as session:
        assert {backend for backend, _ in homes(session)} == {"tvm"}
        (y,) = session.run(None, {"x": np.zeros(4, np.float32)})
    np.testing.assert_array_equal(y, [0.5, 1, 1.5, 2])


def test_an_operator_of_another_domain_is_not_taken_for_its_namesake():
    node = helper.make_node("Gelu", ["x"], ["y"], domain="org.example")
    model = parsed(f"g {VECTOR} {{ y = Relu(x) }}")
    model.graph.ClearField("node")
    model.graph.node.append(node)
    model.opset_import.append(helper.make_opsetid("org.example", 1))
    with pytest.raises(UnclaimedNodesError):
        open_tvm(model, backend="tvm")


def test_alike_nodes_are_asked_about_once(questions):
    chain = "".join(f"a{i + 1} = Tanh(a{i}) " for i in range(20))
    with open_tvm(parsed(f"g (float[4] a0) => (float[4] a20) {{ {chain} }}")):
        assert questions == ["Tanh"]


def test_nothing_is_asked_again_in_the_next_process(questions):
    model = parsed("g (int64[4] x) => (int64[4] y) { a = Neg(x) y = Erf(a) }")
    with open_tvm(model, cache=True) as session:
        told = session.partitioning.refusals[1], homes(session)
    assert questions == ["Neg", "Erf"]
    claims._ANSWERS._known.clear()
    with open_tvm(model, cache=True) as session:
        assert (session.partitioning.refusals[1], homes(session)) == told
    assert questions == ["Neg", "Erf"]


def test_nodes_that_read_one_value_twice_are_asked_about_apart(questions):
    with open_tvm(
        parsed("g (float[4] x, float[4] z) => (float[4] y) { a = Mul(x, x) y = Mul(a, z) }")
    ):
        assert questions == ["Mul", "Mul"]


def test_an_answer_for_want_of_memory_is_not_remembered(questions, monkeypatch):
    def full(*given):
        raise MemoryError

    model = parsed("g (float[4] x) => (float[4] y) { y = Tanh(x) }")
    with monkeypatch.context() as patch:
        patch.setattr(claims.importing, "import_model", full)
        with open_tvm(model) as session:
            assert homes(session) == [("numpy", (0,))]
    with open_tvm(model) as session:
        assert homes(session) == [("tvm", (0,))]
    assert questions[-1] == "Tanh"


def test_a_region_is_right_however_many_of_its_loops_are_arranged():
    model, weights = dense()
    x = np.random.default_rng(1).standard_normal((5, 48)).astype(np.float32)
    with open_tvm(model) as session:
        assert homes(session) == [("tvm", (0, 1, 2))]
        (y,) = session.run(None, {"x": x})
    np.testing.assert_allclose(
        y, np.maximum(x @ weights["w"] + weights["b"], 0), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64", "uint8", "bool"])
def test_values_of_every_common_dtype_come_through(dtype):
    data = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    name = onnx.TensorProto.DataType.Name(data).lower()
    model = parsed(
        f"g ({name}[2, 3] x) => ({name}[3, 4] y) "
        "{ t = Transpose(x) y = Concat <axis = 1> (t, t) }"
    )
    x = (np.arange(6).reshape(2, 3) % 2 if dtype == "bool" else np.arange(6).reshape(2, 3)).astype(
        dtype
    )
    with open_tvm(model) as session:
        assert homes(session) == [("tvm", (0, 1))]
        (y,) = session.run(None, {"x": x})
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, np.concatenate([x.T, x.T], axis=1))


def test_nodes_that_cannot_be_built_are_found_by_halves(monkeypatch):
    asked = []

    def picky(part):
        asked.append(len(part.members))
        if any(node.op_type == "Sin" for node in part.members):
            raise ValueError("no sine today")
        return import_region(part)

    monkeypatch.setattr("subgraphkit_tvm.backend.import_region", picky)
    relus = " ".join(f"v{place + 1} = Relu(v{place})" for place in range(1, 14))
    text = f"g (float[4] x) => (float[4] y) {{ v1 = Sin(x) {relus} y = Sin(v14) }}"
    with open_tvm(parsed(text), on_fallback="ok") as session:
        assert homes(session) == [("numpy", (0,)), ("tvm", tuple(range(1, 14))), ("numpy", (14,))]
    assert asked == [15, 7, 3, 1, 2, 4, 8, 4, 4, 2, 2, 1, 1, 13]
