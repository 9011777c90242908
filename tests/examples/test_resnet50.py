"""The ResNet-50 demo, as `make demo` runs it."""

import os
import sys

import pytest

from tests.scripts import EXAMPLES, load_script, run_child

DEMO = EXAMPLES / "resnet50" / "demo.py"


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    done = run_child(
        [sys.executable, str(DEMO), "--runs", "1"],
        cwd=tmp_path_factory.mktemp("somewhere"),
        env={**os.environ, "SUBGRAPH_BACKEND": "numpy", "SUBGRAPH_CONFIG": "none"},
    )
    assert done.stderr == ""
    return done.stdout


def test_the_model_is_the_real_one(printed):
    assert "light_resnet50.onnx, 415 nodes: 176 operators" in printed


def test_the_partitioning_is_a_table_with_shapes(printed):
    (row,) = [line for line in printed.splitlines() if line.startswith("numpy_0")]
    assert row.split()[:3] == ["numpy_0", "numpy", "176"]
    assert "gpu_0/data_0: float32[1,3,224,224]" in row
    assert "gpu_0/softmax_1: float32[1,1000]" in row
    assert "refused: nothing" in printed


def test_the_choice_of_the_backend_is_traced_to_the_environment(printed):
    assert "backends: numpy (from environment variable SUBGRAPH_BACKEND='numpy')" in printed


def test_the_answers_agree(printed):
    lines = [line for line in printed.splitlines() if line.startswith("error against")]
    assert lines[0].startswith("error against onnx.reference:")
    assert all(line.endswith(": ok") for line in lines)


def test_the_largest_outputs_are_not_those_of_a_uniform_answer(printed):
    rows = [line.split() for line in printed.splitlines() if line.startswith("class ")]
    probabilities = [float(row[2]) for row in rows]
    assert len(probabilities) == 5
    assert probabilities == sorted(probabilities, reverse=True)
    assert probabilities[0] > 0.01


def test_every_step_is_timed(printed):
    steps = printed[printed.index("\ntime ") :].splitlines()[2:6]
    assert [step.partition("  ")[0] for step in steps] == ["load", "bind", "first run", "run"]


def test_a_wrong_answer_is_a_failure(capsys):
    demo = load_script(DEMO)
    answer = demo.np.full((1, 1000), 0.001, demo.np.float32)
    ours = demo.Measured("subgraphkit", answer, {})
    theirs = demo.Measured("onnx.reference", answer * demo.np.float32(1.1), {})
    assert not demo._show_errors(ours, [theirs])
    assert "FAIL" in capsys.readouterr().out
    assert demo._show_errors(ours, [ours])
