"""What every source file keeps to."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.house.tree import CORE, ROOT, modules, shown, text_files

MAX_LINES = 400
MODULES = list(modules())

# A suppression names its rule and gives its reason in brackets or in a comment that follows.
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore)(?P<rest>.*)")
REASONED = re.compile(
    r"(: [A-Z]+\d+(, ?[A-Z]+\d+)* +\(.{4,}\)|\[[a-z-]+(, ?[a-z-]+)*\] +#? ?.{4,})"
)


def _calls_and_imports(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            names |= {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_a_module_is_short_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    assert ast.get_docstring(ast.parse(text)), "the module has no docstring"


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_a_module_unpickles_nothing_and_hides_no_import(path: Path) -> None:
    names = _calls_and_imports(ast.parse(path.read_text(encoding="utf-8")))
    assert not names & {"TYPE_CHECKING", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    assert not any("pickle" in name.lower() for name in names)


def test_numpy_files_are_never_read_with_pickles() -> None:
    allowed = "allow_pickle" + "=True"
    assert [shown(path) for path in modules() if allowed in path.read_text(encoding="utf-8")] == []


def test_test_files_are_short_too() -> None:
    tests = [path for path in text_files() if path.suffix == ".py" and "tests" in path.parts]
    long = [shown(path) for path in tests if len(path.read_text().splitlines()) > MAX_LINES]
    assert long == []


def test_every_suppression_names_its_rule_and_its_reason() -> None:
    bare = []
    for path in text_files():
        if path.suffix != ".py" or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = SUPPRESSION.search(line)
            if found and found[1] != "noqa" and "tests" in path.parts:
                continue  # a test hands over what the types forbid; that is its reason
            if found and not REASONED.match(found["rest"]):
                bare.append(f"{shown(path)}:{number}: {line.strip()}")
    assert bare == []


def test_the_linter_bounds_functions_and_nobody_is_excused() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert settings["select"] == ["ALL"]
    assert settings["pylint"]["max-statements"] == 30
    assert settings["mccabe"]["max-complexity"] == 8
    excused = re.compile(r"noqa:.*\b(PLR0915|C901)\b")
    assert [shown(path) for path in modules() if excused.search(path.read_text())] == []


def test_no_room_is_called_utils() -> None:
    names = {path.stem for path in modules()} | {path.name for path in CORE.iterdir()}
    assert not names & {"common", "helpers", "misc", "util", "utils"}
