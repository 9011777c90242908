"""Operators that stay in float32, by what they compute or lead to."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk
from subgraphkit.precision import rewrite
from tests.models import parsed

SHORT = pytest.mark.parametrize("precision", ["fp16", "bf16"])


def _checked(model, precision):
    done = rewrite(model, precision)
    onnx.checker.check_model(done.model, full_check=True)
    return done


def _codes(done):
    return {one.node: one.code for one in done.kept}


@SHORT
@pytest.mark.parametrize(("body", "opset", "code"), [
    ("g (float[2] x) => (int32[2] y) { y = BitCast <to = 6> (x) }", 26, "never"),
    ("g (float[2] x) => (float[2] y) { y = OptionalGetElement(x) }", 18, "type"),
    ("g (float[1,2] x) => (float[1,2] y) { y = MeanVarianceNormalization<axes = [1]>(x) }", 18,
     "never"),
    ("g (float[3,5] x, int64[3] t) => (float y) { y = SoftmaxCrossEntropyLoss(x, t) }", 18,
     "never"),
])  # fmt: skip
def test_an_operator_that_cannot_take_the_type_stays(precision, body, opset, code):
    done = _checked(parsed(body, opset), precision)
    assert _codes(done) == {"y": code}
    assert done.casts == 0


@SHORT
def test_a_tensor_in_an_attribute_states_the_type(precision):
    facts: dict[str, Any] = {
        "nodes_splits": numpy_helper.from_array(np.ones(1, np.float32)),
        "leaf_weights": numpy_helper.from_array(np.ones(2, np.float32)),
        "nodes_modes": numpy_helper.from_array(np.zeros(1, np.uint8)),
    }
    places = ("nodes_falseleafs", "nodes_trueleafs", "nodes_truenodeids")
    facts |= {place: [1] for place in places} | {"nodes_falsenodeids": [0], "nodes_featureids": [0]}
    facts |= {"leaf_targetids": [0, 0], "tree_roots": [0], "n_targets": 1}
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **facts)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 1])],
    )
    imports = [helper.make_opsetid("ai.onnx.ml", 5)]
    done = _checked(helper.make_model(graph, opset_imports=imports, ir_version=10), precision)
    assert _codes(done) == {"y": "stated"}
    assert done.casts == 0


def test_a_product_of_all_elements_is_kept_in_fp16_alone():
    body = "g (float[9] x) => (float[1] y) { y = ReduceProd(x) }"
    assert _codes(_checked(parsed(body), "fp16")) == {"y": "normalisation"}
    assert _codes(_checked(parsed(body), "bf16")) == {}


def test_a_limit_that_nothing_reaches_keeps_the_clip_and_nobody_behind_it():
    body = """g (float[2] x) => (float[2] y) <float zero = {0}, float most = {3.4028234e38}>
    { a = Clip(x, zero, most) b = Add(a, a) y = Neg(b) }"""
    done = _checked(parsed(body), "fp16")
    assert _codes(done) == {"a": "weights"}
    assert done.lowered == ("b", "y")


def test_no_new_name_is_one_that_a_body_has():
    body = """g (float[2] x, bool b) => (float[2] y) {
      n = Neg(x)
      z = If (b) <then_branch = t () => (float[2] p) { x_float16 = Abs(x) p = Neg(x_float16) },
                  else_branch = e () => (float[2] q) { q = Neg(x) }>
      y = Add(z, n) }"""
    done = _checked(parsed(body), "fp16")
    assert "x_float16" not in {value for node in done.model.graph.node for value in node.output}
    assert done.lowered == ("n", "y")


@pytest.mark.parametrize(("opset", "codes"), [(12, {"y": "softmax"}), (13, {})])
def test_an_old_softmax_sums_over_all_axes_from_its_own_on(opset, codes):
    body = "g (float[1,2,1025] x) => (float[1,2,1025] y) { y = Softmax(x) }"
    assert _codes(_checked(parsed(body, opset), "fp16")) == codes


def _run(model, **feeds):
    with sk.InferenceSession(model, backend="numpy") as session:
        return session.run(None, feeds)[0]


def _kept(done, code):
    return {one.node for one in done.kept if one.code == code}


@SHORT
def test_scales_that_are_computed_stay_while_what_is_resized_does_not(precision):
    model = parsed("""g (float[1,1,61,61] x, int64[4] wanted) => (float[1,1,h,w] y)
    { s = Shape(x) f = Cast <to = 1> (s) t = Cast <to = 1> (wanted) k = Div(t, f)
      y = Resize(x, , k) }""")
    done = _checked(model, precision)
    assert _kept(done, "rounding") == {"k"}
    assert done.lowered == ("y",)
    x, wanted = np.zeros((1, 1, 61, 61), np.float32), np.array([1, 1, 3002, 2998])
    shapes = [_run(one, x=x, wanted=wanted).shape for one in (model, done.model)]
    assert shapes[0] == shapes[1]


ROTARY = """g (int64[1,n] p, float[1,n,4] q) => (float[1,n,4] y)
<float[1,2,1] f = {1, 0.5}, int64[1] one = {1}>
{ t = Cast <to = 1> (p) u = Unsqueeze(t, one) a = MatMul(f, u) b = Transpose <perm = [0, 2, 1]> (a)
  e = Concat <axis = -1> (b, b) c = Cos(e) y = Mul(q, c) }"""


@SHORT
def test_angles_stay_back_to_the_position_they_are_made_from(precision):
    done = _checked(parsed(ROTARY), precision)
    assert _kept(done, "angle") == set("uabec")
    assert done.lowered == ("y",)
    p, q = np.arange(4096)[None], np.ones((1, 4096, 4), np.float32)
    error = np.abs(_run(parsed(ROTARY), p=p, q=q) - _run(done.model, p=p, q=q)).max()
    assert error <= {"fp16": 2**-11, "bf16": 2**-8}[precision]


def test_a_product_that_sums_is_where_the_way_back_from_an_angle_ends():
    model = parsed("""g (float[2,4] x, float[4,4] w) => (float[2,4] y)
    { a = MatMul(x, w) b = Neg(a) y = Sin(b) }""")
    done = _checked(model, "fp16")
    assert _kept(done, "angle") == {"b", "y"}
    assert done.lowered == ("a",)


def test_a_depth_that_is_a_float_stays():
    model = parsed("""g (int64[3] i, float d) => (float[3,k] y)
    <float[2] v = {0, 1}, float one = {1}> { e = Add(d, one) y = OneHot(i, e, v) }""")
    done = _checked(model, "bf16")
    assert _kept(done, "rounding") == {"e", "y"}
    feeds = {"i": np.arange(3), "d": np.float32(300)}
    assert _run(done.model, **feeds).shape == (3, 301)


@pytest.mark.parametrize("line", [
    "t = Trilu(w)",
    "t = Div(w, one)",
    "t = Compress <axis = 0> (w, both)",
    "t = GatherElements(w, k)",
    "t = ReduceMin <axes = [1], keepdims = 1> (w)",
])  # fmt: skip
def test_a_mask_stays_finite_whatever_moves_it(line):
    model = parsed(
        f"""g (float[2,4] x, int64[2,4] k) => (float[2,4] y)
        <float n = {{-3.4e38}}, float one = {{1}}, bool[2] both = {{1, 1}}>
        {{ f = Cast <to = 1> (k) i = Sub(one, f) w = Mul(i, n) {line} a = Add(x, t)
           y = Softmax(a) }}""",
        17,
    )
    done = _checked(model, "fp16")
    x, k = np.ones((2, 4), np.float32), np.zeros((2, 4), np.int64)  # every place masked
    np.testing.assert_array_equal(_run(done.model, x=x, k=k), _run(model, x=x, k=k))
