"""Who owns what: inputs stay as they are, outputs belong to the caller, dead values are dropped."""

import tracemalloc

import numpy as np
import pytest

from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import compile_model

X = np.arange(6, dtype=np.float32).reshape(2, 3)


ALIASING = {
    "identity of an input": "g (float[2, 3] x) => (float[2, 3] y) { y = Identity(x) }",
    "view of an input": "g (float[2, 3] x) => (float[3, 2] y) { y = Transpose(x) }",
    "view of a view": """g (float[2, 3] x) => (float[6, 1] y)
        <int64[2] s = {6, 1}, int64[1] a = {0}> { u = Unsqueeze(x, a) y = Reshape(u, s) }""",
    "broadcast of an input": """g (float[2, 3] x) => (float[4, 2, 3] y) <int64[3] s = {4, 2, 3}>
        { y = Expand(x, s) }""",
    "one value under two names": """g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z)
        { y = Sin(x) z = Identity(y) }""",
    "view of another output, later": """g (float[2, 3] x) => (float[2, 3] y, float[3, 2] z)
        { y = Sin(x) z = Transpose(y) }""",
    "view of another output, earlier": """g (float[2, 3] x) => (float[3, 2] z, float[2, 3] y)
        { y = Sin(x) z = Transpose(y) }""",
    "parts of one value": """g (float[2, 3] x) => (float[1, 3] y, float[1, 3] z)
        { s = Sin(x) y, z = Split <axis = 0, num_outputs = 2> (s) }""",
    "a stored constant": """g (float[2, 3] x) => (float[3] y, float[2, 3] z)
        <float[3] w = {1, 2, 3}> { y = Identity(w) z = Neg(x) }""",
    "a folded constant": """g (float[2, 3] x) => (float[3] y, float[2, 3] z)
        <float[3] w = {1, 2, 3}> { y = Neg(w) z = Neg(x) }""",
    "an operator of onnx.reference": """g (float[2, 3] x) => (float[2, 3] y)
        { y = Trilu <upper = 1> (x) }""",
}


@pytest.mark.parametrize("name", ALIASING)
def test_outputs_belong_to_the_caller_and_inputs_stay_as_they_are(name: str) -> None:
    compiled = compile_model(parsed(ALIASING[name]))
    x = X.copy()
    first = compiled(x)
    np.testing.assert_array_equal(x, X)
    kept = [array.copy() for array in first]
    for place, array in enumerate(first):
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert not np.shares_memory(array, x)
        assert not any(np.shares_memory(array, other) for other in first[:place])
    for array in first:
        array.fill(77)
    np.testing.assert_array_equal(x, X)
    for want, have in zip(kept, compiled(x), strict=True):
        np.testing.assert_array_equal(have, want)


def test_sequences_handed_out_share_nothing_with_inputs() -> None:
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


def test_given_buffers_are_filled_and_wrong_ones_refused() -> None:
    compiled = compile_model(parsed("g (float[2, 3] x) => (float[2, 3] y) { y = Neg(x) }"))
    assert compiled.operator is not None
    buffer = np.empty((2, 3), np.float32)
    (result,) = compiled.operator.run([X], [buffer])
    assert result is buffer
    np.testing.assert_array_equal(buffer, -X)
    with pytest.raises(ValueError, match=r"float64\(2, 3\), expected float32\(2, 3\)"):
        compiled.operator.run([X], [np.empty((2, 3))])
    with pytest.raises(ValueError, match=r"buffer for output 'y' is read-only"):
        compiled.operator.run([X], [np.broadcast_to(np.float32(0), (2, 3))])
    strided = np.zeros((4, 6), np.float32)[::2, ::2]
    compiled.operator.run([X], [strided])
    np.testing.assert_array_equal(strided, -X)


def test_a_value_that_a_step_reads_twice_is_not_written_over_before_the_second_time() -> None:
    text = """g (float[2, 3] x, float[3] s) => (float[2, 3] y)
        { a = Neg(x) y = LayerNormalization <axis = 0> (a, s, a) }"""
    (y,) = compile_model(parsed(text))(X, np.ones(3, np.float32))
    np.testing.assert_allclose(y, (X.mean() - X) / X.std() - X, rtol=1e-4)


@pytest.mark.parametrize("op_type", ["Add", "Neg", "Sin", "Relu", "Equal", "ReduceSum", "Identity"])
def test_scalars_come_out_as_arrays(op_type: str) -> None:
    dtype = "bool" if op_type == "Equal" else "float"
    arguments = "x, x" if op_type in {"Add", "Equal"} else "x"
    compiled = compile_model(parsed(f"g (float x) => ({dtype} y) {{ y = {op_type}({arguments}) }}"))
    (y,) = compiled(np.array(2.0, np.float32))
    assert isinstance(y, np.ndarray)
    assert y.shape == ()


def test_memory_of_dead_values_is_given_back_while_running() -> None:
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
