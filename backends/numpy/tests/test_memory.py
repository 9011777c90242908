"""Who owns what: inputs stay as they are, outputs belong to the caller, dead values are dropped."""

import tracemalloc

import numpy as np
import pytest

from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import compile_model

X = np.arange(6, dtype=np.float32).reshape(2, 3)


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
