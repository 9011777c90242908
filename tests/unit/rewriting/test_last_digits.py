"""Numbers whose last digits decide: places, sizes and angles stay float32."""

from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.precision import Rewriting, rewrite
from tests.models import parsed

SHORT = pytest.mark.parametrize("precision", ["fp16", "bf16"])


def _rewritten(model: onnx.ModelProto, precision: Any) -> Rewriting:
    done = rewrite(model, precision)
    onnx.checker.check_model(done.model, full_check=True)
    return done


def _run(model: onnx.ModelProto, **feeds: Any) -> Any:
    with sk.InferenceSession(model, backend="numpy") as session:
        return session.run(None, feeds)[0]


def _kept(done: Rewriting, code: str) -> set[str]:
    return {one.node for one in done.kept if one.code == code}


@SHORT
def test_scales_that_are_computed_stay_while_what_is_resized_does_not(precision: str) -> None:
    model = parsed("""g (float[1,1,61,61] x, int64[4] wanted) => (float[1,1,h,w] y)
    { s = Shape(x) f = Cast <to = 1> (s) t = Cast <to = 1> (wanted) k = Div(t, f)
      y = Resize(x, , k) }""")
    done = _rewritten(model, precision)
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
def test_angles_stay_back_to_the_position_they_are_made_from(precision: str) -> None:
    done = _rewritten(parsed(ROTARY), precision)
    assert _kept(done, "angle") == set("uabec")
    assert done.lowered == ("y",)
    p, q = np.arange(4096)[None], np.ones((1, 4096, 4), np.float32)
    error = np.abs(_run(parsed(ROTARY), p=p, q=q) - _run(done.model, p=p, q=q)).max()
    assert error <= {"fp16": 2**-11, "bf16": 2**-8}[precision]


def test_a_product_that_sums_is_where_the_way_back_from_an_angle_ends() -> None:
    model = parsed("""g (float[2,4] x, float[4,4] w) => (float[2,4] y)
    { a = MatMul(x, w) b = Neg(a) y = Sin(b) }""")
    done = _rewritten(model, "fp16")
    assert _kept(done, "angle") == {"b", "y"}
    assert done.lowered == ("a",)


def test_a_depth_that_is_a_float_stays() -> None:
    model = parsed("""g (int64[3] i, float d) => (float[3,k] y)
    <float[2] v = {0, 1}, float one = {1}> { e = Add(d, one) y = OneHot(i, e, v) }""")
    done = _rewritten(model, "bf16")
    assert _kept(done, "rounding") == {"e", "y"}
    feeds = {"i": np.arange(3), "d": np.float32(300)}
    assert _run(done.model, **feeds).shape == (3, 301)


@pytest.mark.parametrize(
    "line",
    [
        "t = Trilu(w)",
        "t = Div(w, one)",
        "t = Compress <axis = 0> (w, both)",
        "t = GatherElements(w, k)",
        "t = ReduceMin <axes = [1], keepdims = 1> (w)",
    ],
)
def test_a_mask_stays_finite_whatever_moves_it(line: str) -> None:
    model = parsed(
        f"""g (float[2,4] x, int64[2,4] k) => (float[2,4] y)
        <float n = {{-3.4e38}}, float one = {{1}}, bool[2] both = {{1, 1}}>
        {{ f = Cast <to = 1> (k) i = Sub(one, f) w = Mul(i, n) {line} a = Add(x, t)
           y = Softmax(a) }}""",
        17,
    )
    done = _rewritten(model, "fp16")
    x, k = np.ones((2, 4), np.float32), np.zeros((2, 4), np.int64)  # every place masked
    np.testing.assert_array_equal(_run(done.model, x=x, k=k), _run(model, x=x, k=k))
