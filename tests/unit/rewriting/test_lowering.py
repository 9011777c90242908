"""From float32 to fp16 and bf16: which nodes, which Casts, and which nodes not."""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk
from subgraphkit.errors import CallerError
from subgraphkit.onnx_io import outside_weights
from subgraphkit.precision import Precision, Range, Ranges, rewrite
from tests.models import parsed


def _rewritten(body, precision="fp16", opset=18, **more):
    done = rewrite(parsed(body, opset), precision, **more)
    onnx.checker.check_model(done.model, full_check=True)
    return done


def _kept(done):
    return {one.node: one.code for one in done.kept}


def _operators(done):
    return Counter(node.op_type for node in done.model.graph.node)


def _types(done):
    graph = onnx.shape_inference.infer_shapes(done.model, strict_mode=True).graph
    infos = (*graph.value_info, *graph.output, *graph.input)
    types = {info.name: info.type.tensor_type.elem_type for info in infos}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


CHAIN = "g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(a)  y = Abs(b) }"


def test_nodes_compute_low_while_inputs_and_outputs_keep_names_and_types():
    done = _rewritten(CHAIN)
    types = _types(done)
    assert [types[name] for name in "xyab"] == [1, 1, 10, 10]
    assert _operators(done) == {"Cast": 2, "Relu": 1, "Neg": 1, "Abs": 1}
    assert done.casts == 2
    assert done.lowered == ("a", "b", "y")


def test_an_output_that_is_read_inside_is_cast_for_the_caller_alone():
    body = "g (float[2] x) => (float[2] a, float[2] y) { a = Relu(x)  y = Neg(a) }"
    done = _rewritten(body)
    neg = next(node for node in done.model.graph.node if node.op_type == "Neg")
    assert _types(done)[neg.input[0]] == TensorProto.FLOAT16
    assert _operators(done)["Cast"] == 3


def test_a_shared_weight_is_converted_once_and_stays_where_float32_is_read():
    body = """g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}>
    { a = MatMul(x, w)  b = MatMul(a, w)  c = Relu(b)  y = CumSum(c, axis)  }"""
    body = body.replace("<float", "<int64 axis = {0}, float")
    done = _rewritten(body)
    assert Counter(t.data_type for t in done.model.graph.initializer) == {7: 1, 10: 1}
    unnamed = _rewritten(body, Precision("fp16", keep=("b",)))
    assert _kept(unnamed)["b"] == "user"  # it has no name, so its output stands for it
    named = parsed(body)
    named.graph.node[1].name = "second"
    one_kept = rewrite(named, Precision("fp16", keep=("sec.*",)))
    assert _kept(one_kept)["second"] == "user"
    assert Counter(t.data_type for t in one_kept.model.graph.initializer) == {7: 1, 10: 1, 1: 1}


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_what_leads_to_a_rounding_stays_up_to_what_looks_it_up(precision):
    body = """g (int64[4] n, float[99,2] table, float[4,2] x) => (float[4,2] y)
    <float k = {7.3}, float one = {1}>
    { f = Cast <to = 1> (n) a = Add(f, one) l = Log(a) m = Mul(l, k) i = Cast <to = 7> (m)
      e = Gather(table, i) y = Add(e, x) }"""
    done = _rewritten(body, precision, opset=22)
    kept = _kept(done)
    assert {name for name, code in kept.items() if code == "rounding"} == {"a", "l", "m", "i"}
    assert {"e", "y"} == set(done.lowered)
    plain = _rewritten("g (float[4] x) => (float[4] y) { a = Neg(x) y = Floor(a) }", precision)
    assert set(_kept(plain).values()) == {"rounding"}


def test_scales_of_resize_stay_float32():
    body = """g (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 2}>
    { y = Resize(x, , s) }"""
    done = _rewritten(body)
    resize = next(node for node in done.model.graph.node if node.op_type == "Resize")
    types = _types(done)
    assert [types[resize.input[0]], types[resize.input[2]]] == [10, 1]


def test_bodies_and_what_they_read_stay_float32():
    body = """g (bool c, float[2] x) => (float[2] y) {
      a = Relu(x)
      b = If (c) <then_branch = t () => (float[2] p) { p = Neg(a) },
                  else_branch = e () => (float[2] q) { q = Abs(a) }>
      y = Relu(b) }"""
    done = _rewritten(body)
    assert _kept(done)["b"] == "body"
    assert _types(done)["a"] == TensorProto.FLOAT
    with sk.InferenceSession(done.model, backend="numpy") as session:
        feeds = {"c": np.bool_(1), "x": np.array([1, -2], np.float32)}
        np.testing.assert_array_equal(session.run(None, feeds)[0], [0, 0])


MASKED = """g (float[1,4] x, float[1,4] m) => (float[1,4] y) <float low = {-3.0e38}>
{ a = Relu(x)  b = Mul(m, low)  c = Add(a, b)  d = Softmax(c)  y = Relu(d) }"""


def test_a_mask_beyond_the_range_is_kept_up_to_the_softmax_that_reads_it():
    done = _rewritten(MASKED)
    assert _kept(done) == {"b": "weights", "c": "reaches", "d": "reaches"}
    assert done.lowered == ("a", "y")
    assert "b" not in _kept(_rewritten(MASKED, "bf16"))


def test_a_weight_that_would_vanish_is_kept():
    body = "g (float[2] x) => (float[2] y) <float w = {1e-9}> { y = Mul(x, w) }"
    assert _kept(_rewritten(body)) == {"y": "tiny"}
    assert _kept(_rewritten(body, "bf16")) == {}


def test_values_seen_to_be_large_are_kept_in_fp16_alone():
    ranges = Ranges({"a": Range(600.0, "minmax", 2, -600.0, 1.0)})
    assert _kept(_rewritten(CHAIN, ranges=ranges)) == {"a": "activation", "b": "activation"}
    allowed = Precision("fp16", data_max=1000)
    assert _kept(_rewritten(CHAIN, allowed, ranges=ranges)) == {}
    assert _kept(_rewritten(CHAIN, "bf16", ranges=ranges)) == {}


@pytest.mark.parametrize(("line", "kept"), [
    ("y = LayerNormalization(x, w)", {"y"}),
    ("s = Pow(x, two) m = ReduceMean(s) e = Add(m, two) r = Sqrt(e) y = Div(x, r)", set("smer")),
    ("s = Mul(x, x) m = ReduceMean(s) r = Sqrt(m) y = Div(x, r)", set("smr")),
    ("m = ReduceMean(x) y = Sub(x, m)", set()),
])  # fmt: skip
def test_normalisations_are_kept_in_fp16(line, kept):
    body = (
        f"g (float[2,2] x) => (float[2,2] y) <float[2] w = {{1, 1}}, float two = {{2}}> {{{line}}}"
    )
    done = _rewritten(body)
    assert {node for node, code in _kept(done).items() if code == "normalisation"} == kept
    assert _kept(_rewritten(body, "bf16")) == {}


def test_a_softmax_over_a_long_axis_is_kept_in_fp16():
    for length, codes in ((2049, ["softmax"]), (2048, [])):
        body = f"g (float[1,{length}] x) => (float[1,{length}] y) {{ y = Softmax(x) }}"
        assert list(_kept(_rewritten(body)).values()) == codes
        assert _kept(_rewritten(body, "bf16")) == {}


@pytest.mark.parametrize(("line", "terms"), [
    ("y = MatMul(x, w)", 8),
    ("y = Gemm(x, w)", 8),
    ("r = ReduceSum<keepdims=1>(x, axis) y = Mul(r, one)", 8),
])  # fmt: skip
def test_sums_of_more_terms_than_allowed_are_kept(line, terms):
    numbers = ", ".join(["1"] * 64)
    body = f"""g (float[8,8] x) => (float[a,b] y)
    <float[8,8] w = {{{numbers}}}, float one = {{1}}, int64[1] axis = {{1}}> {{ {line} }}"""
    assert _kept(_rewritten(body, Precision("fp16", max_reduction=terms))) == {}
    kept = _kept(_rewritten(body, Precision("fp16", max_reduction=terms - 1)))
    assert list(kept.values()) == ["reduction"]


def test_the_caller_says_what_to_keep_by_operator_and_what_alone_to_rewrite():
    assert _kept(_rewritten(CHAIN, Precision("fp16", keep=("Ne.",)))) == {"b": "user"}
    only = _rewritten(CHAIN, Precision("fp16", only=("Neg",)))
    assert only.lowered == ("b",)
    with pytest.raises(CallerError, match=r"SGK231.*not a regular expression"):
        Precision("fp16", keep=("(",))


def test_an_operator_that_onnx_does_not_define_is_kept():
    body = "g (float[2] x) => (float[2] y) { a = Relu(x) b = com.acme.Odd(a) y = Relu(b) }"
    model = parsed(body, imports='"com.acme" : 1')
    model.graph.value_info.append(helper.make_tensor_value_info("b", 1, [2]))
    done = rewrite(model, "fp16")
    assert _kept(done) == {"b": "unknown"}
    assert done.casts == 4
    assert done.model.graph.value_info[0].type.tensor_type.elem_type == 1


def test_nodes_that_only_move_values_between_kept_ones_cost_no_casts():
    body = """g (float[2,3] x) => (float[3,2] y) <int64 i = {0}>
    { a = CumSum(x, i) b = Transpose(a) c = Identity(b) y = CumSum(c, i) }"""
    done = _rewritten(body)
    assert _kept(done) == {"a": "never", "b": "between", "c": "between", "y": "never"}
    assert done.casts == 0


def test_what_was_widened_before_is_not_cast_back():
    body = """g (float16[2] x) => (float16[2] y)
    { a = Cast<to=1>(x) b = Relu(a) y = Cast<to=10>(b) }"""
    done = _rewritten(body)
    relu = next(node for node in done.model.graph.node if node.op_type == "Relu")
    assert relu.input[0] == "x"
    assert done.casts == 0


QUANTIZED = """g (float[2] x) => (float[2] y) <float s = {%s}, int8 z = {0}>
{ a = Relu(x) q = QuantizeLinear(a, s, z) d = DequantizeLinear(q, s, z) y = Neg(d) }"""


def test_scales_of_quantisation_follow_the_values_around_and_the_opset_is_raised_for_it():
    done = _rewritten(QUANTIZED % 0.5, opset=13)
    assert done.was_quantized
    assert done.notes[0] == "the operator set is now 19"
    assert done.lowered == ("a", "q", "d", "y")
    types = _types(done)
    assert [types[name] for name in ("a", "q", "d")] == [10, 3, 10]


def test_a_scale_with_too_few_digits_in_fp16_keeps_the_pair():
    done = _rewritten(QUANTIZED % 1e-6, opset=19)
    assert _kept(done) == {"q": "scale", "d": "scale"}


CONV = "g (float[1,1,3,3] x) => (float[1,1,3,3] y) <float[1,1,1,1] w = {2}> { y = Conv(x, w) }"


def test_the_operator_set_is_raised_where_bf16_needs_it_and_nowhere_else():
    done = _rewritten(CONV, "bf16", opset=17)
    assert done.lowered == ("y",)
    assert done.model.opset_import[0].version == 22
    assert _rewritten(CONV, "fp16", opset=17).model.opset_import[0].version == 17
    assert _rewritten(CHAIN, "bf16", opset=17).model.opset_import[0].version == 17


def test_nodes_are_kept_where_the_operator_set_cannot_be_raised():
    body = """g (float[1,1,3,3] x) => (float[1,1,3,3] y)
    <float[1,1,1,1] w = {2}, float[1,3,3] s = {1, 1, 1, 1, 1, 1, 1, 1, 1}>
    { a = Conv(x, w) b = BatchNormalization<spatial=0>(a, s, s, s, s) y = Neg(b) }"""
    done = rewrite(parsed(body, 8), "bf16")
    assert done.notes[0].startswith("the operator set could not be raised to 22: ")
    assert {one.code for one in done.kept} == {"type"}
    assert done.lowered == ()


def test_a_subgraph_is_rewritten_with_its_weights_beside_it():
    weight = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32)
    model = parsed("g (float[3,64] x) => (float[3,32] y) <float[1,1] w = {1}> { y = MatMul(x, w) }")
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
    bound = sk.bind(sk.load(model), backend="numpy")
    (subgraph,) = sk.partition(bound).subgraphs
    part = subgraph.to_model(weights="outside")
    with pytest.raises(CallerError, match=r"SGK231.*neither in the model nor given"):
        rewrite(part, "fp16", weights={})
    done = rewrite(part, "fp16", weights=outside_weights(part, subgraph))
    (stored,) = done.model.graph.initializer
    assert stored.data_location == TensorProto.EXTERNAL
    assert list(done.weights) == [stored.name]
    np.testing.assert_array_equal(done.weights[stored.name], weight.astype(np.float16))
    unchanged = rewrite(part, Precision("fp16", keep=(".*",)), weights={"w": weight})
    assert list(unchanged.weights) == ["w"]


def test_an_initializer_that_callers_may_override_keeps_its_type():
    model = parsed("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    model.graph.input.append(helper.make_tensor_value_info("w", 1, [2]))
    done = rewrite(model, "fp16")
    onnx.checker.check_model(done.model, full_check=True)
    assert [value.name for value in done.model.graph.input] == ["x", "w"]
    with sk.InferenceSession(done.model, backend="numpy") as session:
        x = np.ones(2, np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], [1, 2])
        np.testing.assert_array_equal(session.run(None, {"x": x, "w": x * 5})[0], [5, 5])


def test_an_unknown_precision_is_refused():
    with pytest.raises(CallerError, match=r"SGK231.*'fp4', expected one of 'fp16', .*'fp8'"):
        rewrite(parsed(CHAIN), "fp4")
    with pytest.raises(CallerError, match=r"SGK231.*high_precision is 'half'"):
        Precision("int8", high_precision="half")  # type: ignore[arg-type]
