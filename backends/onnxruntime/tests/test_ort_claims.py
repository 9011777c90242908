"""Which nodes are taken, and what is said of those that are not."""

from itertools import chain, combinations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import subgraphkit as sk
from backends.onnxruntime.tests.ort_models import homes, open_ort, parsed, refusals
from subgraphkit.errors import ExecutionError, SubgraphkitWarning
from subgraphkit_onnxruntime import claims

CHAIN = "g (float[N, 4] x) => (float[N, 4] y) { a = Relu(x) b = Exp(a) y = Neg(b) }"


def test_a_model_that_onnxruntime_can_run_is_one_region():
    with open_ort(parsed(CHAIN)) as session:
        assert homes(session) == [("onnxruntime", (0, 1, 2))]


def test_an_element_type_without_a_kernel_is_refused_in_onnxruntimes_words():
    model = parsed("g (int16[4] x) => (int16[4] y) { y = Relu(x) }")
    with open_ort(model) as session:
        assert homes(session) == [("numpy", (0,))]
        ((code, text),) = refusals(session)
    assert code == "op_unsupported"
    assert text.startswith("ONNX Runtime: Could not find an implementation for")
    assert "ONNXRuntimeError" not in text


def test_a_node_with_one_side_refused_is_surrounded():
    model = parsed(
        "g (float[4] x) => (float[4] y) { a = Exp(x) i = Cast<to=5>(a) j = Relu(i) "
        "k = Cast<to=1>(j) y = Neg(k) }"
    )
    x = np.array([0, 1, 2, 3], np.float32)
    with open_ort(model) as session:
        assert [backend for backend, _ in homes(session)] == ["onnxruntime", "numpy", "onnxruntime"]
        (y,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, -np.trunc(np.exp(x)))


def test_all_nodes_are_asked_about_at_once():
    claims._ANSWERS._known.clear()
    with open_ort(parsed(CHAIN)):
        assert len(claims._ANSWERS) == 0


def test_beside_one_that_is_refused_alike_nodes_are_asked_about_once():
    claims._ANSWERS._known.clear()
    layers = "".join(f"a{i + 1} = MatMul(a{i}, w) " for i in range(40))
    layers += "c = Cast<to=5>(a40) y = Relu(c)"
    text = f"g (float[2, 8] a0) => (int16[2, 8] y) {{ {layers} }}"
    model = parsed(text, w=np.eye(8, dtype=np.float32))
    asked = 1 + 1 + 2  # what is refused is asked about again, with its sizes
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", tuple(range(41))), ("numpy", (41,))]
        assert len(claims._ANSWERS) == asked
    with open_ort(model):
        assert len(claims._ANSWERS) == asked


def test_operators_of_onnxruntimes_own_domain_are_taken_with_what_follows_them():
    model = parsed(
        "g (float[4] x) => (float[4] y) { h = com.microsoft.Gelu(x) i = Relu(h) y = Neg(i) }",
        imports='"com.microsoft" : 1',
    )
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", (0, 1, 2))]
        (y,) = session.run(None, {"x": np.array([-1, 0, 1, 10], np.float32)})
    np.testing.assert_allclose(y, [0, 0, -0.8413447, -10], rtol=1e-5)


def test_a_value_of_which_only_onnxruntime_knows_the_type_may_leave():
    model = parsed(
        "g (float[4] x) => (float[4] y) { h = com.microsoft.Gelu(x) c = Cast<to=5>(h) "
        "i = Relu(c) d = Cast<to=1>(i) k = com.microsoft.Gelu(d) y = Neg(k) }",
        imports='"com.microsoft" : 1',
    )
    with open_ort(model) as session:
        assert {"onnxruntime", "numpy"} == {backend for backend, _ in homes(session)}
        (y,) = session.run(None, {"x": np.array([-1, 0, 3, 10], np.float32)})
    np.testing.assert_allclose(y, [0, 0, -1.9544997, -10], rtol=1e-5)


def test_an_operator_of_an_unknown_domain_is_refused():
    model = parsed(
        "g (float[4] x) => (float[4] y) { a = Relu(x) y = com.acme.Foo(a) }",
        imports='"com.acme" : 1',
    )
    bound = sk.bind(sk.load(model), backend="onnxruntime,numpy")
    with pytest.raises(sk.SubgraphkitError, match=r"SGK120[^§]*ONNX Runtime: .*com.acme:Foo"):
        sk.partition(bound)


def test_a_newer_operator_set_is_no_hindrance_to_old_operators():
    newest = onnx.defs.onnx_opset_version()
    model = parsed(CHAIN, opset=newest)
    model.ir_version = onnx.IR_VERSION
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", (0, 1, 2))]


def test_what_deviates_from_onnx_is_refused_and_right_on_the_next_backend():
    text = (
        "g (float[1,1,2,2] x, int64[1,1,2,2] i) => (float[1,1,5,5] y) <int64[4] s = {1, 1, 5, 5}> "
        "{ y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i, s) }"
    )
    with open_ort(parsed(text)) as session:
        assert [code for code, _ in refusals(session)] == ["deviates"]
        assert homes(session) == [("numpy", (0,))]


def test_fed_int64_is_summed_where_double_precision_is_exact_and_elsewhere_if_not():
    text = "g (int64[2] x) => (int64 y) <int64[1] a = {0}> { y = ReduceSum<keepdims=0>(x, a) }"
    with open_ort(parsed(text, opset=18)) as session:
        assert not refusals(session)
        assert session.run(None, {"x": np.array([-5, 7])}) == [2]
        with pytest.warns(SubgraphkitWarning, match="53 bits"):
            assert session.run(None, {"x": np.array([2**60 + 1, 1])}) == [2**60 + 2]


@pytest.mark.parametrize("operator", ["ReduceL1", "ReduceProd"])
def test_sums_of_int64_are_exact_on_the_next_backend(operator):
    text = "g (int64[2] x) => (int64 y) <int64[1] a = {0}> { y = %s<keepdims=0>(x, a) }"
    with open_ort(parsed(text % operator, opset=18)) as session:
        assert [code for code, _ in refusals(session)] == ["deviates"]
        large = 2**60 + 1
        (y,) = session.run(None, {"x": np.array([large, 1])})
    assert y == (large if operator == "ReduceProd" else large + 1)


@pytest.mark.parametrize(("text", "expected"), [
    ("(float x) => (int64[K, N] y) { y = NonZero(x) }", np.zeros((0, 1), np.int64)),
    ("(float x) => (string y) { y = Cast<to=8>(x) }", np.array("0.33333334", object)),
])  # fmt: skip
def test_scalars_and_texts_are_those_of_the_next_backend(text, expected):
    with open_ort(parsed(f"g {text}")) as session:
        assert [code for code, _ in refusals(session)] == ["deviates"]
        (y,) = session.run(None, {"x": np.array(1 / 3, np.float32)})
    np.testing.assert_array_equal(y, expected, strict=True)


LEAVES = (
    'nodes_nodeids=[0,1,2], nodes_treeids=[0,0,0], nodes_modes=["BRANCH_LEQ","LEAF","LEAF"], '
    "nodes_featureids=[0,0,0], nodes_values=[0.0,0.0,0.0], nodes_truenodeids=[1,0,0], "
    "nodes_falsenodeids=[2,0,0], class_treeids=[0,0], class_nodeids=[1,2], "
    "class_ids=[0,1]"
)


@pytest.mark.parametrize("line", [
    "LinearClassifier<coefficients=[1.0,2.0], intercepts=[0.5], classlabels_ints=[5,6]>",
    f"TreeEnsembleClassifier<{LEAVES}, class_weights=[2.0,3.0], classlabels_int64s=[5,6]>",
    f"TreeEnsembleClassifier<{LEAVES}, class_weights=[-2.0,3.0], classlabels_int64s=[5,6,7]>",
])  # fmt: skip
def test_classes_are_those_of_the_next_backend(line):
    text = "g (float[N,2] x) => (int64[N] l, float[N,K] s) { l, s = ai.onnx.ml.%s(x) }"
    model, feeds = parsed(text % line), {"x": np.array([[-1, 1], [1, -3]], np.float32)}
    model.opset_import.add(domain="ai.onnx.ml", version=3)
    with open_ort(model) as session:
        assert [code for code, _ in refusals(session)] == ["deviates"]
        found = session.run(None, feeds)
    for y, expected in zip(found, ReferenceEvaluator(model).run(None, feeds), strict=True):
        np.testing.assert_allclose(y, expected, 1e-6)


def test_vectors_of_no_rows_are_joined_by_the_next_backend():
    text = "g (float[N,2] x) => (float[N,4] y) { y = ai.onnx.ml.FeatureVectorizer<%s>(x, x) }"
    model = parsed(text % "inputdimensions=[2,2]")
    model.opset_import.add(domain="ai.onnx.ml", version=3)
    with open_ort(model) as session, pytest.warns(SubgraphkitWarning, match="no elements"):
        assert session.run(None, {"x": np.zeros((0, 2), np.float32)})[0].shape == (0, 4)


def test_norms_of_what_is_computed_are_those_of_the_next_backend():
    text = (
        'g (float[2,2] x) => (float[2,2] y) { a = Neg(x) v = ai.onnx.ml.Normalizer<norm="L2">(a) '
    )
    model = parsed(text + "y = Neg(v) }")
    model.opset_import.add(domain="ai.onnx.ml", version=3)
    with open_ort(model) as session:
        (y,) = session.run(None, {"x": np.array([[3, 4], [6, 8]], np.float32)})
    np.testing.assert_allclose(y, [[0.6, 0.8], [0.6, 0.8]], 1e-6)


def test_what_pads_cut_off_altogether_is_made_by_the_next_backend():
    text = 'g (float[1] x) => (float[0] y) <int64[2] p = {-1,0}> { y = Pad<mode="edge">(x, p) }'
    with open_ort(parsed(text, opset=18)) as session:
        assert [code for code, _ in refusals(session)] == ["deviates"]


def test_a_text_of_no_letters_is_split_into_one_by_the_next_backend():
    text = 'g (string[1] x) => (string[1,K] y, int64[1] n) { y, n = StringSplit<delimiter=",">(x) }'
    with open_ort(parsed(text, opset=20)) as session:
        assert session.run(None, {"x": np.array([""], object)})[1].tolist() == [1]


@pytest.mark.parametrize("line", ["r = Conv(a, w)", "r = AveragePool<kernel_shape=[1,1]>(a)"])
def test_scales_along_an_axis_of_what_is_computed_are_left_to_the_next_backend(line):
    text = (
        "g (uint8[1,2,2,2] x) => (uint8[1,K,2,2] y) <float[2] s = {0.5, 0.25}, "
        "uint8[2] z = {1, 2}, float[1,2,1,1] w = {1, 2}, float t = {0.25}, uint8 o = {3}> "
        "{ a = DequantizeLinear<axis=1>(x, s, z) %s y = QuantizeLinear(r, t, o) }"
    )
    model = parsed(text % line, opset=21)
    feeds = {"x": np.arange(8, dtype=np.uint8).reshape(1, 2, 2, 2)}
    with open_ort(model) as session:
        assert [code for code, _ in refusals(session)] == ["deviates"]
        (y,) = session.run(None, feeds)
    np.testing.assert_array_equal(y, ReferenceEvaluator(model).run(None, feeds)[0])


def test_a_window_of_a_size_that_is_fed_is_left_to_who_limits_it():
    with open_ort(parsed("g (int64 n) => (float[N] y) { y = HannWindow(n) }", 17)) as session:
        assert [code for code, _ in refusals(session)] == ["fed_size"]
        with pytest.raises(ExecutionError, match="SGK217"):
            session.run(None, {"n": np.array(2**40)})


def test_bodies_are_taken_with_what_they_capture():
    model = parsed(
        """g (bool c, float[2] x) => (float[2] y) <float[2] w = {3, 4}> {
        a = Relu(x)
        y = If (c) <then_branch = t () => (float[2] p) { p = Add(a, w) },
                    else_branch = e () => (float[2] q) { q = Neg(a) }> }"""
    )
    x = np.array([1, 2], np.float32)
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", (0, 1))]
        (yes,) = session.run(None, {"c": np.ones((), bool), "x": x})
        (no,) = session.run(None, {"c": np.zeros((), bool), "x": x})
    np.testing.assert_array_equal(yes, [4, 6])
    np.testing.assert_array_equal(no, [-1, -2])


def test_a_body_with_something_refused_is_refused():
    model = parsed(
        """g (bool c, int16[2] x) => (int16[2] y) {
        y = If (c) <then_branch = t () => (int16[2] p) { p = Relu(x) },
                    else_branch = e () => (int16[2] q) { q = Identity(x) }> }"""
    )
    with open_ort(model) as session:
        assert homes(session) == [("numpy", (0,))]
        assert "Could not find an implementation for" in refusals(session)[0][1]


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_elements_of_less_than_a_byte_stay_inside(dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = parsed(
        f"g (int32[4] x) => (float[4] y) {{ q = Cast<to={kind}>(x) y = Cast<to=1>(q) }}", opset=21
    )
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", (0, 1))]
    whole = parsed(
        f"g (int32[4] x) => ({np.dtype(dtype).name}[4] q) {{ q = Cast<to={kind}>(x) }}", 21
    )
    with open_ort(whole) as session:
        assert [code for code, _ in refusals(session)] == ["border"]


@pytest.mark.parametrize("operator", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize(("reduction", "home"), [("max", "numpy"), ("none", "onnxruntime")])
def test_bfloat16_is_reduced_on_the_next_backend(reduction, home, operator):
    text = (
        "g (bfloat16[2] x, int64[{0}] i, bfloat16[1] u) => (bfloat16[2] y) "
        '{{ y = {1}<reduction="{2}">(x, i, u) }}'
    )
    text = text.format("1,1" if operator == "ScatterND" else "1", operator, reduction)
    with open_ort(parsed(text, opset=18)) as session:
        assert homes(session) == [(home, (0,))]


@pytest.mark.parametrize(
    "text",
    [
        """(float[2,4,0] x, float[4] s) => (float[2,4,0] y)
        { a = Acosh(x) y = InstanceNormalization(a, s, s) }""",
        """(float[2,3,0,4] x) => (float[2,3,1,4] y)
        { y = LpPool<kernel_shape=[3,1], pads=[2,0,1,0]>(x) }""",
        """(float[1,1,2,2] x) => (float[1,1,0,0] y) <float[1,1,3,3] w = {1,1,1,1,1,1,1,1,1}>
        { y = Conv(x, w) }""",
        "(float[1,1,4] x, float[1,1,K] w) => (float[1,1,5] y) { y = Conv(x, w) }",
        """(float[1,1,4,4] x) => (float[1,1,0,2] y) <int64[4] n = {1,1,0,2}>
        { y = Resize(x, , , n) }""",
        """(uint8[3,2] a, uint8[2,4] b, uint8[3] z) => (int32[3,4] y)
        { y = MatMulInteger(a, b, z) }""",
        "(uint8[2,0] a, uint8[0,3] b) => (int32[2,3] y) { y = MatMulInteger(a, b) }",
        """(float[1,1,4] x) => (float[1,1,2] y)
        { y = MaxPool<auto_pad="SAME_UPPER", kernel_shape=[1], strides=[2]>(x) }""",
        """(double[3,2,2] x, double[1,9,2] w, double[1,9,3] r) => (double[3,1,2,3] y)
        { y = GRU<hidden_size=3>(x, w, r) }""",
        """(float16[3] x, int64[1,1] i, float16[1] u) => (float16[3] y)
        { y = ScatterND<reduction="max">(x, i, u) }""",
        """(float[2] x, bool c) => (float[2] y) { d = Cast<to=11>(x) b = Cast<to=1>(d)
        y = If(c) <then_branch = t () => (float[2] z) { z = Neg(b) },
        else_branch = e () => (float[2] w) { w = Abs(b) }> }""",
    ],
)
def test_what_has_no_elements_or_fails_at_a_run_is_computed_by_the_next_backend(text):
    model = parsed(f"g {text}")
    feeds = {
        value.name: np.ones(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim],
            helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type),
        )
        for value in model.graph.input
    }
    with open_ort(model) as session:
        assert "numpy" in dict(homes(session))
        (y,) = session.run(None, feeds)
    assert list(y.shape) == [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]


@pytest.mark.parametrize(("axis", "home"), [(1, "numpy"), (0, "onnxruntime")])
def test_scans_without_elements_along_a_later_axis_run_on_the_next_backend(axis, home):
    text = """g (float[K] x, float[3] q) => (y, z) {
        y, z = Scan<num_scan_inputs=1, scan_output_axes=[%d], body = b (float[K] s, float e)
            => (float[K] t, float[K] o) { t = Identity(s) o = Identity(s) }>(x, q) }"""
    with open_ort(parsed(text % axis, opset=16)) as session:
        assert homes(session) == [(home, (0,))]
        feeds = {"x": np.zeros(0, np.float32), "q": np.ones(3, np.float32)}
        assert session.run(None, feeds)[1].shape == ((0, 3) if axis else (3, 0))


@pytest.mark.parametrize(
    "line",
    [
        'MaxPool<auto_pad="SAME_UPPER", kernel_shape=[2], dilations=[2]>(x)',
        'AveragePool<auto_pad="SAME_LOWER", kernel_shape=[3], dilations=[2]>(x)',
        'Conv<auto_pad="SAME_UPPER", dilations=[2]>(x, w)',
        'MaxPool<auto_pad="SAME_UPPER", kernel_shape=[1], strides=[9]>(x)',
    ],
)
def test_dilations_and_steps_count_in_what_is_padded_to_the_same_size(line):
    text = "g (float[1,1,7] x) => (float[1,1,M] y) <float[1,1,2] w = {1, 2}> { y = %s }"
    with open_ort(parsed(text % line, opset=19)) as session:
        assert homes(session) == [("numpy", (0,))]
        (y,) = session.run(None, {"x": np.arange(7, dtype=np.float32).reshape(1, 1, 7)})
    assert y.shape == (1, 1, 7) or y.tolist() == [[[0]]]


def test_attention_of_doubles_keeps_their_precision():
    kind = "double[1,2,3,4]"
    text = f"g ({kind} q, {kind} k, {kind} v) => ({kind} y) {{ y = Attention(q, k, v) }}"
    with open_ort(parsed(text, opset=23)) as session:
        assert homes(session) == [("numpy", (0,))]


@pytest.mark.parametrize(
    "text",
    [
        "(int8[2,1] x, float s) => (float[2] y) { d = DequantizeLinear(x, s) y = Squeeze(d, a) }",
        """(float[2,1] x, float s) => (float[2] y) { c = Squeeze(x, a)
        q = QuantizeLinear<output_dtype=3>(c, s) y = DequantizeLinear(q, s) }""",
    ],
)
def test_signed_bytes_without_a_zero_point_keep_their_signs(text):
    head, body = text.split(" {", 1)
    model = parsed(f"g {head} <int64[1] a = {{1}}> {{{body}", opset=21)
    x = np.array([[-3], [2]], np.int8)
    dtype = np.int8 if "int8" in head else np.float32
    with open_ort(model) as session:
        (y,) = session.run(None, {"x": x.astype(dtype), "s": np.array(1, np.float32)})
    assert y.tolist() == [-3, 2]


def powerset(axes):
    """Yield all sets of axes but none at all."""
    one = tuple(axes)
    return chain.from_iterable(combinations(one, count) for count in range(1, len(one) + 1))


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 4), (2, 3, 4, 5), (2, 2, 3, 4, 3)])
def test_any_axes_may_be_resized(backend, mode, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for axes in powerset(range(len(shape))):
        sizes = [size + (axis in axes) * (1 - 2 * (axis % 2)) for axis, size in enumerate(shape)]
        model = parsed(
            f"""g (float{list(shape)} x) => (float{sizes} y)
            <int64[{len(shape)}] n = {{{", ".join(map(str, sizes))}}}>
            {{ y = Resize<mode = "{mode}">(x, , , n) }}""",
            opset=19,
        )
        with open_ort(model, f"{backend},numpy") as session, open_ort(model, "numpy") as other:
            found, expected = session.run(None, {"x": x}), other.run(None, {"x": x})
        np.testing.assert_allclose(found[0], expected[0], atol=1e-5, err_msg=f"{axes}")
