"""``verify`` and ``bench``."""

import json
import re
import shlex

import numpy as np
import onnx
import pytest

from subgraphkit.comparing import Benchmark, Measured, Schedule
from tests.models import parsed
from tests.unit.cli.conftest import ROOT

TWICE = """
twice (float[2, 4] x) => (float[2, 4] y) {
  a = Exp(x)
  b = Abs(a)
  c = Exp(b)
  d = Abs(c)
  y = Exp(d)
}
"""

WRONG = """
import os
import numpy as np
import subgraphkit as sk

class Operator(sk.SubgraphOperator):
    def __init__(self, subgraph):
        self.constants = [one.array() for one in subgraph.constants.values()]

    def run(self, inputs, outputs=None):
        if os.environ.get("CRASH"):
            os.kill(os.getpid(), 9)
        (w,) = self.constants
        return [inputs[0] @ w + float(os.environ.get("OFF", 0))]

class Property(sk.SubgraphProperty):
    def create_selector(self, graph):
        return sk.OpSelector(graph, ["MatMul"])

    def create_operator(self, subgraph, context):
        return Operator(subgraph)

class Plugin(sk.Backend):
    name = "matmul"
    def properties(self):
        return [Property()]
"""


def _data(ended, command, code=0):
    assert ended.code == code, ended.err
    document = json.loads(ended.out)
    assert document["schema"] == f"subgraphkit.{command}/1"
    return document["data"]


def test_verify_names_the_subgraph_at_fault(new_process, install, linear):
    install("matmul", WRONG)
    words = ("verify", linear, "--backend", "matmul")
    ended = new_process(*words, "--per-subgraph", OFF="0.5")
    assert ended.code == 1
    assert "At fault, on right inputs: matmul_0 (#0 MatMul)" in ended.out
    data = _data(new_process(*words, "--per-subgraph", "--json", OFF="0.5"), "verify", 1)
    assert data["agrees"] is False
    assert [(one["subgraph"], one["agrees"]) for one in data["subgraphs"]] == [
        ("matmul_0", False),
        ("numpy_1", True),
    ]
    assert data["outputs"][0]["max_abs"] == pytest.approx(0.5, abs=1e-5)


def test_the_last_command_of_bisect_reproduces_what_it_found(cli, new_process, install, tmp_path):
    source = ROOT / "tests" / "unit" / "comparing" / "planted.py"
    install("planted", source.read_text(encoding="utf-8"))
    onnx.save(parsed(TWICE), tmp_path / "twice.onnx")
    words = ("verify", "twice.onnx", "--backend", "planted", "--rtol", "0.01")
    ended = new_process(*words, "--bisect", "-o", "a folder", "--json", FAULTS="c")
    data = _data(ended, "verify", 1)
    assert (data["verdict"], data["nodes"], data["reproduces"]) == ("node", ["#2 Exp"], True)
    assert data["builds"] <= 5
    summary = (tmp_path / "a folder" / "summary.txt").read_text(encoding="utf-8")
    assert "At fault, alone and on right inputs: #2 Exp" in summary
    assert summary.endswith(f"Reproduce: {data['command']}\n")
    program, *again = shlex.split(data["command"])
    assert program == "subgraphkit"
    assert "--rtol=0.01" in again
    reproduced = new_process(*again, FAULTS="c")
    assert reproduced.code == 1
    assert re.search(r"^c +FAIL +float32\[2,4\] +8 ", reproduced.out, re.MULTILINE)
    again[again.index("planted")] = "numpy:max_loop_iterations=9"
    assert cli(*again).code == 0


def test_verify_nan_names_the_first_node_on_both_sides(cli, array_file):
    onnx.save(parsed("g (float[3] x) => (float[3] y) { a = Log(x)  y = Neg(a) }"), "log.onnx")
    words = ("verify", "log.onnx", "--nan", "--backend", "numpy:max_loop_iterations=9", "--input")
    bad = array_file(np.array([-1, 0, 4], np.float32))
    ended = cli(*words, f"x={bad}")
    assert ended.code == 1
    assert "numpy:max_loop_iterations=9: #0 Log in numpy_0 is the first to make NaN" in ended.out
    assert "numpy: #0 Log in numpy_0" in ended.out
    assert "reads x float32[3]: -1 .. 4" in ended.out
    data = _data(cli(*words, f"x={bad}", "--json"), "verify", 1)
    assert [(one["node"], one["outputs"]) for one in data] == [("#0 Log", ["y"])] * 2
    assert data[0]["makes"][0].endswith("1 NaN, 1 infinite")
    good = array_file(np.array([1, 2, 4], np.float32))
    assert cli(*words, f"x={good}").code == 0


def test_bench_shows_backends_side_by_side(new_process, install, linear, tmp_path):
    install("matmul", WRONG)
    page = tmp_path / "bench.html"
    words = ("--repeat", 1, "--warmup", 0, "--json", "--html", page)
    ended = new_process("bench", linear, "--backend", "numpy", "--backend", "matmul", *words)
    assert "Where the time of a run goes" in page.read_text(encoding="utf-8")
    data = _data(ended, "bench")
    assert (data["model"], data["rounds"], data["agrees"]) == ("linear.onnx", 1, True)
    numpy, matmul = data["backends"]
    assert (numpy["selection"], numpy["ratio"], numpy["difference"]) == ("numpy", 1.0, 0.0)
    assert 0 < matmul["median_seconds"] <= matmul["p90_seconds"] <= matmul["p99_seconds"]
    assert [one["backend"] for one in matmul["subgraphs"]] == ["matmul", "numpy"]
    assert matmul["runs"] >= 3


def test_bench_measures_what_is_configured_and_each_backend_that_is_ready(cli, linear, monkeypatch):
    asked: list[object] = []

    def listen(model, feeds, selections, **_):
        asked.extend(selections)
        return Benchmark("linear", Schedule(), (Measured("numpy", code="SGK104"),))

    monkeypatch.setattr("subgraphkit.cli.commands.bench.bench", listen)
    cli("bench", linear)
    assert asked[0] is None
    assert {"numpy", "onnxruntime"} <= {*asked}


def test_bench_says_who_is_wrong_and_who_cannot_run(new_process, install, linear):
    install("matmul", WRONG)
    words = ("bench", linear, "--repeat", 1, "--warmup", 0, "--backend")
    wrong = new_process(*words, "numpy", "--backend", "matmul", OFF="1")
    assert wrong.code == 1
    assert "results differ" in wrong.out
    assert "subgraphkit verify MODEL --backend matmul --per-subgraph" in wrong.err
    gone = new_process(*words, "matmul", CRASH="1")
    assert gone.code == 6
    assert "SGK320" in gone.out
    assert "signal SIGKILL" in gone.err
    typo = new_process(*words, "numpy", "--backend", "nunpy")
    assert (typo.code, typo.out) == (3, "")
    assert "random values" not in typo.err  # names are looked at before anything is done
    assert "unknown backend 'nunpy' (named by --backend nunpy); did you mean 'numpy'?" in typo.err
