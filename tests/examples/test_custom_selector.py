"""The example of a stateful selector."""

import sys

import numpy as np

import subgraphkit as sk
from subgraphkit.finding.loading import unregister_property
from subgraphkit.finding.registry import unregister_backend
from tests.ready import python_command
from tests.scripts import EXAMPLES, load_script, run_child


def test_the_selector_keeps_its_budget() -> None:
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


def test_the_selector_example_runs_as_a_script() -> None:
    done = run_child(python_command(str(EXAMPLES / "custom_selector.py")))
    assert "10 nodes in 3 subgraphs, backends layered (declared), numpy (declared)" in done.stdout
