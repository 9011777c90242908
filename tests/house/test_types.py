"""What a type checker sees of the package from outside."""

import importlib
import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from tests.house.outside import MISUSE, write_programs
from tests.house.tree import PACKAGES, ROOT
from tests.scripts import run_child

EXAMPLES = sorted({path.parent for path in (ROOT / "examples").rglob("*.py")})


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_in_the_table_of_a_package_can_be_imported(package):
    room = importlib.import_module(package)
    assert room.__all__
    assert [name for name in room.__all__ if not hasattr(room, name)] == []


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Return what people write, and mistakes beside it: a checker is asked once about all."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / WRONG).write_text(MISUSE, encoding="utf-8")
    return folder, [*write_programs(folder), folder / WRONG]


@pytest.fixture(scope="module")
def by_mypy(programs):
    return _mypy(*programs)


@pytest.fixture(scope="module")
def by_pyright(programs):
    return _pyright(*programs)


WRONG = "misuse.py"


SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
BEYOND_STRICT = tuple(f"[{code}]" for code in [*SETTINGS["enable_error_code"], "unreachable"])
"""What we ask of ourselves, and nobody's ``--strict`` of them."""


def _mypy(folder, files):
    """Return what mypy says, a line each; the package is the installed one, not this tree.

    Settings and cache are those of ``make lint``, which has read the package already.
    """
    paths = os.pathsep.join(map(str, [folder / "subgraphkit-acme", *EXAMPLES]))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    command += [f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}"]
    done = run_child(
        [*command, *map(str, files)], cwd=folder, env={**os.environ, "MYPYPATH": paths}, status=None
    )
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if not line.endswith(BEYOND_STRICT)]


def _pyright(folder, files):
    """Return what pyright says: file, line from 1, severity and text."""
    paths = [str(folder / "subgraphkit-acme"), *map(str, EXAMPLES)]
    settings = {"extraPaths": paths, "reportMissingModuleSource": "none"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = run_child(
        [*command, "--project", str(folder / "pyrightconfig.json"), *map(str, files)],
        cwd=folder,
        status=None,
    )
    said = json.loads(done.stdout)["generalDiagnostics"]
    return [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["severity"], one["message"])
        for one in said
    ]


def test_mypy_finds_nothing_in_what_people_write(by_mypy):
    said = [line for line in by_mypy if not line.startswith(f"{WRONG}:")]
    assert [line for line in said if ": error:" in line] == []
    revealed = [line.rpartition("Revealed type is ")[2].strip('"') for line in said]
    revealed = [one for line, one in zip(said, revealed, strict=True) if "Revealed type" in line]
    assert len(revealed) == sum(len(sys.modules[package].__all__) for package in PACKAGES)
    assert not {"Any", "builtins.object"} & set(revealed)


def test_pyright_finds_nothing_in_what_people_write(by_pyright):
    assert [one for one in by_pyright if one[2] == "error" and one[0] != WRONG] == []
    revealed = [text for file, _, _, text in by_pyright if file == "names.py" and "Type of" in text]
    assert revealed
    assert not [text for text in revealed if text.endswith(('is "Any"', 'is "Unknown"'))]


def test_both_checkers_find_exactly_the_mistakes(by_mypy, by_pyright):
    wrong = {number for number, line in enumerate(MISUSE.splitlines(), 1) if "#" in line}
    errors = [line for line in by_mypy if line.startswith(f"{WRONG}:") and ": error:" in line]
    assert {int(line.split(":")[1]) for line in errors} == wrong
    assert {line for file, line, kind, _ in by_pyright if (file, kind) == (WRONG, "error")} == wrong
