"""Backends of others: a selector with a budget, and a distribution."""

import json
import sys
from functools import partial

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.finding.loading import unregister_property
from subgraphkit.finding.registry import unregister_backend
from tests.models import parsed
from tests.ready import python_command
from tests.scripts import EXAMPLES, install_projects, load_script, run_child, run_python

PROJECT = EXAMPLES / "third_party_backend"
SOURCE = PROJECT / "subgraphkit_fastmath" / "__init__.py"

MODEL = """
mixed (float[N, 4] x, int64[4] n) => (float[N, 4] y, int64[4] m) <float[4] w = {1, 2, 3, 4}>
{
    a = Add(x, w)
    b = Relu(a)
    c = Neg(b)
    d = Exp(c)
    y = Mul(d, w)
    m = Add(n, n)
}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install the package into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    install_projects(folder, PROJECT)
    return folder


@pytest.fixture
def command(site, tmp_path):
    """Return a function that runs Python where the package is installed."""
    onnx.save(parsed(MODEL), tmp_path / "model.onnx")

    return partial(run_python, site=site, folder=tmp_path)


def test_the_whole_backend_is_less_than_sixty_lines():
    assert len(SOURCE.read_text(encoding="utf-8").splitlines()) < 60


def test_the_doctor_finds_it_healthy(command):
    assert "ready on cpu" in command("-m", "subgraphkit", "doctor", "fastmath").stdout


def test_one_word_of_the_environment_puts_it_to_work(command):
    done = command("-m", "subgraphkit", "plan", "model.onnx", "--json", SUBGRAPH_BACKEND="fastmath")
    data = json.loads(done.stdout)["data"]
    claimed = [s["nodes"] for s in data["subgraphs"] if s["backend"] == "fastmath"]
    assert claimed == [[0, 1], [3, 4]]
    reasons = {(one["node"], one["code"], one["text"]) for one in data["refusals"]}
    assert (5, "dtype", "int64 input; fastmath takes float32") in reasons


def test_it_computes_what_the_numpy_backend_computes(command):
    program = """
import numpy as np, subgraphkit as sk
feeds = {"x": np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4), "n": np.arange(4)}
mixed, plain = (sk.InferenceSession("model.onnx", backend=b) for b in ("fastmath", "numpy"))
assert "fastmath" in {s.backend for s in mixed.partitioning.subgraphs}
for _ in range(2):
    for ours, theirs in zip(mixed.run(None, feeds), plain.run(None, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    changed = {"w": np.full(4, 0.5, np.float32)}
    assert set(mixed.update_weights(changed)) == {"fastmath_0", "fastmath_3"}
    plain.update_weights(changed)
"""
    command("-W", "error", "-c", program)


def test_the_selector_keeps_its_budget():
    example = load_script(EXAMPLES / "custom_selector.py")
    try:
        with sk.InferenceSession(example.build(), backend="layered") as session:
            layered = [s for s in session.partitioning.subgraphs if s.backend == "layered"]
            products = [sum(n.op_type == "MatMul" for n in s.members) for s in layered]
            x = np.array([[1, 2], [3, -4]], np.float32)
            answer = session(x=x)["y"]
        with sk.InferenceSession(example.build(), backend="numpy") as plain:
            np.testing.assert_array_equal(answer, plain(x=x)["y"])
    finally:
        unregister_property("layered", example.Layers)
        unregister_backend("layered")
        del sys.modules[example.__name__]
    assert products == [2, 2, 1]


def test_the_selector_example_runs_as_a_script():
    done = run_child(python_command(str(EXAMPLES / "custom_selector.py")))
    assert "10 nodes in 3 subgraphs, backends layered (declared), numpy (declared)" in done.stdout
