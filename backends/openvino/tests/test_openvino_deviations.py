"""What OpenVINO computes otherwise than ONNX is written anew for it, or refused."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from backends.openvino.tests.openvino_road import homes, parsed, reasons, session
from subgraphkit.errors import ExecutionError, SubgraphkitWarning

_TOTALS: dict[str, Any] = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceProd": np.prod}
_X = np.linspace(0.5, 1.5, 24, dtype=np.float32).reshape(2, 3, 4)


def _untyped(body, opset=21):
    """Return a model whose outputs state no shape."""
    model = parsed(body, opset)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def test_what_follows_a_reduction_is_applied_to_its_own_axis():
    """The constant differs by channel, behind a reduction of one axis of three in every form."""
    channels = np.array([2, 3, 5], np.float32)
    lines, names, expected = [], [], []
    for number, (form, axis, keep) in enumerate(product(_TOTALS, (0, 2), (0, 1))):
        total = _TOTALS[form](_X, axis=axis, keepdims=bool(keep))
        in_column = bool(keep or not axis)
        names.append(f"x{number}")
        lines.append(f"r{number} = {form}<keepdims={keep}>(x{number}, axis{axis})")
        lines.append(f"q{number} = Relu(r{number}) y{number} = Sub(c{int(in_column)}, q{number})")
        expected.append((channels[:, None] if in_column else channels) - total)
    model = _untyped(
        f"g ({', '.join(f'float[N,3,4] {name}' for name in names)}) => "
        f"({', '.join(f'float y{number}' for number in range(len(names)))}) "
        "<int64[1] axis0 = {0}, int64[1] axis2 = {2}, float[3] c0 = {2, 3, 5}, "
        f"float[3,1] c1 = {{2, 3, 5}}> {{ {' '.join(lines)} }}"
    )
    with session(model) as opened:
        assert {one.backend for one in opened.partitioning.subgraphs} == {"openvino"}
        made = opened.run(None, dict.fromkeys(names, _X))
    for one, want in zip(made, expected, strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-5)


@pytest.mark.parametrize(("node", "size", "problem"), [
    ("MaxPool<kernel_shape=[2], strides=[3], ceil_mode=1>(x)", "N", "may begin in the padding"),
    ("MaxPool<kernel_shape=[1], strides=[2], ceil_mode=1>(x)", "4", "may begin in the padding"),
    ("MaxPool<kernel_shape=[3], strides=[2], ceil_mode=1>(x)", "N", ""),
    ("MaxPool<kernel_shape=[1], strides=[2], ceil_mode=1>(x)", "5", ""),
    ("AveragePool<kernel_shape=[3], strides=[2], ceil_mode=1, count_include_pad=1>(x)", "6",
     "may reach beyond the padding"),
    ("AveragePool<kernel_shape=[3], strides=[2], ceil_mode=1>(x)", "6", ""),
    ("LpPool<kernel_shape=[2], strides=[2], ceil_mode=1>(x)", "3", "may reach beyond"),
    ("LpPool<kernel_shape=[2], strides=[2], ceil_mode=1>(x)", "4", ""),
    ("Shrink<lambd=1.0>(x)", "4", "NaN of infinities"),
    ("ThresholdedRelu(x)", "4", "NaN of infinities"),
])  # fmt: skip
def test_windows_and_operators_that_openvino_computes_otherwise_are_refused(node, size, problem):
    given = reasons(_untyped(f"g (float[1,2,{size}] x) => (float y) {{ y = {node} }}", 22))
    assert given == [] if not problem else problem in given[0]


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("attributes", "opset", "problem"), [
    ("", 12, "all axes from one on together"),
    ("<axis=0>", 12, "all axes from one on together"),
    ("<axis=2>", 12, ""),
    ("<axis=1>", 13, ""),
    ("<axis=0> ", 12, ""),
])  # fmt: skip
def test_a_softmax_over_several_axes_is_refused(operator, attributes, opset, problem):
    shape = "2,1,1" if attributes.endswith(" ") else "2,3,4"
    model = _untyped(f"g (float[{shape}] x) => (float y) {{y = {operator}{attributes}(x)}}", opset)
    given = reasons(model)
    assert given == [] if not problem else problem in given[0]


@pytest.mark.parametrize("op", ["Div", "Sub", "Mul"])
def test_a_group_normalization_at_which_openvino_crashes_is_refused(op):
    model = parsed(
        "g (float[2,4,3] x, float[2,4,3] w) => (float[2,4,3] y) <float[4] s = {1, 1, 1, 1}> "
        f"{{ r = GroupNormalization<num_groups=2>(x, s, s) y = {op}(r, w) }}"
    )
    given = reasons(model)
    assert given == [] if op == "Mul" else "at which OpenVINO crashes" in given[0]


@pytest.mark.parametrize("shape", [(3,), ()])
@pytest.mark.parametrize("kind", ["byte order", "metadata"])
def test_arrays_whose_dtype_says_more_than_its_type_are_taken(kind, shape):
    dims = ",".join(map(str, shape)) or ""
    model = parsed(f"g (bool[{dims}] a, bool[{dims}] b) => (bool[{dims}] y) {{ y = And(a, b) }}")
    plain = np.dtype(bool)
    dtype = plain.newbyteorder("<") if kind == "byte order" else np.dtype(plain, metadata={"a": 1})
    array = np.array(np.ones(shape), dtype)
    assert not array.dtype.isbuiltin
    with session(model) as opened:
        assert opened.run(None, {"a": array, "b": array})[0].tolist() == array.tolist()


@pytest.mark.parametrize("rows", ["5", "N"])
def test_results_keep_the_axes_of_length_one_that_openvino_moves_or_loses(rows):
    model = _untyped(
        f"g (float[{rows},2,17] x, float[17] z) => (float y, float q) <int64[1] last = {{3}}, "
        "int64[1] first = {0}, float[1] two = {2}, int64 at = {0}> "
        "{ u = Unsqueeze(x, last) r = ReduceSum<keepdims=1>(u, first) y = Mul(r, two) "
        "g = Gather(z, at) q = Add(g, two) }"
    )
    with session(model) as opened:
        assert {one.backend for one in opened.partitioning.subgraphs} == {"openvino"}
        y, q = opened.run(
            None, {"x": np.ones((5, 2, 17), np.float32), "z": np.ones(17, np.float32)}
        )
    assert (y.shape, q.shape) == ((1, 2, 17, 1), (1,))


@pytest.mark.parametrize(("factor", "after"), [
    ("float[1,1]", "Mul(f, p)"), ("float[1]", "Mul(f, p)"), ("float[1]", "Div(s, h)"),
])  # fmt: skip
def test_a_product_with_a_vector_and_a_factor_behind_it_is_computed(factor, after):
    model = _untyped(
        f"g (float[N,8,1,3] x) => (float y) <float[3] v = {{1, 2, 3}}, {factor} f = {{2}}, "
        f"float n = {{0}}, float[1] h = {{0.5}}> {{ p = MatMul(x, v) s = Sub(p, n) y = {after} }}"
    )
    x = np.ones((2, 8, 1, 3), np.float32)
    with session(model) as opened:
        assert {one.backend for one in opened.partitioning.subgraphs} == {"openvino"}
        assert opened.run(None, {"x": x})[0].tolist() == [[[12.0]] * 8] * 2


@pytest.mark.parametrize(("text", "opset"), [
    ("(float[N,3,4,4] x) => (float y) { y = Upsample<scales = [1.0, 1.0, 2.0, 2.0]>(x) }", 7),
    ("(float[N,6] x) => (y) <int64[1] a={-3},int64[1] b={5},int64[1] c={1}>{y=Slice(x,a,b,c)}", 18),
    ("(float[1,2,8,8] x, float[6,1,3,3] w) => (float y) { y = Conv<group = 2>(x, w) }", 18),
])  # fmt: skip
def test_what_openvino_computes_rightly_stays(text, opset):
    assert homes(_untyped(f"g {text}", opset)) == ["openvino"]


@pytest.mark.parametrize("kind", [np.float32, np.bool_])
def test_a_reversed_index_reads_what_a_slice_leaves_whatever_moves_it(kind):
    name = np.dtype(kind).name.replace("float32", "float")
    model = parsed(f"""g ({name}[3,4] x, int64[3,2] i) => ({name}[3,2] y) <int64[1] a = {{0}},
    int64[1] b = {{2}}, int64[1] d = {{1}}, int64[2] size = {{3, 2}}>
    {{ p = Slice(x, a, b, d) s = Reshape(p, size) y = GatherElements<axis = 1>(s, i) }}""")
    x, i = np.eye(3, 4).astype(kind), np.array([[-1, 0], [-2, 1], [1, -1]])
    with session(model) as opened:
        (y,) = opened.run(None, {"x": x, "i": i})
    assert y.tolist() == np.take_along_axis(x[:, :2], i, 1).tolist()


def test_products_with_one_stored_element_are_computed_in_one_thread():
    model = parsed(
        "g (float[2,3] x) => (float[2,1] y) <float[3,1] w = {1, 2, 3}, float[1,1] v = {2}> "
        "{ p = MatMul(x, w) y = MatMul(p, v) }"
    )
    with sk.InferenceSession(model, "openvino:threads=1") as opened:
        assert opened.run(None, {"x": np.ones((2, 3), np.float32)})[0].tolist() == [[12.0]] * 2


@pytest.mark.parametrize(("shape", "line", "home"), [
    ("2,2", 'FusedGemm<activation="Relu">(x, x, x)', "openvino"),
    ("2,2", 'FusedGemm<activation="LeakyRelu">(x, x, x)', "openvino"),
    ("2,2", 'FusedGemm<activation="Tanh">(x, x, x)', "numpy"),
    ("1,2,2", "MultiHeadAttention<num_heads=1>(x, x, x)", "openvino"),
    ("1,2,2", "MultiHeadAttention<num_heads=1, unidirectional=1>(x, x, x)", "openvino"),
    ("1,2,2", "Attention<num_heads=1, scale=3.0>(x, w)", "numpy"),
])  # fmt: skip
def test_operators_of_onnx_runtime_are_taken_as_far_as_openvino_reads_them(shape, line, home):
    text = "g (float[{0}] x) => (float[{0}] y) <float[2,6] w = {{1,2,3,4,5,6,7,8,9,10,11,12}}>"
    model = parsed(f"{text.format(shape)} {{ y = com.microsoft.{line} }}")
    model.opset_import.add(domain="com.microsoft", version=1)
    x = np.array([-1, 2, 3, -4], np.float32).reshape([*map(int, shape.split(","))])
    assert homes(model) == [home]
    with session(model) as opened, sk.InferenceSession(model, "onnxruntime") as other:
        np.testing.assert_allclose(
            opened.run(None, {"x": x})[0], other.run(None, {"x": x})[0], rtol=1e-5
        )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        *(
            (
                f"(float[4,3] x) => (float[4,3] y) {{ y = {op}<noop_with_empty_axes = 1>(x) }}",
                "noop_with_empty_axes",
            )
            for op in ("ReduceL1", "ReduceL2", "ReduceLogSum")
        ),
        ("(float[2,3,3] x, float[3] s) => (float[2,3,3] y) { y = PRelu(x, s) }", "the last axis"),
        ("(float[4] x) => (float[N] y) { y = Unique <sorted = 0> (x) }", "makes zeros"),
        ("(float[N] x) => (float[M] y) { y = Unique(x) }", "sizes known when running"),
        (
            "(float[M] x) => (float[N] y) <int64[2] s = {4, 0}> { y, z = Split <axis = 0> (x, s) }",
            "a part of no size",
        ),
        (
            "(float[2,4] x) => (float[N,4] y) <bool[2] c = {0, 0}> { y = Compress<axis=0>(x, c) }",
            "keeps nothing",
        ),
        (
            (
                "(float[4] x) => (int64[1,N] y) "
                "{ c = Cast<to=6>(x) b = Cast<to=2>(c) i = Identity(b) y = NonZero(i) }"
            ),
            "a cast to int32 just before",
        ),
        (
            "(float[4] x) => (float[4] y) { c = Cast<to=10>(x) t = Identity(c) y = Cast<to=1>(t) }",
            "rounded to a half",
        ),
        (
            "(float[1,H,4,8] x, float[1,1,4,8] k) => (float[1,H,4,8] y) { y = Attention(x, k, k) }",
            "a count of heads known only at a run",
        ),
        (
            (
                "(uint8[N,2] x) => (uint8[N,2] y) <float16 t = {14336}, uint8 o = {0}, "
                "uint8[2,2] w = {1, 2, 3, 4}> { y = QLinearMatMul(x, t, o, w, t, o, t, o) }"
            ),
            "scales of 16 bits",
        ),
        (
            "(int64[1] a) => (float[N] y) <float[1,2] c = {1, 2}> { y = Squeeze(c, a) }",
            "a constant and axes",
        ),
    ],
)
def test_what_is_left_out_or_put_elsewhere_is_refused(body, reason):
    assert reason in reasons(parsed(f"g {body}", 23))[0]


def test_a_cast_to_bfloat16_is_rounded_to_the_nearest_whoever_computes_it():
    x = np.linspace(1, 2, 999, dtype=np.float32)
    with session(parsed("g (float[N] x) => (bfloat16[N] y) { y = Cast<to=16>(x) }")) as opened:
        (made,) = opened.run(None, {"x": x})
    assert (made == x.astype(made.dtype)).all()


_X43 = np.arange(12, dtype=np.float32).reshape(4, 3)
_MESSAGES = (
    "g (float[4,3] x, int64[2,3] e) => (float[4,3] y) <int64 first = {0}, int64 last = {1}, "
    "int64[1] m = {-1}, int64[2] s = {3, 3}> { f = Gather(e, first) t = Gather(e, last) "
    'm_ = Gather(x, f) u = Unsqueeze(t, m) i = Expand(u, s) y = ScatterElements<reduction="add">'
    "(x, i, m_) }"
)
_LAST_TOKEN = (
    "g (float[B,S,3] x, int64[B,S] i) => (float[B,B,3] y) "
    "{ a = ArgMax<axis=-1, keepdims=0>(i) y = Gather<axis=1>(x, a) }"
)


@pytest.mark.parametrize(("body", "name", "feed", "beyond"), [
    (_MESSAGES, "e", [[0, 1, 2], [3, -1, 3]], [[0, 1, 2], [3, 0, 4]]),
    (_LAST_TOKEN, "i", [[1, 5, 49407, 2]], [[1, 1 << 24, (1 << 24) + 1, 2]]),
])  # fmt: skip
def test_fed_integers_are_looked_at_before_a_run(body, name, feed, beyond):
    model = _untyped(body)
    x = _X43 if name == "e" else _X43[None]
    feeds, others = ({"x": x, name: np.array(one)} for one in (feed, beyond))
    with sk.InferenceSession(model, "numpy") as plain, session(model) as opened:
        assert {one.backend for one in opened.partitioning.subgraphs} == {"openvino"}
        np.testing.assert_array_equal(opened.run(None, feeds)[0], plain.run(None, feeds)[0])
        if name == "e":
            with pytest.warns(SubgraphkitWarning), pytest.raises(ExecutionError, match="SGK131"):
                opened.run(None, others)
            return
        with pytest.warns(SubgraphkitWarning, match="is exact"):
            made = opened.run(None, others)
        np.testing.assert_array_equal(made[0], plain.run(None, others)[0])


def test_an_operand_without_elements_is_joined():
    body = "g (float[N,3] x) => (float[M,3] y) <float[0,3] k = {}> { y = Concat<axis=0>(k, x) }"
    assert homes(parsed(body)) == ["openvino"]
    with session(_untyped(body)) as opened:
        np.testing.assert_array_equal(opened.run(None, {"x": _X43})[0], _X43)


def test_places_that_are_computed_are_kept_inside_of_the_array():
    model = _untyped(
        "g (float[N,6,3] x, float[1,6] s) => (float[1,3] y, float[N,6,3] z) <int64[1] r = {1}, "
        "int64[1,1] row = {1}, int64[1] from = {0}, int64[1] to = {1}, float nine = {9}> "
        "{ c = ArgMax<axis=1>(s) p = Concat<axis=1>(row, c) y = GatherND(x, p) "
        "one = Slice(x, from, to) f = Shape(one) u = Expand(nine, f) n = Add(c, r) "
        "i = Expand(n, f) z = ScatterElements<axis=0>(x, i, u) }"
    )
    assert {*homes(model)} == {"openvino"}
    x, s = np.arange(36, dtype=np.float32).reshape(2, 6, 3), np.eye(6, dtype=np.float32)[:1]
    with session(model) as opened:
        y, z = opened.run(None, {"x": x, "s": s})
    np.testing.assert_array_equal(y, x[1, :1])
    np.testing.assert_array_equal(z, [x[0], np.full((6, 3), 9)])


@pytest.mark.parametrize(("ends", "problem"), [("2", "takes nothing"), ("1", "takes"), ("3", "")])
def test_a_slice_of_an_open_size_that_takes_nothing_is_refused(ends, problem):
    model = _untyped(
        "g (float[N,M] x, float[N,K] z) => (float y) "
        f"<int64[1] a = {{2}}, int64[1] b = {{{ends}}}, int64[1] rows = {{0}}> "
        "{ s = Slice(x, a, b, rows) y = Concat<axis=1>(s, z) }"
    )
    given = reasons(model)
    assert given == [] if not problem else problem in given[0]


@pytest.mark.parametrize(("size", "problem"), [("M", "an axis of open size"), ("3", "")])
def test_scales_along_an_axis_of_open_size_are_refused(size, problem):
    model = _untyped(
        f"g (float[N,{size},K] x) => (float y) "
        "<float[3] s = {1, 2, 4}, int8[3] z = {0, 0, 0}> "
        "{ q = QuantizeLinear(x, s, z) y = Cast<to=1>(q) }"
    )
    given = reasons(model)
    assert any(problem in one for one in given) if problem else given == []


@pytest.mark.parametrize("line", [
    "p = Unsqueeze(i, last) y = GatherND(x, p)",
    "p = Unsqueeze(i, last) q = Expand(p, wide) y = ScatterElements<axis=0>(x, q, u)",
])  # fmt: skip
def test_fed_indices_along_an_open_axis_are_compared_with_its_size_before_a_run(line, tmp_path):
    model = _untyped(
        "g (float[N,2] x, int64[M] i, float[M,2] u) => (float y) "
        f"<int64[1] last = {{1}}, int64[2] wide = {{1, 2}}> {{ {line} z = Relu(u) }}"
    )
    x, u = np.arange(6, dtype=np.float32).reshape(3, 2), np.zeros((2, 2), np.float32)
    feeds = {"x": x, "i": np.array([2, -3]), "u": u}
    with sk.InferenceSession(model, "numpy") as judge:
        want = judge.run(None, feeds)[0]
    with sk.config(cache_dir=tmp_path), session(model) as opened:
        assert {one.backend for one in opened.partitioning.subgraphs} == {"openvino"}
        np.testing.assert_array_equal(opened.run(None, feeds)[0], want)
        beyond = {**feeds, "i": np.array([2, 3])}
        with pytest.warns(SubgraphkitWarning, match="out of range"), pytest.raises(ExecutionError):
            opened.run(None, beyond)
    assert list((tmp_path / "engines").rglob("*")), "its engine was proven and is kept"


def test_products_of_single_columns_are_joined_to_nothing_on_one_thread():
    model = parsed(
        "g (float[3,1] x, float[3,2] v) => (float[3,1] p, float[3,1] y) <float[1,2] a = {1, 2}, "
        "float[2,1] b = {3, 4}> { n = Neg(x) l = MatMul(n, a) m = Mul(v, l) p = MatMul(m, b) "
        "y = Add(n, p) }"
    )
    x, v = np.ones((3, 1), np.float32), np.ones((3, 2), np.float32)
    with session(model, threads=1) as opened:
        assert [one.tolist() for one in opened.run(None, {"x": x, "v": v})] == [
            [[-11]] * 3,
            [[-12]] * 3,
        ]
