"""What a compiled region promises: straight-line code, weights, errors, memory."""

import re
import traceback
import tracemalloc

import numpy as np
import pytest

import subgraphkit as sk
from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.errors import ExecutionError


def source(compiled):
    assert compiled.operator is not None
    return str(compiled.operator.info()["source"])


YES, NO = np.array(1, bool), np.array(0, bool)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


# -- straight-line code --------------------------------------------------------------------------


def test_a_region_becomes_one_call_per_line_with_values_reused_and_dropped():
    compiled = compile_model(
        parsed("""
        g (float[2, 3] x) => (float[2, 3] y) {
          a = Sin(x)
          b = Cos(a)
          c = Add(b, a)
          y = Mul(c, x)
        }
        """)
    )
    assert source(compiled) == (
        "def run(v0):\n"
        "    v1 = Sin_0(v0)  # #0 Sin\n"
        "    v2 = Cos_1(v1)  # #1 Cos\n"
        "    v3 = Add_2(v2, v1, out=v2); del v2, v1  # #2 Add\n"
        "    v4 = Mul_3(v3, v0, out=v3); del v3  # #3 Mul\n"
        "    return (v4, )\n"
    )
    expected = (np.cos(np.sin(X)) + np.sin(X)) * X
    np.testing.assert_allclose(compiled(X)[0], expected, rtol=1e-6)


def test_constants_are_folded_copies_dropped_and_dead_nodes_left_out():
    compiled = compile_model(
        parsed("""
        g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}> {
          two = Constant <value = float {2.0}> ()
          w2 = Mul(w, two)
          shape = Shape(x)
          same = Identity(x)
          reshaped = Reshape(same, shape)
          dropped = Dropout(reshaped)
          unused = Exp(dropped)
          y = Add(dropped, w2)
        }
        """)
    )
    assert re.findall(r"= (\w+)\(", source(compiled)) == ["Reshape_4", "Add_7"]
    np.testing.assert_array_equal(compiled(X)[0], X + np.array([2, 4, 6], np.float32))


def test_random_nodes_are_never_folded():
    compiled = compile_model(parsed("g () => (float[4] y) { y = RandomNormal <shape = [4]> () }"))
    first, second = compiled.run({})[0], compiled.run({})[0]
    assert not np.array_equal(first, second)
    seeded = compile_model(
        parsed("g () => (float[4] y) { y = RandomNormal <shape = [4], seed = 3.0> () }")
    )
    np.testing.assert_array_equal(seeded.run({})[0], seeded.run({})[0])


def test_a_value_that_is_still_needed_is_not_written_over():
    compiled = compile_model(
        parsed("""
        g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) {
          a = Sin(x)
          y = Neg(a)
          v = Transpose <perm = [1, 0]> (a)
          b = Cos(a)
          w = Transpose <perm = [1, 0]> (v)
          z = Add(b, w)
        }
        """)
    )
    y, z = compiled(X)
    np.testing.assert_allclose(y, -np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(z, np.cos(np.sin(X)) + np.sin(X), rtol=1e-6)


# -- weights -------------------------------------------------------------------------------------


def test_a_region_is_compiled_again_with_new_weights_and_what_is_folded_from_them():
    model = parsed("""
    g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] bias = {10, 20}> {
      folded = Mul(bias, w)
      y = If (c) <
        then_branch = t () => (float[2] a) { n = Neg(w) a = Add(x, n) },
        else_branch = e () => (float[2] b) { b = Add(x, folded) }
      >
    }
    """)
    feeds = {"c": YES, "x": np.zeros(2, np.float32)}
    with sk.InferenceSession(model, "numpy") as session:
        assert session.run(None, feeds)[0].tolist() == [-1, -2]
        new = {"w": np.array([3, 4], np.float32)}
        assert set(session.update_weights(new).values()) == {"recompiled"}
        assert session.run(None, feeds)[0].tolist() == [-3, -4]
        assert session.run(None, feeds | {"c": NO})[0].tolist() == [30, 80]


# -- errors --------------------------------------------------------------------------------------


def test_an_error_names_the_node_keeps_its_cause_and_shows_the_line():
    compiled = compile_model(
        parsed("""
        g (int32[N] x, int32[N] d) => (int32[N] y) { a = Neg(x) y = Div(a, d) }
        """)
    )
    x = np.array([1, 2], np.int32)
    with pytest.raises(
        ExecutionError, match=r"node #1 Div failed while running: ZeroDiv"
    ) as caught:
        compiled(x, np.array([1, 0], np.int32))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    shown = "".join(traceback.format_exception(caught.value))
    assert "Div_1(" in shown
    assert caught.value.context["nodes"] == ("#1 Div",)
    assert compiled(x, np.array([1, 1], np.int32))[0].tolist() == [-1, -2]


def test_an_error_in_a_body_names_both_nodes():
    compiled = compile_model(
        parsed("""
        g (bool c, int32[N] x, int32[N] d) => (int32[N] y) {
          n = Neg(x)
          y = If (c) <
            then_branch = t () => (int32[N] a) { a = Div(n, d) },
            else_branch = e () => (int32[N] b) { b = Identity(n) }
          >
        }
        """)
    )
    x, d = np.array([1, 2], np.int32), np.array([1, 0], np.int32)
    with pytest.raises(ExecutionError, match=r"node #1 If > #0 Div"):
        compiled(YES, x, d)
    assert compiled(NO, x, d)[0].tolist() == [-1, -2]


def test_a_constant_node_that_would_fail_fails_only_if_it_runs():
    compiled = compile_model(
        parsed("""
        g (bool c) => (int32[1] y) <int32[1] one = {1}, int32[1] zero = {0}> {
          y = If (c) <
            then_branch = t () => (int32[1] a) { a = Div(one, zero) },
            else_branch = e () => (int32[1] b) { b = Identity(one) }
          >
        }
        """)
    )
    assert compiled(NO)[0].tolist() == [1]
    with pytest.raises(ExecutionError, match="Div"):
        compiled(YES)


def test_sequences_handed_out_share_nothing_with_inputs():
    compiled = compile_model(
        parsed("""
        g (float[2, 3] x) => (seq(float[2, 3]) y) {
          y = SequenceConstruct(x, x)
        }
        """)
    )
    ((first, second),) = compiled(X)
    assert not np.shares_memory(first, X)
    assert not np.shares_memory(first, second)


def test_a_value_that_a_step_reads_twice_is_not_written_over_before_the_second_time():
    text = """g (float[2, 3] x, float[3] s) => (float[2, 3] y)
        { a = Neg(x) y = LayerNormalization <axis = 0> (a, s, a) }"""
    (y,) = compile_model(parsed(text))(X, np.ones(3, np.float32))
    np.testing.assert_allclose(y, (X.mean() - X) / X.std() - X, rtol=1e-4)


@pytest.mark.parametrize("op_type", ["Add", "Neg", "Sin", "Relu", "Equal", "ReduceSum", "Identity"])
def test_scalars_come_out_as_arrays(op_type):
    dtype = "bool" if op_type == "Equal" else "float"
    arguments = "x, x" if op_type in {"Add", "Equal"} else "x"
    compiled = compile_model(parsed(f"g (float x) => ({dtype} y) {{ y = {op_type}({arguments}) }}"))
    (y,) = compiled(np.array(2.0, np.float32))
    assert isinstance(y, np.ndarray)
    assert y.shape == ()


def test_memory_of_dead_values_is_given_back_while_running():
    lines = "\n".join(f"v{i + 1} = Sin(v{i})" for i in range(20))
    compiled = compile_model(
        parsed(f"g (float[1000, 1000] v0) => (float[1000, 1000] y) {{ {lines} y = Cos(v20) }}")
    )
    x = np.ones((1000, 1000), np.float32)
    compiled(x)
    tracemalloc.start()
    result = compiled(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result[0].nbytes == x.nbytes
    assert peak < 2.5 * x.nbytes
