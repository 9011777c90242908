"""What ``doctor`` finds out by compiling and running a small model, and about packages."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Cli, Install

PATIENT = """
import os, time
import numpy as np
import subgraphkit as sk
from subgraphkit.errors import BackendUnavailableError

ILLNESS = os.environ.get("ILLNESS")

class Operator(sk.SubgraphOperator):
    def run(self, inputs, outputs=None):
        if ILLNESS == "legless":
            raise AssertionError("it was made to run")
        if ILLNESS == "crash":
            print("the last words", flush=True)
            os.kill(os.getpid(), 11)
        if ILLNESS == "hang":
            time.sleep(60)
        if ILLNESS == "error":
            raise ValueError("out of luck")
        return [np.maximum(inputs[0], 1 if ILLNESS == "wrong" else 0)]

class Property(sk.SubgraphProperty):
    def create_selector(self, graph):
        return sk.OpSelector(graph, [] if ILLNESS == "idle" else ["Relu"])

    def create_operator(self, subgraph, context):
        return Operator()

class Plugin(sk.Backend):
    name = "patient"
    api = os.environ.get("NEEDS_API", "1.0")
    options = (sk.Option("stay", "bool", default=False, help="Whether to compile alone."),)
    @classmethod
    def probe(cls, *, deep=False):
        if ILLNESS != "legless":
            return super().probe(deep=deep)
        return sk.ProbeResult(True, problems=("there is no ground",), builds_only=True)
    def __init__(self, options):
        super().__init__(options)
        if ILLNESS == "homesick" or (ILLNESS == "legless" and not options.stay):
            text = "it can compile and not run"
            raise BackendUnavailableError("SGK104", text, backend="patient", hint="Go home.")
    def properties(self):
        return [Property()]
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # doctor would try the fallback, too, every time and under the same limit
    monkeypatch.setenv("SUBGRAPH_FALLBACK", "none")


def _check(ended: Any) -> tuple[dict[str, str], dict[str, Any]]:
    data = json.loads(ended.out)["data"]
    (check,) = [one for one in data["checks"] if one["name"] == "backend patient"]
    return check, data


def test_a_healthy_backend_has_really_run_something(new_process: Cli, install: Install) -> None:
    install("patient", PATIENT)
    ended = new_process("doctor", "patient", "--json")
    check, _ = _check(ended)
    assert (ended.code, check["status"], check["fix"]) == (0, "ok", "")
    assert "ready on cpu" in check["text"]
    assert "ran Relu correctly" in check["text"]


@pytest.mark.parametrize(
    ("illness", "finding", "trace"),
    [
        (
            "crash",
            "[SGK320] backend 'patient' took the process down while it compiled and ran Relu",
            "the last words",
        ),
        ("hang", "[SGK321] backend 'patient' did not return within 4 s while it compiled and", ""),
        ("error", "[SGK131] subgraph 'patient_0'", "ValueError: out of luck"),
        ("wrong", "[SGK322] backend 'patient' computes Relu wrongly: 1.0, expected 0.0", ""),
    ],
)
def test_an_illness_that_only_shows_when_it_runs_is_found(
    new_process: Cli, install: Install, illness: str, finding: str, trace: str
) -> None:
    install("patient", PATIENT)
    ended = new_process("doctor", "patient", "--json", "--timeout", "4", ILLNESS=illness)
    check, data = _check(ended)
    assert ended.code == 1
    assert check["status"] == "failure"
    assert finding in check["text"]
    assert trace in data["traces"].get("patient", "")
    assert data["fixes"] == [check["fix"]]
    assert "library" in check["fix"] if illness == "wrong" else "acme-patient" in check["fix"]


def test_what_the_machine_lacks_is_mended_as_the_backend_says(
    new_process: Cli, install: Install
) -> None:
    install("patient", PATIENT)
    check, data = _check(new_process("doctor", "patient", "--json", ILLNESS="homesick"))
    assert check["text"] == "[SGK104] it can compile and not run"
    assert data["fixes"] == ["Go home."]
    optional = new_process(
        "doctor", "patient", "--json", ILLNESS="homesick", SUBGRAPH_BACKEND="patient?,numpy"
    )
    assert (optional.code, _check(optional)[0]["status"]) == (0, "warning")


@pytest.mark.parametrize(
    ("chosen", "code", "status", "text"),
    [
        ("", 0, "warning", "builds only, there is no ground; no versions named"),
        ("patient?:stay=true,numpy", 0, "ok", "builds only, there is no ground; no versions named"),
        ("patient,numpy", 1, "failure", "[SGK104] it can compile and not run"),
    ],
    ids=["unnamed", "told to build only", "to run"],
)
def test_a_backend_that_can_only_build_is_not_called_ready(
    new_process: Cli, install: Install, chosen: str, code: int, status: str, text: str
) -> None:
    install("patient", PATIENT)
    variables = {"SUBGRAPH_BACKEND": chosen} if chosen else {}
    ended = new_process("doctor", "patient", "--json", ILLNESS="legless", **variables)
    check, data = _check(ended)
    assert (ended.code, check["status"]) == (code, status)
    assert check["text"].startswith(text)
    assert ("compiled Relu" in check["text"]) is (status == "ok")
    assert data["fixes"] == [] if status == "ok" else data["fixes"] == ["Go home."]
    assert data["backends"]["patient"] == "build_only"


def test_taking_none_of_the_common_operators_is_a_warning(
    new_process: Cli, install: Install
) -> None:
    install("patient", PATIENT)
    ended = new_process("doctor", "patient", "--json", ILLNESS="idle")
    check, _ = _check(ended)
    assert (ended.code, check["status"]) == (0, "warning")
    assert "takes none of Relu, Add, Mul, MatMul" in check["text"]
    assert "subgraphkit plan MODEL --backend patient --details" in check["fix"]


def _distribution(site: Path, name: str, package: str) -> None:
    metadata = site / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "RECORD").write_text(f"{package}/__init__.py,,\n")


def test_wheels_that_overwrite_each_other_are_named(new_process: Cli, tmp_path: Path) -> None:
    site = tmp_path / "site"
    _distribution(site, "onnxruntime-gpu", "onnxruntime")
    _distribution(site, "onnxruntime-qnn", "onnxruntime")
    _distribution(site, "onnxruntime-genai", "onnxruntime_genai")
    data = json.loads(new_process("doctor", "numpy", "--json").out)["data"]
    (check,) = [one for one in data["checks"] if one["name"] == "packages"]
    assert check["status"] == "warning"
    assert "onnxruntime-gpu and onnxruntime-qnn" in check["text"]
    assert "genai" not in check["text"]
    assert check["fix"].startswith("pip uninstall -y ")


def test_doctor_works_where_numpy_itself_is_broken(new_process: Cli, tmp_path: Path) -> None:
    (tmp_path / "site" / "numpy").mkdir(parents=True)
    (tmp_path / "site" / "numpy" / "__init__.py").write_text("raise ImportError('no multiarray')")
    # A variable that imports may depend on: a process that is prepared has imported NumPy already.
    ended = new_process("doctor", "numpy", "--json", STARTED="anew")
    assert ended.code == 1, ended.err
    data = json.loads(ended.out)["data"]
    (check,) = [one for one in data["checks"] if one["name"] == "backend numpy"]
    assert check["status"] == "failure"
    assert "no multiarray" in data["traces"]["numpy"]
