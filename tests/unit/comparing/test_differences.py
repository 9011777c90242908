"""How far values differ, and where they cease to be finite."""

import ml_dtypes
import numpy as np
import pytest

from subgraphkit.comparing import compare_values, find_not_finite, tolerance_for
from subgraphkit.comparing.stored_values import restore_values, store_values
from subgraphkit.errors import CallerError
from subgraphkit.running import tapping
from tests.fakes import changing, claiming
from tests.models import parsed


def _one(got, expected, **tolerance):
    (found,) = compare_values("y", got, expected, lambda dtype: tolerance_for(dtype, **tolerance))
    return found


def _floats(*values, dtype=np.float32):
    return np.array(values, dtype)


def test_the_figures_are_those_of_the_elements():
    found = _one(_floats(1, 2.5, -4), _floats(1, 2, -4))
    assert not found.agrees
    assert (found.wrong, found.elements) == (1, 3)
    assert (found.max_abs, found.max_rel, found.scaled) == (0.5, 0.25, 0.125)
    assert (found.worst, found.got, found.expected) == ((1,), 2.5, 2.0)


def test_the_worst_place_is_where_the_tolerance_is_exceeded_most():
    # 0.5 of 1000 is within the tolerance, 0.1 of 1 is far beyond it
    found = _one(_floats(1000.5, 1.1), _floats(1000, 1), absolute=0)
    assert (found.wrong, found.worst, found.max_abs) == (1, (1,), 0.5)
    found = _one(_floats(1.25, 7, 2), _floats(1, 4, 2), relative=0, absolute=0)
    assert found.worst == (1,)


@pytest.mark.parametrize(("dtype", "close", "far"), [
    (np.float64, 1e-10, 5e-8),
    (np.float32, 1e-4, 1e-2),
    (np.float16, 5e-3, 1.2e-2),
    (ml_dtypes.bfloat16, 2e-2, 8e-2),
    (ml_dtypes.float8_e4m3fn, 0, 0.2),
    (np.complex64, 1e-4, 1e-2),
])  # fmt: skip
def test_every_float_type_has_a_tolerance_of_its_own(dtype, close, far):
    expected = np.array([1, 2], dtype)
    assert _one(np.array([1 + close, 2], dtype), expected).agrees
    assert not _one(np.array([1 + far, 2], dtype), expected).agrees


def test_what_cancels_is_measured_by_what_was_there():
    # 1e-4 where 0 is expected is noise beside 100 and everything beside 1e-3
    assert _one(_floats(100, 1e-4), _floats(100, 0)).agrees
    assert not _one(_floats(1e-3, 1e-4), _floats(1e-3, 0)).agrees
    assert not _one(_floats(100, 1e-4), _floats(100, 0), absolute=1e-6).agrees


@pytest.mark.parametrize(
    "dtype",
    [np.int64, np.uint64, np.int8, np.bool_, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.uint2],
)
def test_integers_are_exact_whatever_is_allowed(dtype):
    one, other = np.array([1, 0, 1]).astype(dtype), np.array([1, 1, 1]).astype(dtype)
    assert _one(one, one).agrees
    found = _one(one, other, relative=1, absolute=10)
    assert not found.agrees
    assert (found.wrong, found.worst) == (1, (1,))


def test_integers_beyond_any_float_are_told_apart():
    large = 2**63 - 2
    found = _one(np.array([large + 1]), np.array([large]))
    assert (found.agrees, found.max_abs) == (False, 1)
    assert (found.got, found.expected) == (large + 1, large)


def test_nan_agrees_with_nan_and_infinity_with_the_same_infinity():
    values = _floats(np.nan, np.inf, -np.inf, 1)
    assert _one(values, values.copy()).agrees


@pytest.mark.parametrize(("got", "expected", "counts"), [
    (np.nan, 1, (1, 0)),
    (1, np.nan, (1, 0)),
    (np.inf, 1, (0, 1)),
    (np.inf, -np.inf, (0, 1)),
    (np.nan, np.inf, (1, 0)),
])  # fmt: skip
def test_values_that_are_not_finite_are_counted_by_kind(got, expected, counts):
    found = _one(_floats(5, got), _floats(5, expected), relative=1, absolute=100)
    assert not found.agrees
    assert (found.nan, found.infinite) == counts
    assert (found.wrong, found.worst, found.max_abs) == (1, (1,), 0)


def test_the_largest_floats_do_not_overflow_in_silence():
    largest = np.finfo(np.float64).max
    found = _one(_floats(largest, dtype=np.float64), _floats(-largest, dtype=np.float64))
    assert not found.agrees
    assert found.max_abs == np.inf
    assert found.cosine == pytest.approx(-1)


@pytest.mark.parametrize(("got", "expected", "problem"), [
    (np.zeros(2), np.zeros(2, np.float32), "dtype float64, expected float32"),
    (np.zeros((2, 1)), np.zeros(2), "shape [2, 1], expected [2]"),
    ([np.zeros(2)], np.zeros(2), "a sequence, expected an array"),
    (None, np.zeros(2), "nothing, expected an array"),
    ([np.zeros(2)], [], "a sequence of 1, expected one of 0"),
    ({"a": np.zeros(1)}, {"b": np.zeros(1)}, "a map with other keys than expected"),
])  # fmt: skip
def test_what_is_of_another_kind_is_a_problem_in_words(got, expected, problem):
    found = _one(got, expected)
    assert not found.agrees
    assert found.problem == problem


def test_sequences_and_maps_are_compared_part_by_part():
    got = [np.zeros(2), {"a": np.ones(1)}, None]
    expected = [np.zeros(2), {"a": np.zeros(1)}, None]
    found = compare_values("y", got, expected)
    assert [(one.name, one.agrees) for one in found] == [
        ("y[0]", True),
        ("y[1]['a']", False),
        ("y[2]", True),
    ]
    assert _one([], []).agrees


def test_text_is_exact_and_may_be_bytes_on_one_side():
    got = np.array([["a", "ü"]], object)
    assert _one(got, np.array([[b"a", "ü".encode()]], object)).agrees
    found = _one(got, np.array([["a", "u"]], object))
    assert (found.agrees, found.wrong, found.worst) == (False, 1, (0, 1))
    assert (found.got, found.expected) == ("ü", "u")


_F16 = np.float16


@pytest.mark.parametrize(
    ("expected", "nothing"),
    [
        (np.array([1.0, 2.0], np.float32), ""),
        (np.array([3.0], np.float32), ""),
        (np.array([0.0], np.float32), "the tolerance is larger than the signal"),
        (np.full((4, 4), 0.25, np.float32), "every element is 0.25"),
        (np.array([1.0, 1.0001], np.float32), "1 everywhere would agree"),
        (np.array([1.0, 1.001], _F16), "1 everywhere would agree"),
        (np.array([1e-30, -1e-30], np.float32), ""),
        (np.array([1e300, -1e300]), ""),
        (np.array([np.nan, np.nan]), "no element is finite"),
        (np.array([np.inf, 2.0, 2.0]), ""),
        (np.empty((0, 7), np.float32), "it is empty"),
        (np.array([5, 5]), ""),  # the same class twice
        (np.array([0, 0]), "every element is 0"),
        (np.array([127, 127], np.int8), "every element is 127"),
        (np.array([0]), ""),
        (np.array([True, False]), ""),
        (np.array([1 + 1j, 1 - 1j]), ""),
        (np.array(["a", "a"]), ""),
    ],
)
def test_agreeing_means_nothing_where_one_number_everywhere_would_agree(expected, nothing):
    (found,) = compare_values("y", expected.copy(), expected)
    assert found.agrees
    assert found.nothing.startswith(nothing)
    assert bool(found.nothing) is bool(nothing)


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
def group_bytes(request, monkeypatch):
    """Look at one value at a time, and at all in one run."""
    monkeypatch.setattr(tapping, "_GROUP_BYTES", request.param)


@pytest.mark.usefixtures("group_bytes")
def test_the_first_node_that_makes_infinity_is_named_with_what_it_reads():
    found = find_not_finite(parsed(CHAIN), {"x": HOT}, "numpy")
    assert (found.node, found.subgraph, found.outputs) == ("#1 Exp", "numpy_0", ("y",))
    assert found.text.splitlines() == [
        "numpy: #1 Exp in numpy_0 is the first to make infinity",
        "  reads a float32[2,2]: 1 .. 100",
        f"  makes b float32[2,2]: {np.exp(1):.6g} .. {np.exp(3):.6g}, 1 infinite",
    ]


@pytest.mark.usefixtures("group_bytes")
def test_what_is_fed_and_what_is_constant_may_be_anything():
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


def test_it_is_the_backend_s_own_numbers_that_are_looked_at():
    make = changing(lambda one: np.full_like(one, np.inf))
    wrong = claiming(["Abs"], "wrong", make=make)
    found = find_not_finite(parsed(CHAIN), {"x": HOT / 50}, wrong)
    assert (found.node, found.subgraph) == ("#0 Abs", "wrong_0")
    assert "nothing finite, 4 infinite" in found.text
    assert find_not_finite(parsed(CHAIN), {"x": HOT / 50}, "numpy").node == ""


@pytest.mark.parametrize("value", [
    np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::2],
    np.array(2.5),
    np.zeros((0, 3), np.float16),
    np.array([True, False]),
    np.array([1 + 2j], np.complex64),
    np.array([1, -2], ml_dtypes.bfloat16),
    np.array([1, -2], ml_dtypes.int4),
    np.array([0.5], ml_dtypes.float8_e4m3fn),
    np.array([["a\0", "ü"], ["", "\n"]], object),
], ids=str)  # fmt: skip
def test_a_tensor_comes_back_as_it_was(tmp_path, value):
    store_values({"odd/name": value}, tmp_path / "stored")
    (back,) = restore_values(tmp_path / "stored").values()
    assert back.dtype == value.dtype
    assert back.shape == value.shape
    assert back.tolist() == value.tolist()


def test_sequences_maps_and_nothing_come_back_too(tmp_path):
    values = {"s": [np.arange(2), np.arange(3)], "e": [], "n": None, "m": [{7: np.ones(1)}]}
    store_values(values, tmp_path / "stored")
    back = restore_values(tmp_path / "stored")
    assert list(back) == list(values)
    assert [one.tolist() for one in back["s"]] == [[0, 1], [0, 1, 2]]
    assert (back["e"], back["n"]) == ([], None)
    assert back["m"][0][7].tolist() == [1.0]


def test_an_element_type_without_a_name_in_onnx_is_refused(tmp_path):
    with pytest.raises(CallerError, match="datetime64"):
        store_values({"x": np.zeros(1, "datetime64[s]")}, tmp_path / "stored")
