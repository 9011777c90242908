"""Values in and out: layouts, buffers, threads, weights."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from backends.tvm.tests.tvm_models import dense, homes, open_tvm, operators, parsed
from subgraphkit.testing.light_models import seeded_feeds, seeded_model


def expected(weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ weights["w"] + weights["b"], 0)


def sample(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((5, 48)).astype(np.float32)


def test_inputs_that_are_strided_unaligned_or_read_only_are_read_right() -> None:
    model, weights = dense()
    x = sample()
    memory = np.zeros(x.nbytes + 4, np.uint8)
    shifted = memory[4:].view(np.float32).reshape(x.shape)
    shifted[...] = x
    wide = np.repeat(x, 2, axis=1)[:, ::2]
    fixed = x.copy()
    fixed.setflags(write=False)
    with open_tvm(model) as session:
        (operator,) = operators(session)
        for given in (x, shifted, wide, np.asfortranarray(x), fixed):
            (y,) = operator.run([given])
            np.testing.assert_allclose(y, expected(weights, x), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(fixed, x)


def test_outputs_share_memory_with_nothing_and_belong_to_the_caller() -> None:
    stored = np.arange(600, dtype=np.float32)
    model = parsed(
        "g (float[600] x) => (float[600] y, float[20, 30] z, float[600] v) "
        "{ y = Identity(x) z = Reshape(x, s) v = Identity(w) }",
        s=np.array([20, 30]),
        w=stored,
    )
    x = np.ones(1000, np.float32)
    start = -x.ctypes.data % 64 // 4
    x = x[start : start + 600]
    with open_tvm(model, fold=False) as session:
        (operator,) = operators(session)
        runs = [operator.run([x]) for _ in range(3)]
        arrays = [array for results in runs for array in results]
        for place, array in enumerate(arrays):
            assert array.flags.writeable
            others = [x, *arrays[:place]]
            assert not any(np.shares_memory(array, other) for other in others)
            array[...] = 7
        y, z, v = operator.run([x])
    np.testing.assert_array_equal(x, 1)
    np.testing.assert_array_equal(z, y.reshape(20, 30))
    np.testing.assert_array_equal(v, stored)


def test_results_go_into_the_buffers_that_are_given() -> None:
    model, weights = dense()
    x = sample()
    with open_tvm(model) as session:
        (operator,) = operators(session)
        spread = np.empty((5, 66), np.float32)[:, ::2]
        (y,) = operator.run([x], [spread])
        assert y is spread
        np.testing.assert_allclose(spread, expected(weights, x), rtol=1e-5, atol=1e-5)
        with pytest.raises(ValueError, match="buffer for output 'y'"):
            operator.run([x], [np.empty((5, 33))])


def test_many_threads_may_run_one_operator() -> None:
    model, weights = dense()
    xs = [sample(seed) for seed in range(40)]
    with open_tvm(model) as session:
        (operator,) = operators(session)
        assert operator.traits.thread_safe
        with ThreadPoolExecutor(8) as pool:
            for x, (y,) in zip(xs, pool.map(lambda x: operator.run([x]), xs), strict=True):
                np.testing.assert_allclose(y, expected(weights, x), rtol=1e-5, atol=1e-5)


def test_new_weights_are_taken_without_compiling_again() -> None:
    model, weights = dense()
    x = sample()
    with open_tvm(model) as session:
        (operator,) = operators(session)
        session.update_weights({"w": weights["w"] * 2})
        assert operators(session) == [operator]
        (y,) = session.run(None, {"x": x})
        np.testing.assert_allclose(
            y, expected({**weights, "w": weights["w"] * 2}, x), rtol=1e-5, atol=1e-5
        )
        session.update_weights({"b": weights["b"] + 1})
        (y,) = session.run(None, {"x": x})
    changed = {"w": weights["w"] * 2, "b": weights["b"] + 1}
    np.testing.assert_allclose(y, expected(changed, x), rtol=1e-5, atol=1e-5)


def test_a_closed_operator_says_so() -> None:
    model, _ = dense()
    with open_tvm(model) as session:
        (operator,) = operators(session)
    operator.close()
    with pytest.raises(RuntimeError, match="closed"):
        operator.run([sample()])


def test_a_real_network_is_right_with_numpy_taking_the_rest() -> None:
    model = seeded_model("squeezenet")
    feeds = seeded_feeds(model)
    with open_tvm(model, backend="numpy") as session:
        (wanted,) = session.run(None, feeds)
    with open_tvm(model) as session:
        assert sum(len(nodes) for backend, nodes in homes(session) if backend == "tvm") > 60
        (found,) = session.run(None, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5 * np.abs(wanted).max())


AFFINITY = """
import os, sys
import numpy as np
import subgraphkit as sk
before, environment = os.sched_getaffinity(0), dict(os.environ)
tasks = lambda: len(os.listdir("/proc/self/task"))
for threads in (1, None):
    with sk.InferenceSession(sys.argv[1], backend="tvm", threads=threads) as session:
        session.run(None, {"x": np.zeros((5, 48), np.float32)})
print(os.sched_getaffinity(0) == before, dict(os.environ) == environment)
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_a_run_ties_no_thread_to_a_processor_and_leaves_the_environment_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(dense()[0].SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", AFFINITY, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == ["True", "True"]
