"""``doctor``, ``list`` and ``config``: what is installed, and whether it works."""

import json
from pathlib import Path

import pytest

from subgraphkit import __version__

pytestmark = pytest.mark.usefixtures("ready_children")

BROKEN = "raise ImportError('libvendor.so.4: cannot open shared object file')"
EXITS = "import os; os._exit(3)"
COMPLETE = """
import subgraphkit as sk

class Plugin(sk.Backend):
    name = "complete"
    options = (sk.Option("level", int, default=2, minimum=1, maximum=5, help="How far to go."),)
    def properties(self):
        return []
"""


def _json(ended, command, code=0):
    assert ended.code == code, ended.err
    document = json.loads(ended.out)
    assert document["schema"] == f"subgraphkit.{command}/1"
    assert document["version"] == __version__
    return document["data"]


def test_info_shows_options_with_their_variables(new_process, install, tmp_path):
    install("complete", COMPLETE)
    folder = tmp_path / "site" / "acme_complete"
    folder.mkdir()
    (tmp_path / "site" / "acme_complete.py").rename(folder / "__init__.py")
    (folder / "subgraphkit-backend.toml").write_text(
        'name = "complete"\napi = "1.0"\n[options.level]\ntype = "int"\ndefault = 2\nmin = 1\n'
        'max = 5\nhelp = "How far to go."\n'
    )
    ended = new_process("list", "complete", "--options")
    header, row = ended.out.splitlines()
    assert header.split() == ["OPTION", "TYPE", "DEFAULT", "ALLOWED", "ENVIRONMENT", "HELP"]
    assert "1 <= value <= 5" in row
    assert "SUBGRAPH_COMPLETE_LEVEL" in row


@pytest.mark.parametrize("name", ["numpy,openvino", "numpy:max_loop_iterations=9"])
def test_doctor_takes_names_and_no_selection(cli, name):
    ended = cli("doctor", name)
    assert ended.code == 1
    assert f"[SGK107] '{name}' (the argument '{name}') is not the name of one backend" in ended.out
    assert "1. Give each name by itself" in ended.out


@pytest.mark.parametrize(("source", "seconds", "finding"), [
    (BROKEN, 30, "libvendor.so.4: cannot open shared object file"),
    (EXITS, 30, "[SGK320] backend 'patient' took the process down: exit status 3"),
])  # fmt: skip
def test_doctor_survives_backends_and_counts_fixes(new_process, install, source, seconds, finding):
    install("patient", source)
    # the fallback would be tried, too, and under the same limit
    ended = new_process("doctor", "patient", "--timeout", seconds, SUBGRAPH_FALLBACK="none")
    assert ended.code == 1
    assert finding in ended.out
    assert "1. Mend or reinstall acme-patient 1.0; to do without it: SUBGRAPH_BLOCK=patient" in (
        ended.out
    )


@pytest.mark.parametrize("variables", [{}, {"SUBGRAPH_RAISE_PLUGIN_ERRORS": "1"}])
def test_doctor_shows_where_a_package_is_broken(new_process, install, variables):
    variables = {**variables, "SUBGRAPH_FALLBACK": "none"}
    install("broken", "\nimport no_such_vendor")
    ended = new_process("doctor", "broken", **variables)
    assert ended.code == 1
    assert 'acme_broken.py", line 2, in <module>' in ended.out
    assert "1. Install the module 'no_such_vendor'; to do without it:" in ended.out
    data = _json(new_process("doctor", "broken", "--json", **variables), "doctor", code=1)
    assert "ModuleNotFoundError" in data["traces"]["broken"]


def test_a_plugin_whose_errors_are_raised_unchanged_is_no_bug_of_ours(new_process, install, linear):
    install("broken", BROKEN)
    ended = new_process(
        "plan", linear, "--backend", "broken", "--json", SUBGRAPH_RAISE_PLUGIN_ERRORS="1"
    )
    assert ended.code == 3
    assert "ImportError: libvendor.so.4" in ended.err
    assert "raised by backend 'broken' (acme-broken 1.0)" in ended.err
    assert json.loads(ended.out)["errors"][0]["code"] == ""


@pytest.mark.parametrize(("variable", "value", "finding", "fix"), [
    ("SUBGRAPH_BACKEND", "nunpy", "'nunpy' (named by environment", "Write 'numpy' in place"),
    ("SUBGRAPH_BACKEND", "numpy:max_lop_iterations=1", "no option", "'max_loop_iterations' in"),
    ("SUBGRAPH_NUMPY_FOO", "1", "[SGK110]", "Options: max_loop_iterations"),
    ("SUBGRAPH_NUMPY_MAX_LOOP_ITERATIONS", "many", "[SGK111]", "Correct the value"),
    ("SUBGRAPH_BACKEND", "numpy@acme", "no distribution 'acme'", "Provided by"),
    ("SUBGRAPH_BLOCK", "numpy", "blocked by", "Unblock it"),
])  # fmt: skip
def test_doctor_checks_selection_and_options(cli, monkeypatch, variable, value, finding, fix):
    monkeypatch.setenv(variable, value)
    data = _json(cli("doctor", "numpy", "--json"), "doctor", code=1)
    (failed,) = [check for check in data["checks"] if check["status"] == "failure"]
    assert finding in failed["text"]
    assert fix in failed["fix"]
    assert data["fixes"] == [failed["fix"]]


def test_doctor_tells_of_a_setting_that_cannot_be_read(cli, monkeypatch):
    monkeypatch.setenv("SUBGRAPH_STRICT", "perhaps")
    ended = cli("doctor", "--json")
    data = _json(ended, "doctor", code=1)
    (check,) = [check for check in data["checks"] if check["status"] == "failure"]
    assert data["fixes"] == ["Correct the value, or unset it."]
    assert "SUBGRAPH_STRICT='perhaps'" in check["text"]
    assert data["environment"]["variables"]["SUBGRAPH_STRICT"] == "perhaps"


def test_config_shows_layer_and_location(cli, monkeypatch):
    Path("subgraphkit.toml").write_text('strict = true\n[options.numpy]\nkey = "value"\n')
    monkeypatch.setenv("SUBGRAPH_CONFIG", "subgraphkit.toml")
    monkeypatch.setenv("SUBGRAPH_BACKEND", "numpy")
    data = _json(cli("doctor", "--settings", "--json"), "doctor")
    settings = {entry["key"]: entry for entry in data["settings"]}
    assert settings["backend"]["layer"] == "environment"
    assert settings["strict"]["value"] == "True"
    assert settings["strict"]["layer"] == "file"
    assert "line 1" in settings["strict"]["location"]
    assert settings["options.numpy.key"]["value"] == "value"
    assert settings["on_missing"]["layer"] == "default"
    assert data["files"] == ["subgraphkit.toml"]


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
def _alone(monkeypatch):
    # doctor would try the fallback, too, every time and under the same limit
    monkeypatch.setenv("SUBGRAPH_FALLBACK", "none")


def _check(ended):
    data = json.loads(ended.out)["data"]
    (check,) = [one for one in data["checks"] if one["name"] == "backend patient"]
    return check, data


def test_a_healthy_backend_has_really_run_something(new_process, install):
    install("patient", PATIENT)
    ended = new_process("doctor", "patient", "--json")
    check, _ = _check(ended)
    assert (ended.code, check["status"], check["fix"]) == (0, "ok", "")
    assert "ready on cpu" in check["text"]
    assert "ran Relu correctly" in check["text"]


@pytest.mark.parametrize(("illness", "finding", "trace"), [
    ("crash", "[SGK320] backend 'patient' took the process down while it compiled and ran Relu",
     "the last words"),
    ("hang", "[SGK321] backend 'patient' did not return within 4 s while it compiled and", ""),
    ("error", "[SGK131] subgraph 'patient_0'", "ValueError: out of luck"),
    ("wrong", "[SGK322] backend 'patient' computes Relu wrongly: 1.0, expected 0.0", ""),
])  # fmt: skip
def test_an_illness_that_shows_when_run_is_found(new_process, install, illness, finding, trace):
    install("patient", PATIENT)
    ended = new_process("doctor", "patient", "--json", "--timeout", "4", ILLNESS=illness)
    check, data = _check(ended)
    assert ended.code == 1
    assert check["status"] == "failure"
    assert finding in check["text"]
    assert trace in data["traces"].get("patient", "")
    assert data["fixes"] == [check["fix"]]
    assert "library" in check["fix"] if illness == "wrong" else "acme-patient" in check["fix"]


def test_what_the_machine_lacks_is_mended_as_the_backend_says(new_process, install):
    install("patient", PATIENT)
    check, data = _check(new_process("doctor", "patient", "--json", ILLNESS="homesick"))
    assert check["text"] == "[SGK104] it can compile and not run"
    assert data["fixes"] == ["Go home."]
    optional = new_process(
        "doctor", "patient", "--json", ILLNESS="homesick", SUBGRAPH_BACKEND="patient?,numpy"
    )
    assert (optional.code, _check(optional)[0]["status"]) == (0, "warning")


@pytest.mark.parametrize(("chosen", "code", "status", "text"), [
    ("", 0, "warning", "builds only, there is no ground; no versions named"),
    ("patient?:stay=true,numpy", 0, "ok", "builds only, there is no ground; no versions named"),
    ("patient,numpy", 1, "failure", "[SGK104] it can compile and not run"),
], ids=["unnamed", "told to build only", "to run"])  # fmt: skip
def test_a_backend_that_only_builds_is_not_ready(new_process, install, chosen, code, status, text):
    install("patient", PATIENT)
    variables = {"SUBGRAPH_BACKEND": chosen} if chosen else {}
    ended = new_process("doctor", "patient", "--json", ILLNESS="legless", **variables)
    check, data = _check(ended)
    assert (ended.code, check["status"]) == (code, status)
    assert check["text"].startswith(text)
    assert ("compiled Relu" in check["text"]) is (status == "ok")
    assert data["fixes"] == [] if status == "ok" else data["fixes"] == ["Go home."]
    assert data["backends"]["patient"] == "build_only"


def test_taking_none_of_the_common_operators_is_a_warning(new_process, install):
    install("patient", PATIENT)
    ended = new_process("doctor", "patient", "--json", ILLNESS="idle")
    check, _ = _check(ended)
    assert (ended.code, check["status"]) == (0, "warning")
    assert "takes none of Relu, Add, Mul, MatMul" in check["text"]
    assert "subgraphkit plan MODEL --backend patient --details" in check["fix"]


def _distribution(site, name, package):
    metadata = site / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "RECORD").write_text(f"{package}/__init__.py,,\n")


def test_wheels_that_overwrite_each_other_are_named(new_process, tmp_path):
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


def test_doctor_works_where_numpy_itself_is_broken(new_process, tmp_path):
    (tmp_path / "site" / "numpy").mkdir(parents=True)
    (tmp_path / "site" / "numpy" / "__init__.py").write_text("raise ImportError('no multiarray')")
    # A variable that imports may depend on: a process that is prepared has imported NumPy already.
    ended = new_process("doctor", "numpy", "--json", STARTED="anew")
    assert ended.code == 1, ended.err
    data = json.loads(ended.out)["data"]
    (check,) = [one for one in data["checks"] if one["name"] == "backend numpy"]
    assert check["status"] == "failure"
    assert "no multiarray" in data["traces"]["numpy"]
