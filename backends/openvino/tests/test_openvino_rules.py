"""Which nodes OpenVINO is given, and what is said of the others."""

import warnings

import numpy as np
import pytest

import subgraphkit as sk
from backends.openvino.tests.openvino_road import homes, parsed, reasons, session
from subgraphkit.errors import ExecutionError, SubgraphkitWarning


def test_what_the_device_runs_is_claimed_in_one_region():
    model = parsed("g (float[2,4] x) => (float[2,4] y) { a = Relu(x) b = Gelu(a) y = Sin(b) }")
    assert homes(model) == ["openvino"] * 3


def test_a_node_the_importer_does_not_know_is_refused_in_its_words():
    model = parsed("g (float[2,4,4] x) => (float[2] y) { a = Relu(x) b = Det(a) y = Exp(b) }")
    assert homes(model) == ["openvino", "numpy", "openvino"]
    assert reasons(model) == [
        (
            "op_unsupported: OpenVINO's importer says: -- No conversion rule found for operations: "
            "Det-21"
        )
    ]


def test_nodes_without_names_and_with_the_same_name_are_told_apart():
    model = parsed("g (float[2,2] x) => (float[2,2] y) { a = Relu(x) b = Det(a) y = Add(a, b) }")
    for node in model.graph.node:
        node.name = "same"
    assert homes(model) == ["openvino", "numpy", "openvino"]


def test_a_node_that_fails_to_convert_says_why():
    model = parsed("g (float[4] x, float[4] z) => (float[4] y) { y = Mod(x, z) }", opset=27)
    (reason,) = reasons(model)
    assert reason.startswith("op_unsupported: OpenVINO's importer says: -- Mod-27 with a message")
    assert "/src/" not in reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("(double[2] x) => (double[2] y) { y = Exp(x) }", "float64, which OpenVINO computes in"),
        ("(int64[2] x) => (int64[2] y) { y = Add(x, x) }", "int64 that may need more than the 31"),
        ("(int64[2] x) => (int64[2] y) { y = Neg(x) }", "int64 that may need more than the 31"),
        ("(float[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }", "int64 that may need more"),
        ("(int32[2] x) => (int32[2] y) { y = Div(x, x) }", "int32, which OpenVINO computes in"),
        ("(uint8[2] x) => (uint8[2] y) { y = Add(x, x) }", "uint8, which OpenVINO computes in"),
        ("(int32[2] x) => (bool[2] y) { y = Equal(x, x) }", "int32, which OpenVINO computes in"),
        ("(string[2] x) => (string[2] y) { y = Identity(x) }", "which is not handed over"),
        (
            "(float[4] x) => (bool[2] y) { a, b = Split<num_outputs=2>(x) y = Cast <to = 9> (a) }",
            "one of several",
        ),
        ("(float[4] x) => (y) <float s={2}, uint16 z={9}> {y = QuantizeLinear(x,s,z)}", "16-bit"),
        ("(float[1,1,2,2] x, float[4] s) => (y) { y = Resize(x, , s) }", "a first axis that may"),
        ("(float[N,1,2] x) => (y) <float[3] s={2,1,1}> { y = Resize(x,,s) }", "a first axis that"),
        ("(float[4] x, int64[1] a) => (y) <int64[1] i={1}> { y = Slice(x,i,i,a) }", "axes known"),
        (
            (
                "(float[4] x) => (float[N] y) <int64[1] one = {1}, int64[1] zero = {0}, "
                "int64[1] far = {-2147483648}> { y = Slice(x, one, zero, zero, far) }"
            ),
            "steps beyond 32 bits, at which OpenVINO crashes",
        ),
        (
            "(float[4] x) => (uint8[4] y) <float s = {1.3e36}> { y = QuantizeLinear(x, s) }",
            "attribute: a scale so large that OpenVINO's limits of what fits overflow",
        ),
        (
            "(float[4] x, float s) => (uint8[4] y) { y = QuantizeLinear(x, s) }",
            "another rounding of ties",
        ),
        (
            "(float[2] x) => (uint8[2] y) <float[2] s={2,2}> { y = QuantizeLinear<axis=0>(x, s) }",
            "of a vector",
        ),
        ("(float[0,2] x) => (float[0,2] y) { y = Exp(x) }", "tensors without elements"),
        ("() => (float[2] y) { y = RandomUniform <shape = [2]> () }", "other random numbers"),
        (
            (
                "(float[1,2,4,4] x) => (float[1,2,8,8] y) <float[4] s = {1, 1, 2, 2}> "
                '{ y = Resize <mode = "linear", antialias = 1> (x, , s) }'
            ),
            "antialias, which",
        ),
        ("(float[4] x) => (float[4] y) { y = Selu <alpha = 0.0> (x) }", "alpha of 0"),
        ("(float[4] x) => (float[4] y) { y = HardSigmoid <beta = 0.0> (x) }", "beta of 0"),
        (
            "(int8[4,999] x, int8[999,4] w) => (int32[4,4] y) { y = MatMulInteger(x, w) }",
            "sums of [999] products",
        ),
        (
            (
                "(int64 n, bool b, float[2] x) => (float[2] y) { y = Loop (n, b, x) <body = t "
                "(int64 i, bool c, float[2] p) => (bool d, float[2] q) "
                "{ d = Identity(c) q = Exp(p) }> }"
            ),
            "bodies of loops are left to others",
        ),
    ],
)
def test_what_would_come_out_otherwise_is_refused(body, reason):
    (given,) = reasons(parsed(f"g {body}"))
    assert reason in given


@pytest.mark.parametrize(
    "body",
    [
        "(float[N,1,2,2] x) => (float[a,b,c,d] y) <float[4] s = {1,1,2,2}> { y = Resize(x, , s) }",
        "(float[N,1,2,2] x, float[2] s) => (float[a,b,c,d] y) { y = Resize<axes=[2,3]>(x, , s) }",
        (
            "(float[N,3,2,2] x) => (float[a,b,c,d] y) <int64[2] s = {4, 4}, int64[1] o = {0}, "
            "int64[1] t = {2}> { all = Shape(x) first = Slice(all, o, t) "
            'to = Concat <axis = 0> (first, s) y = Resize <mode = "cubic"> (x, , , to) }'
        ),
        "(float[4] x) => (float[1] y) { y = ReduceMax(x) }",
        "(float[4] x) => (float[2] y, int64[2] i) <int64[1] k = {2}> { y, i = TopK(x, k) }",
        (
            "(float[1,3,T] x, float[2,3,2] w) => (float[1,2,U] y) <int64[6] p = {0,0,128,0,0,0}> "
            "{ a = Pad(x, p) y = Conv<dilations = [128], kernel_shape = [2]>(a, w) }"
        ),
    ],
)
def test_what_loses_nothing_is_taken(body):
    assert reasons(parsed(f"g {body}")) == []


def test_indices_and_sizes_are_taken_although_they_are_int64():
    model = parsed(
        "g (float[A,4] x, int64[B] i) => (float[C,D] y) <int64[1] n = {-1}, int64 zero = {0}> "
        "{ a = Gather(x, i) s = Shape(a) m = Mul(s, s) d = Div(m, s) y = Reshape(a, d) }"
    )
    assert homes(model) == ["openvino"] * 5
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with session(model) as opened:
        (y,) = opened.run(None, {"x": x, "i": np.array([2, 0])})
    np.testing.assert_array_equal(y, x[[2, 0]])


def test_int64_of_more_than_32_bits_comes_through_a_mixed_model():
    model = parsed("g (int64[2] x) => (int64[2] y) { a = Add(x, x) y = Concat<axis=0>(a) }")
    with session(model) as opened:
        (y,) = opened.run(None, {"x": np.array([2**40, -(2**33)])})
    assert y.tolist() == [2**41, -(2**34)]


def test_narrow_takes_64_bit_numbers_knowingly():
    model = parsed("g (double[2] x) => (double[2] y) { y = Exp(x) }")
    assert homes(model, narrow=True) == ["openvino"]


def test_int32_arithmetic_wraps_around_exactly():
    model = parsed(
        "g (int32[512] x, int32[512] z) => (int32[512] y) { a = Mul(x, z) b = Sub(a, z) "
        "y = BitwiseXor(b, x) }"
    )
    assert homes(model) == ["openvino"] * 3
    rng = np.random.default_rng(0)
    x, z = rng.integers(-(2**31), 2**31, (2, 512)).astype(np.int32)
    with session(model) as opened:
        (y,) = opened.run(None, {"x": x, "z": z})
    np.testing.assert_array_equal(y, (x * z - z) ^ x)


def test_an_operator_that_loses_nan_is_refused_where_nan_is_asked_for():
    body = "g (float[4] x) => ({0}[4] y) {{ a = Relu(x) y = {1}(a) }}"
    assert homes(parsed(body.format("bool", "IsNaN"))) == ["numpy", "openvino"]
    assert homes(parsed(body.format("float", "Abs"))) == ["openvino", "openvino"]


def test_attention_that_asks_for_rows_without_anything_left_is_taken_whole():
    model = parsed(
        "g (float[B, S, 32] x, bool[B, S, 32] shown) => (float[B, S, 32] y) "
        "<float zero = {0}, float hidden = {-inf}> { s = Where(shown, x, hidden) "
        "w = Softmax<axis = -1>(s) empty = IsNaN(w) y = Where(empty, zero, w) }"
    )
    assert homes(model) == ["openvino"] * 4
    x = np.random.default_rng(0).standard_normal((2, 5, 32), np.float32)
    shown = np.random.default_rng(1).random((2, 5, 32)) < 0.5
    shown[0, 2] = shown[1] = False
    with session(model) as opened:
        (y,) = opened.run(None, {"x": x, "shown": shown})
    assert (y[0, 2] == 0).all()
    assert (y[1] == 0).all()
    np.testing.assert_allclose(y[0, [0, 1, 3, 4]].sum(axis=-1), 1, rtol=1e-6)


def test_an_input_that_the_importer_ignores_is_a_refusal():
    model = parsed("g (float[4] x, float r) => (float[4] y) { a = Abs(x) y = Dropout(a, r) }")
    assert homes(model) == ["openvino", "numpy"]
    assert reasons(model) == ["op_unsupported: OpenVINO's importer says: input 'r' is ignored"]


def test_nodes_that_share_an_operation_are_all_taken():
    model = parsed(
        "g (float[4] x) => (float[4] a, float[4] y, float[4] z) "
        "{ a = Relu(x) b = Dropout(a) z = Identity(b) y = Exp(z) }"
    )
    with sk.config(fold=False):
        assert homes(model) == ["openvino"] * 4
    x = np.array([-1, 0, 1, 2], np.float32)
    with session(model) as opened:
        a, y, z = opened.run(None, {"x": x})
    np.testing.assert_array_equal(a, np.maximum(x, 0))
    np.testing.assert_array_equal(z, a)
    np.testing.assert_allclose(y, np.exp(a), rtol=1e-5)


def test_bounds_behind_a_node_that_cannot_be_converted_are_taken():
    model = parsed(
        "g (float[2,2] x, float n) => (float y, float z) "
        '{ a = Det(x) y = Clip(a, "", "") z = Clip(a, n) }'
    )
    assert homes(model) == ["numpy", "openvino", "openvino"]


def test_unused_outputs_do_not_stand_in_the_way():
    model = parsed("g (float[4] x) => (float[4] y) { a, mask = Dropout(x) y = Abs(a) }")
    assert homes(model) == ["openvino", "openvino"]


BRANCHES = """
g (int64 rate, float[N, 4] x) => (float[N, 4] y) <int64 wide = {{16000}}> {{
    is_wide = Equal(rate, wide)
    y = If (is_wide) <
        then_branch = t () => (float[N, 4] p) {{ a = Exp(x) p = {0}(a) }},
        else_branch = e () => (float[N, 4] q) {{ q = Neg(x) }}
    >
}}
"""


def test_branches_are_taken_if_everything_in_them_is():
    model = parsed(BRANCHES.format("Sqrt"))
    assert homes(model) == ["openvino", "openvino"]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with session(model) as opened:
        np.testing.assert_allclose(
            opened.run(None, {"rate": np.array(16000), "x": x})[0], np.exp(x / 2), rtol=1e-5
        )
        np.testing.assert_array_equal(opened.run(None, {"rate": np.array(8000), "x": x})[0], -x)


def test_a_branch_with_a_node_that_is_not_taken_is_refused_with_its_reason():
    unknown = "m = Transpose(a) s = MatMul(a, m) d = Det(s) p = Add(x, d)"
    text = BRANCHES.format("Sqrt").replace("p = Sqrt(a)", unknown)
    (reason,) = [one for one in reasons(parsed(text)) if "in a body" in one]
    assert "No conversion rule found for operations: Det" in reason
    tops = BRANCHES.format("Identity").replace("a = Exp(x)", "a = Bernoulli(x)")
    (reason,) = [one for one in reasons(parsed(tops)) if "in a body" in one]
    assert "draws other random numbers" in reason


def test_numbers_that_steer_are_taken_and_checked_at_every_run():
    model = parsed(BRANCHES.format("Sqrt"))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with session(model) as opened:
        with pytest.warns(SubgraphkitWarning, match="need more than the 24 bits"):
            (y,) = opened.run(None, {"rate": np.array(2**32 + 16000), "x": x})
        np.testing.assert_array_equal(y, -x)
        for rate in (2**24 + 1, -(2**40)):
            feeds = {"rate": np.array(rate), "x": x}
            np.testing.assert_array_equal(opened.run(None, feeds)[0], -x)
        feeds = {"rate": np.array(16000), "x": x}
        np.testing.assert_allclose(opened.run(None, feeds)[0], np.exp(x / 2), rtol=1e-5)


def test_ends_of_a_slice_may_be_as_far_as_there_is():
    model = parsed(
        "g (float[N] x, int64 k) => (float[M] y, float[K] z) <int64[1] first = {1}, "
        "int64[1] far = {9223372036854775807}, int64[1] axis = {0}, int64[1] minus = {-1}, "
        "int64[1] back = {-9223372036854775808}> "
        "{ y = Slice(x, first, far, axis) z = Slice(x, minus, back, axis, minus) }"
    )
    assert homes(model) == ["openvino", "openvino"]
    x = np.arange(5, dtype=np.float32)
    with session(model) as opened:
        y, z = opened.run(None, {"x": x, "k": np.array(2)})
    np.testing.assert_array_equal(y, x[1:])
    np.testing.assert_array_equal(z, x[::-1])


def test_an_end_that_is_fed_is_checked():
    model = parsed(
        "g (float[N] x, int64[1] end) => (float[M] y) <int64[1] first = {0}> "
        "{ y = Slice(x, first, end) }"
    )
    assert homes(model) == ["openvino"]
    x = np.arange(5, dtype=np.float32)
    with session(model) as opened:
        np.testing.assert_array_equal(opened.run(None, {"x": x, "end": np.array([3])})[0], x[:3])
        with pytest.warns(SubgraphkitWarning, match="need more than the 24 bits"):
            (y,) = opened.run(None, {"x": x, "end": np.array([2**63 - 1])})
        np.testing.assert_array_equal(y, x)


def test_numbers_that_may_grow_beyond_what_is_kept_are_refused():
    model = parsed(
        "g (int64[4] x, float[9] z) => (float[4] y) "
        "{ a = Mul(x, x) b = Mul(a, x) c = Cast<to = 1>(b) d = Gather(z, x) y = Add(c, d) }"
    )
    assert homes(model)[1] == "numpy"


def test_numbers_that_steer_inside_a_branch_are_checked_as_well():
    model = parsed(
        "g (int64 rate, bool b, float[4] x) => (float[4] y) <int64 wide = {16000}> { y = If (b) <"
        "then_branch = t () => (float[4] p) "
        "{ e = Equal(rate, wide) f = Cast<to = 1>(e) p = Add(x, f) }, "
        "else_branch = e () => (float[4] q) { q = Neg(x) }> }"
    )
    assert homes(model) == ["openvino"]
    x = np.arange(4, dtype=np.float32)
    feeds = {"b": np.array(True), "x": x}  # noqa: FBT003 (a value, not a switch)
    with session(model) as opened:
        (y,) = opened.run(None, {**feeds, "rate": np.array(16000)})
        np.testing.assert_array_equal(y, x + 1)
        with pytest.warns(SubgraphkitWarning, match="need more than the 24 bits"):
            (y,) = opened.run(None, {**feeds, "rate": np.array(2**32 + 16000)})
    np.testing.assert_array_equal(y, x)


_AT: dict[str, str] = {
    "Gather": "(float[5,2] x, int64[3] i) => (float[3,2] y) { y = Gather(x, i) }",
    "GatherElements": "(float[5,2] x, int64[3,2] i) => (float[3,2] y) { y = GatherElements(x, i) }",
    "GatherND": "(float[5,2] x, int64[3,1] i) => (float[3,2] y) { y = GatherND(x, i) }",
    "ScatterND": (
        "(float[5,2] x, int64[3,1] i, float[3,2] u) => (float[5,2] y) { y = ScatterND(x, i, u) }"
    ),
    "ScatterElements": (
        "(float[5,2] x, int64[3,2] i, float[3,2] u) => (float[5,2] y) "
        "{ y = ScatterElements(x, i, u) }"
    ),
}


@pytest.mark.parametrize("op", _AT)
def test_indices_out_of_range_are_an_error_and_not_the_index_they_are_narrowed_to(op):
    with session(parsed(f"g {_AT[op]}")) as opened:
        assert {one.backend for one in opened.partitioning.subgraphs} == {"openvino"}
        feeds = {
            one.name: np.zeros(one.shape, np.int64 if one.name == "i" else np.float32)
            for one in opened.get_inputs()
        }
        opened.run(None, {**feeds, "i": feeds["i"] - 1})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SubgraphkitWarning)
            for beyond in (-(2**31), -(2**31) - 1, 2**32, -(2**40)):
                with pytest.raises(ExecutionError, match=r"SGK131.*out of bounds"):
                    opened.run(None, {**feeds, "i": feeds["i"] + beyond})


@pytest.mark.parametrize(("body", "problem"), [
    (_AT["GatherND"].replace("float[5,2]", "float[?,2]"), "of open size"),
    (_AT["ScatterElements"].replace("{", "{ z = Add(i, i)").replace("x, i,", "x, z,"),
     "which OpenVINO does not check"),
    ("(float[5] x) => (float y) <int64 i = {4294967296}> { y = Gather(x, i) }", "4294967296"),
    (_AT["ScatterElements"].replace("{", "{ a = Abs(x)"), ""),
])  # fmt: skip
def test_indices_that_nobody_can_check_are_left_to_others(body, problem):
    given = reasons(parsed(f"g {body}"))
    assert any(problem in one for one in given) if problem else given == []
