"""Graphs around a group that a careless grouping would get wrong."""

import numpy as np
import pytest

from backends.numpy.tests.fusing_support import assert_close, both, values
from backends.numpy.tests.models import parsed

SQUARE = "float[2, 4, 64, 64]"

AWKWARD = {
    "a view of a value that is overwritten": """
    g (float[128, 64] x, float[64, 96] w) => (float[4, 32, 96] y) <int64[3] s = {4, 32, 96}> {
      p = MatMul(x, w) v = Reshape(p, s) a = Exp(p) b = Reshape(a, s) y = Add(v, b)
    }""",
    "a power of a mean": """
    g (float[512, 256] x) => (float[512, 256] y) <int64[1] last = {-1}, float e = {-0.5}> {
      a = Abs(x) m = ReduceMean(a, last) r = Pow(m, e) y = Mul(x, r)
    }""",
    "a view of a value from outside": """
    g (float[128, 64] x, float[64, 96] w, float[4, 32, 96] r) => (float[128, 96] y)
    <int64[2] s = {128, 96}> { p = MatMul(x, w) q = Reshape(r, s) y = Add(p, q) }""",
    "a normalisation of something else than the convolution": """
    g (float[1, 4, 32, 32] x, float[1, 4, 32, 32] z) => (float[1, 4, 32, 32] y)
    <float[4, 4, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7},
     float[4] s = {1, 2, 3, 4}, float[4] b = {1, 2, 3, 4}> {
      p = Conv(x, w) q = BatchNormalization(z, s, b, b, s) y = Add(p, q)
    }""",
    "a convolution read twice": """
    g (float[1, 4, 32, 32] x) => (float[1, 4, 32, 32] y)
    <float[4, 4, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7},
     float[4] s = {1, 2, 3, 4}, float[4] b = {1, 2, 3, 4}> {
      p = Conv(x, w) q = BatchNormalization(p, s, b, b, s) r = Relu(p) y = Add(q, r)
    }""",
    "a helper before the product": f"""
    g ({SQUARE} x, {SQUARE} w, {SQUARE} z) => ({SQUARE} y) {{
      e = Sin(z) p = MatMul(x, w) y = Sub(p, e)
    }}""",
    "a helper that the product reads": f"""
    g ({SQUARE} x, {SQUARE} w, {SQUARE} z) => ({SQUARE} y) {{
      e = Sin(z) f = Cos(e) p = MatMul(f, w) y = Sub(p, e)
    }}""",
    "a second factor that is computed": f"""
    g ({SQUARE} q, {SQUARE} k, {SQUARE} v, float[64] b) => ({SQUARE} y) {{
      s = MatMul(q, k) w = Softmax(s) vv = Add(v, b) y = MatMul(w, vv)
    }}""",
    "scores times themselves": f"""
    g ({SQUARE} q, {SQUARE} k) => ({SQUARE} y) {{
      s = MatMul(q, k) w = Softmax(s) y = MatMul(w, w)
    }}""",
    "scores times what becomes of them": f"""
    g ({SQUARE} q, {SQUARE} k) => ({SQUARE} y) {{
      s = MatMul(q, k) w = Softmax(s) z = Relu(s) y = MatMul(w, z)
    }}""",
    "a product of means": """
    g (float[2, 4, 256, 32] q, float[2, 4, 32, 256] k, float[2, 4, 1, 256] v)
        => (float[2, 4, 256, 256] y) <int64[1] last = {-1}> {
      s = MatMul(q, k) w = ReduceMean(s, last) y = MatMul(w, v)
    }""",
}


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
def test_awkward_neighbours_compute_the_same_with_fusion(text: str) -> None:
    model = parsed(text)
    inputs = [
        np.abs(values(*(dim.dim_value for dim in one.type.tensor_type.shape.dim))) / 8
        for one in model.graph.input
    ]
    assert_close(*both(model, *inputs))
