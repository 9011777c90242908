"""Values in and out: layouts, buffers, threads, weights."""

import os
import sys

import numpy as np
import pytest

from backends.tvm.tests.tvm_models import dense, homes, open_tvm, operators, parsed
from subgraphkit.testing.light_models import seeded_feeds, seeded_model
from tests.scripts import run_child


def expected(weights, x):
    return np.maximum(x @ weights["w"] + weights["b"], 0)


def sample(seed=1):
    return np.random.default_rng(seed).standard_normal((5, 48)).astype(np.float32)


def test_new_weights_are_taken_without_compiling_again():
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


def test_a_real_network_is_right_with_numpy_taking_the_rest():
    model = seeded_model("squeezenet")
    feeds = seeded_feeds(model)
    with open_tvm(model, backend="numpy") as session:
        (wanted,) = session.run(None, feeds)
    with open_tvm(model) as session:
        assert sum(len(nodes) for backend, nodes in homes(session) if backend == "tvm") > 60
        (found,) = session.run(None, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5 * np.abs(wanted).max())


CONDITIONS = """g (float[4, 6] x, float[4, 6] z, bool[4, 6] a) => (float[4, 6] y, bool[4, 6] g) {
    b = Less(x, z)
    c = And(b, a)
    d = Or(c, b)
    e = Xor(d, a)
    f = Equal(e, b)
    g = Not(f)
    y = Where(g, x, z)
}"""


def test_conditions_stay_with_what_they_choose_from():
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 4, 6)).astype(np.float32)
    a = rng.random((4, 6)) < 1 / 2
    b = x < z
    wanted = (((b & a) | b) ^ a) != b
    with open_tvm(parsed(CONDITIONS)) as session:
        assert homes(session) == [("tvm", tuple(range(7)))]
        y, g = session.run(None, {"x": x, "z": z, "a": a})
    np.testing.assert_array_equal(g, wanted)
    np.testing.assert_array_equal(y, np.where(wanted, x, z))


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
def test_a_run_ties_no_thread_to_a_processor_and_leaves_the_environment_alone(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(dense()[0].SerializeToString())
    done = run_child([sys.executable, "-c", AFFINITY, str(path)])
    assert done.stdout.split() == ["True", "True"]
