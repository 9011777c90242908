"""The first node that makes NaN or infinity."""

import numpy as np
import pytest

from subgraphkit.comparing import find_not_finite
from subgraphkit.running import tapping
from tests.fakes import changing, claiming
from tests.models import parsed

CHAIN = """
chain (float[2, 2] x) => (float[2, 2] y, float[2, 2] z) {
  a = Abs(x)
  b = Exp(a)
  c = Sub(b, b)
  y = Neg(c)
  z = Sigmoid(x)
}
"""
HOT = np.array([[1, -2], [100, 3]], np.float32)


@pytest.fixture(params=[1, 1 << 30])
def group_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at one value at a time, and at all in one run."""
    monkeypatch.setattr(tapping, "_GROUP_BYTES", request.param)


@pytest.mark.usefixtures("group_bytes")
def test_the_first_node_that_makes_infinity_is_named_with_what_it_reads() -> None:
    found = find_not_finite(parsed(CHAIN), {"x": HOT}, "numpy")
    assert (found.node, found.subgraph, found.outputs) == ("#1 Exp", "numpy_0", ("y",))
    assert found.text.splitlines() == [
        "numpy: #1 Exp in numpy_0 is the first to make infinity",
        "  reads a float32[2,2]: 1 .. 100",
        f"  makes b float32[2,2]: {np.exp(1):.6g} .. {np.exp(3):.6g}, 1 infinite",
    ]


@pytest.mark.usefixtures("group_bytes")
def test_what_is_fed_and_what_is_constant_may_be_anything() -> None:
    masked = """
    g (float[2, 2] x, bool[2, 2] m) => (float[2, 2] y) {
      low = Constant<value = float {-inf}>()
      a = Where(m, x, low)
      y = Softmax<axis = 1>(a)
    }
    """
    one, none = np.array([[1, 0], [1, 1]], bool), np.array([[1, 0], [0, 0]], bool)
    found = find_not_finite(parsed(masked), {"x": HOT, "m": one}, "numpy")
    assert (found.node, found.outputs) == ("", ())
    assert found.text == "numpy: no node makes NaN or infinity."
    assert repr(found) == f"NotFinite({found.text!r})"
    found = find_not_finite(parsed(masked), {"x": HOT, "m": none}, "numpy")
    assert found.node == "#2 Softmax"
    assert "reads a float32[2,2]: 1 .. 1, 3 infinite" in found.text
    assert "2 NaN" in found.text
    fed = np.array([[np.nan, 1], [2, 3]], np.float32)
    found = find_not_finite(parsed(CHAIN), {"x": fed}, "numpy")
    assert (found.node, found.outputs) == ("", ("y", "z"))
    assert "It is fed, a constant, or made where nodes are fused" in found.text


def test_it_is_the_backend_s_own_numbers_that_are_looked_at() -> None:
    make = changing(lambda one: np.full_like(one, np.inf))
    wrong = claiming(["Abs"], "wrong", make=make)
    found = find_not_finite(parsed(CHAIN), {"x": HOT / 50}, wrong)
    assert (found.node, found.subgraph) == ("#0 Abs", "wrong_0")
    assert "nothing finite, 4 infinite" in found.text
    assert find_not_finite(parsed(CHAIN), {"x": HOT / 50}, "numpy").node == ""
