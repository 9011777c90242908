"""``list``, ``info``, ``doctor``, ``config`` and ``version``."""

import json
from pathlib import Path
from typing import Any

import pytest

from subgraphkit import __version__
from tests.unit.cli.conftest import Cli, Install

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


def _json(ended: Any, command: str, code: int = 0) -> Any:
    assert ended.code == code, ended.err
    document = json.loads(ended.out)
    assert document["schema"] == f"subgraphkit.{command}/1"
    assert document["version"] == __version__
    return document["data"]


def test_info_shows_options_with_their_variables(
    new_process: Cli, install: Install, tmp_path: Path
) -> None:
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
def test_doctor_takes_names_and_no_selection(cli: Cli, name: str) -> None:
    ended = cli("doctor", name)
    assert ended.code == 1
    assert f"[SGK107] '{name}' (the argument '{name}') is not the name of one backend" in ended.out
    assert "1. Give each name by itself" in ended.out


@pytest.mark.parametrize(
    ("source", "seconds", "finding"),
    [
        (BROKEN, 30, "libvendor.so.4: cannot open shared object file"),
        (EXITS, 30, "[SGK320] backend 'patient' took the process down: exit status 3"),
    ],
)
def test_doctor_survives_any_backend_and_numbers_the_fixes(
    new_process: Cli, install: Install, source: str, seconds: int, finding: str
) -> None:
    install("patient", source)
    # the fallback would be tried, too, and under the same limit
    ended = new_process("doctor", "patient", "--timeout", seconds, SUBGRAPH_FALLBACK="none")
    assert ended.code == 1
    assert finding in ended.out
    assert "1. Mend or reinstall acme-patient 1.0; to do without it: SUBGRAPH_BLOCK=patient" in (
        ended.out
    )


@pytest.mark.parametrize("variables", [{}, {"SUBGRAPH_RAISE_PLUGIN_ERRORS": "1"}])
def test_doctor_shows_where_a_package_is_broken(
    new_process: Cli, install: Install, variables: dict[str, str]
) -> None:
    variables = {**variables, "SUBGRAPH_FALLBACK": "none"}
    install("broken", "\nimport no_such_vendor")
    ended = new_process("doctor", "broken", **variables)
    assert ended.code == 1
    assert 'acme_broken.py", line 2, in <module>' in ended.out
    assert "1. Install the module 'no_such_vendor'; to do without it:" in ended.out
    data = _json(new_process("doctor", "broken", "--json", **variables), "doctor", code=1)
    assert "ModuleNotFoundError" in data["traces"]["broken"]


def test_a_plugin_whose_errors_are_raised_as_they_are_is_not_a_bug_of_ours(
    new_process: Cli, install: Install, linear: Path
) -> None:
    install("broken", BROKEN)
    ended = new_process(
        "plan", linear, "--backend", "broken", "--json", SUBGRAPH_RAISE_PLUGIN_ERRORS="1"
    )
    assert ended.code == 3
    assert "ImportError: libvendor.so.4" in ended.err
    assert "raised by backend 'broken' (acme-broken 1.0)" in ended.err
    assert json.loads(ended.out)["errors"][0]["code"] == ""


@pytest.mark.parametrize(
    ("variable", "value", "finding", "fix"),
    [
        ("SUBGRAPH_BACKEND", "nunpy", "'nunpy' (named by environment", "Write 'numpy' in place"),
        ("SUBGRAPH_BACKEND", "numpy:max_lop_iterations=1", "no option", "'max_loop_iterations' in"),
        ("SUBGRAPH_NUMPY_FOO", "1", "[SGK110]", "Options: max_loop_iterations"),
        ("SUBGRAPH_NUMPY_MAX_LOOP_ITERATIONS", "many", "[SGK111]", "Correct the value"),
        ("SUBGRAPH_BACKEND", "numpy@acme", "no distribution 'acme'", "Provided by"),
        ("SUBGRAPH_BLOCK", "numpy", "blocked by", "Unblock it"),
    ],
)
def test_doctor_checks_what_is_selected_and_its_options(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, finding: str, fix: str
) -> None:
    monkeypatch.setenv(variable, value)
    data = _json(cli("doctor", "numpy", "--json"), "doctor", code=1)
    (failed,) = [check for check in data["checks"] if check["status"] == "failure"]
    assert finding in failed["text"]
    assert fix in failed["fix"]
    assert data["fixes"] == [failed["fix"]]


def test_doctor_tells_of_a_setting_that_cannot_be_read(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_STRICT", "perhaps")
    ended = cli("doctor", "--json")
    data = _json(ended, "doctor", code=1)
    (check,) = [check for check in data["checks"] if check["status"] == "failure"]
    assert data["fixes"] == ["Correct the value, or unset it."]
    assert "SUBGRAPH_STRICT='perhaps'" in check["text"]
    assert data["environment"]["variables"]["SUBGRAPH_STRICT"] == "perhaps"


def test_config_shows_layer_and_location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert settings["fallback"]["layer"] == "default"
    assert data["files"] == ["subgraphkit.toml"]
