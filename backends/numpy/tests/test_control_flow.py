"""If, Loop, Scan and sequences: bodies compiled once, with what they capture."""

import numpy as np
import pytest

from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import compile_model

SUMS = """
g (int64 n, bool go, float[2] start, float[2] step) => (float[2] last, float[k, 2] all)
{
  last, all = Loop (n, go, start) <body = b (int64 i, bool c, float[2] s)
    => (bool c2, float[2] s2, float[2] out) {
      c2 = Identity(c)
      s2 = Add(s, step)
      out = Neg(s2)
    }>
}
"""
GO, STOP = np.array(1, bool), np.array(0, bool)
START, STEP = np.array([0, 10], np.float32), np.array([1, 2], np.float32)


@pytest.mark.parametrize(("count", "go"), [(0, GO), (3, STOP)])
@pytest.mark.parametrize("text", [SUMS, SUMS.replace("float[2] s", "float[] s")])
def test_a_loop_that_never_runs_returns_its_state_and_empty_outputs(count, go, text):
    text = text.replace("float[2] out", "float[] out")
    last, collected = compile_model(parsed(text))(np.array(count), go, START, STEP)
    assert last.tolist() == [0, 10]
    assert not np.shares_memory(last, START)
    assert collected.shape == (0, 2)
    assert collected.dtype == np.float32


def test_bodies_nest_and_capture_across_levels():
    nested = """
    g (int64 n, bool go, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
      twice = Add(w, w)
      y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool c2, float[2] s2) {
        c2 = Identity(c)
        two = Constant <value = int64 {2}> ()
        late = GreaterOrEqual(i, two)
        s2 = If (late) <
          then_branch = t () => (float[2] u) { m = Mul(s, twice) u = Add(m, x) },
          else_branch = e () => (float[2] v) { v = Add(s, w) }
        >
      }>
    }
    """
    (y,) = compile_model(parsed(nested))(np.array(3), GO, START)
    state = START + np.array([1, 2]) * 2
    assert y.tolist() == (state * [2, 4] + START).tolist()


def test_a_scan_may_run_backwards_along_any_axis():
    scan = """
    g (float[2] start, float[2, n] x) => (float[2] last, float[2, n] all) {
      last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
        scan_output_axes = [1], scan_output_directions = [1],
        body = b (float[2] s, float[2] e) => (float[2] s2, float[2] o) {
          s2 = Add(s, e)
          o = Identity(s2)
        }> (start, x)
    }
    """
    x = np.array([[1, 2, 3], [10, 20, 30]], np.float32)
    compiled = compile_model(parsed(scan))
    assert compiled(np.zeros(2, np.float32), x[:, :0])[1].shape == (2, 0)
    last, collected = compiled(np.zeros(2, np.float32), x)
    assert last.tolist() == [6, 60]
    assert collected.tolist() == [[6, 5, 3], [60, 50, 30]]
