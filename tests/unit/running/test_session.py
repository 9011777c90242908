"""Sessions: what goes in, what comes out, and what is refused at the door."""

import asyncio

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import CallerError, ExecutionError, InputError, SubgraphkitWarning
from subgraphkit.processes.memory import resident_bytes
from tests.fakes import ReferenceOperator, claiming, failing
from tests.models import CHAIN, DIAMOND, LINEAR, parsed

ALL = ("Relu", "Neg", "Abs", "Add", "MatMul", "Identity", "Mul")


def session(text, *backends, **settings):
    return sk.InferenceSession(parsed(text), list(backends) or [claiming(ALL)], **settings)


def ones(*shape):
    return np.ones(shape, np.float32)


def test_a_session_answers_like_onnx_runtimes():
    with session(LINEAR) as s:
        (result,) = s.run(None, {"x": ones(2, 3)})
        np.testing.assert_array_equal(result, [[19, 32], [19, 32]])
        assert s.run(["y"], {"x": ones(2, 3)})[0].shape == (2, 2)
        assert [(v.name, v.shape, v.type) for v in s.get_inputs()] == [
            ("x", ["N", 3], "tensor(float)")
        ]
        assert [(v.name, v.shape, v.type) for v in s.get_outputs()] == [
            ("y", ["N", 2], "tensor(float)")
        ]


def test_a_session_is_a_function_from_names_to_names():
    s = session(LINEAR)
    assert list(s(x=ones(1, 3))) == list(s(ones(1, 3))) == ["y"]
    for wrong in (lambda: s(ones(1, 3), ones(1)), lambda: s(ones(1, 3), x=ones(1, 3))):
        with pytest.raises(InputError, match=r"SGK142.*the model has x"):
            wrong()


def test_inputs_in_the_place_of_names_of_outputs_are_said_to_be_such():
    s = session(LINEAR)
    with pytest.raises(InputError, match=r"(?s)SGK143.*is a mapping.*arun\(feeds, output_names"):
        asyncio.run(s.arun(None, {"x": ones(1, 3)}))  # type: ignore[arg-type]


def test_outputs_come_in_the_order_they_are_asked_for():
    s = session("g (float[1] x) => (float[1] a, float[1] b) { a = Relu(x) b = Neg(x) }")
    b, a = s.run(["b", "a"], {"x": ones(1)})
    assert (a[0], b[0]) == (1, -1)


def test_an_output_asked_for_twice_is_two_arrays():
    first, second = session(LINEAR).run(["y", "y"], {"x": ones(1, 3)})
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, second)


def test_values_cross_from_backend_to_backend():
    s = session(DIAMOND, claiming(["Relu", "Abs"], "one"), claiming(["Neg", "Add"], "two"))
    assert {subgraph.backend for subgraph in s.partitioning.subgraphs} == {"one", "two"}
    np.testing.assert_array_equal(s.run(None, {"x": ones(2, 3)})[0], np.zeros((2, 3)))


@pytest.mark.parametrize("array", [
    np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2],
    np.broadcast_to(np.float32(3), (2, 3)),
    np.arange(6, dtype=">f4").reshape(2, 3),
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
], ids=["fortran order", "strided", "read-only", "foreign byte order", "a list"])  # fmt: skip
def test_every_form_of_a_right_array_is_accepted(array):
    (result,) = session(DIAMOND).run(None, {"x": array})
    np.testing.assert_array_equal(result, np.abs(array) - np.asarray(array))
    assert result.dtype == np.float32


class Foreign:
    """An array of another library, by DLPack alone."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **how):
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_arrays_of_other_libraries_come_in_by_dlpack():
    assert session(DIAMOND).run(None, {"x": Foreign(ones(2, 3))})[0].sum() == 0


@pytest.mark.parametrize(("feeds", "code", "told"), [
    ({}, "SGK142", "missing: 'x'"),
    ({"x": ones(2, 3), "y": ones(1)}, "SGK142", "not inputs of the model: 'y'"),
    ({"X": ones(2, 3)}, "SGK142", "The model's inputs: 'x' float32[N,3]"),
    ({"x": np.ones((2, 3))}, "SGK141", "has dtype float64; the model needs float32"),
    ({"x": np.ones((2, 3), np.int64)}, "SGK141", "x.astype('float32')"),
    ({"x": ones(2, 4)}, "SGK140", "shape (2, 4); the model needs (N, 3): dimension 1 differs"),
    ({"x": ones(3)}, "SGK140", "rank 1 instead of 2"),
    ({"x": object()}, "SGK145", "a object cannot be read as that"),
    ({"x": ["a"]}, "SGK145", "it holds string"),
    ([ones(2, 3)], "SGK145", "the feeds are a list"),
    (None, "SGK145", "the feeds are a NoneType"),
    ({"x": np.ma.masked_array(ones(2, 3))}, "SGK145", "its mask would be lost"),
    ({"x": np.zeros((2, 3), "datetime64[s]")}, "SGK141", "datetime64"),
])  # fmt: skip
def test_feeds_that_do_not_fit_are_refused_and_the_session_goes_on(feeds, code, told):
    s = session(LINEAR)
    with pytest.raises(InputError) as refusal:
        s.run(None, feeds)
    assert refusal.value.code == code
    assert told in str(refusal.value)
    assert s.run(None, {"x": ones(1, 3)})[0].shape == (1, 2)


SHARED = """g (float[N, 2] a, float[N, 2] b) => (float[N, 2] y) {
    c = Neg(a) d = Neg(b) e = Add(c, d) f = Mul(d, e) y = Add(f, c)
}"""


def test_a_symbol_has_one_value_in_all_inputs_if_strict():
    s = session(SHARED, strict=True)
    assert s.run(None, {"a": ones(3, 2), "b": ones(3, 2)})[0].shape == (3, 2)
    with pytest.raises(InputError, match="dimension 'N' is 3 in input 'a'") as refusal:
        s.run(None, {"a": ones(3, 2), "b": ones(1, 2)})
    assert refusal.value.hint.endswith("bind with shapes={'b': ('N_2', 2)}.")


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime", "openvino"])
@pytest.mark.parametrize(("first", "second"), [(1, 4), (4, 1)])
def test_a_symbol_with_two_sizes_is_run_with_one_warning(backend, first, second):
    s = sk.InferenceSession(parsed(SHARED), [backend])
    if backend == "onnxruntime" and first > second:
        pytest.skip("ONNX Runtime itself reuses a buffer of another size and says so")
    a, b = np.float32(2) * ones(first, 2), np.float32(3) * ones(second, 2)
    with pytest.warns(SubgraphkitWarning, match="dimension 'N' is") as told:
        results = [s.run(None, {"a": a, "b": b})[0] for _ in range(3)]
    assert len(told) == 1
    assert "bind with shapes={'b': ('N_2', 2)}" in str(told[0].message)
    for result in results:
        np.testing.assert_array_equal(result, np.broadcast_to(b * (a + b) - a, result.shape))
        assert result.shape == (4, 2)


def test_two_axes_of_an_input_may_share_a_name():
    s = session("g (float[S, S] x) => (float[S, S] y) { y = Neg(x) }")
    with pytest.warns(SubgraphkitWarning, match=r"shapes=\{'x': \('S', 'S_2'\)\}"):
        assert s.run(None, {"x": ones(2, 5)})[0].shape == (2, 5)


@pytest.mark.parametrize(("names", "options", "told"), [
    ("y", None, "SGK143.*pass a list"),
    (["z"], None, "SGK143.*no output 'z'"),
    (None, object(), "SGK142.*run options"),
])  # fmt: skip
def test_what_is_asked_of_a_run_has_to_be_there(names, options, told):
    with pytest.raises(CallerError, match=told):
        session(LINEAR).run(names, {"x": ones(1, 3)}, options)


def test_an_input_with_a_default_may_be_left_out():
    text = "g (float[2] x, float[2] w = {5, 6}) => (float[2] y) { y = Add(x, w) }"
    s = session(text)
    assert [v.name for v in s.get_overridable_initializers()] == ["w"]
    np.testing.assert_array_equal(s.run(None, {"x": ones(2)})[0], [6, 7])
    np.testing.assert_array_equal(s.run(None, {"x": ones(2), "w": ones(2)})[0], [2, 2])


def test_an_input_wired_straight_to_an_output_is_copied():
    x = ones(2)
    s = session("g (float[2] x) => (float[2] x, float[2] y) { y = Relu(x) }")
    through, _ = s.run(None, {"x": x})
    assert not np.shares_memory(through, x)


def test_a_graph_without_nodes_runs():
    s = session("g (float[2] x) => (float[2] x) { }")
    np.testing.assert_array_equal(s.run(None, {"x": ones(2)})[0], ones(2))


def test_a_weight_that_is_an_output_is_copied():
    s = session("g (float[2] x) => (float[2] w) <float[2] w = {1, 2}> { y = Relu(x) }")
    first, second = (s.run(None, {"x": ones(2)})[0] for _ in range(2))
    first += 1
    np.testing.assert_array_equal(second, [1, 2])


def test_a_closed_session_says_so():
    operators: list[ReferenceOperator] = []

    def make(subgraph):
        operators.append(ReferenceOperator(subgraph))
        return operators[-1]

    s = session(LINEAR, claiming(ALL, make=make))
    s.close()
    s.close()
    assert [operator.closed for operator in operators] == [1]
    with pytest.raises(CallerError, match=r"SGK144.*closed"):
        s.run(None, {"x": ones(1, 3)})


def test_every_operator_is_closed_although_one_of_them_fails_to():
    operators: list[ReferenceOperator] = []

    class Unclosable(ReferenceOperator):
        def close(self):
            super().close()
            raise OSError("the device is gone")

    def make(subgraph):
        operators.append(Unclosable(subgraph))
        return operators[-1]

    s = session(CHAIN, claiming(["Relu"], make=make, connectivity="connected"))
    s.close()
    assert [operator.closed for operator in operators] == [1, 1]


Failing = failing(ZeroDivisionError, "a kernel divided by zero")


def test_a_failure_while_running_names_the_subgraph():
    s = session(CHAIN, claiming(["Relu"], "good"), claiming(["Neg"], "bad", make=Failing))
    with pytest.raises(ExecutionError, match=r"(?s)SGK131.*a kernel divided by zero") as failure:
        s.run(None, {"x": ones(1, 4)})
    assert (failure.value.backend, failure.value.subgraph) == ("bad", "bad_1")
    assert isinstance(failure.value.__cause__, ZeroDivisionError)


def test_a_failure_moves_the_subgraph_where_the_policy_says_so():
    s = session(CHAIN, claiming(["Neg"], "bad", make=Failing), on_run_error="fallback")
    with pytest.warns(SubgraphkitWarning, match="runs on the fallback backend from now on") as told:
        (result,) = s.run(None, {"x": ones(1, 4)})
    assert [warning.filename for warning in told] == [__file__]
    np.testing.assert_array_equal(result, np.zeros((1, 4)))
    np.testing.assert_array_equal(s.run(None, {"x": ones(1, 4)})[0], result)


def test_a_failure_that_a_backend_words_itself_moves_the_subgraph_too():
    make = failing(ExecutionError, "SGK131", "a node failed", backend="bad", subgraph="bad_1")
    s = session(CHAIN, claiming(["Neg"], "bad", make=make), on_run_error="fallback")
    with pytest.warns(SubgraphkitWarning, match="a node failed"):
        (result,) = s.run(None, {"x": ones(1, 4)})
    np.testing.assert_array_equal(result, np.zeros((1, 4)))


def test_a_failure_of_the_fallback_itself_is_raised_as_it_is():
    text = "g (float[n] x, float[m] z) => (float[k] y) { y = Add(x, z) }"
    s = session(text, "numpy", on_run_error="fallback")
    with pytest.raises(ExecutionError, match="#0 Add failed while running"):
        s.run(None, {"x": ones(2), "z": ones(3)})
    np.testing.assert_array_equal(s.run(None, {"x": ones(2), "z": ones(2)})[0], [2, 2])


def returning(*results):
    class Returning(ReferenceOperator):
        def run(self, inputs, outputs=None):
            return results

    return Returning


@pytest.mark.parametrize(("results", "told"), [
    ((np.ones((2, 3)),), "dtype float64 for 'y', expected float32"),
    ((ones(3, 2),), "shape (3, 2) for 'y', expected float32[2,3]"),
    (([1.0],), "a list for 'y', expected an array"),
    ((), "wrong number of outputs"),
    ((ones(2, 3), ones(2, 3)), "wrong number of outputs"),
])  # fmt: skip
def test_a_wrong_result_is_caught_at_the_boundary(results, told):
    s = session(DIAMOND, claiming(ALL, "bad", make=returning(*results)))
    with pytest.raises(ExecutionError, match="SGK132") as failure:
        s.run(None, {"x": ones(2, 3)})
    assert told in str(failure.value)


def test_the_session_knows_how_it_was_configured(monkeypatch):
    monkeypatch.setenv("SUBGRAPH_STRICT", "no")
    rows = {row[0]: row[1:] for row in session(LINEAR).resolved_config.as_table()}
    assert rows["strict"][1] == "environment"


@pytest.mark.parametrize(("declared", "value", "told"), [
    ("int64[2]", [1.7, 2.0], "it holds float64"),
    ("uint8[2]", [1, 300], "out of bounds"),
    ("bool[2]", [2, 0], "it holds int64"),
    ("float[2]", ["1", "2"], "it holds string"),
    ("string[2]", [1, 2], "it holds int64"),
])  # fmt: skip
def test_python_values_that_would_change_are_refused(declared, value, told):
    s = session(f"g ({declared} x) => ({declared} y) {{ y = Identity(x) }}")
    with pytest.raises(InputError, match=f"SGK145.*{told}"):
        s.run(None, {"x": value})


@pytest.mark.parametrize(
    ("declared", "value"),
    [("float[2]", [1, True]), ("int64[0]", []), ("uint64[1]", [2**63]), ("bfloat16[1]", [0.5])],
)
def test_python_values_that_lose_nothing_are_accepted(declared, value):
    s = session(f"g ({declared} x) => ({declared} y) {{ y = Identity(x) }}", "numpy")
    assert s.run(None, {"x": value})[0].tolist() == value


def test_what_is_in_an_optional_is_checked():
    s = session("g (optional(float[2]) x) => (bool y) { y = OptionalHasElement(x) }", "numpy")
    assert not s.run(None, {"x": None})[0]
    assert s.run(None, {"x": ones(2)})[0]
    with pytest.raises(InputError, match="has dtype float64"):
        s.run(None, {"x": np.ones(2)})


def test_runs_take_no_memory_that_stays():
    with session(LINEAR, "numpy") as s:
        feeds = {"x": ones(2, 3)}

        def grown(runs):
            before = resident_bytes() or 0
            for _ in range(runs):
                s.run(None, feeds)
            return (resident_bytes() or 0) - before

        grown(2000)
        assert any(grown(20_000) < 1 << 20 for _ in range(3))
