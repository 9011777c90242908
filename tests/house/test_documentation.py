"""Lists in the pages that are written by hand keep up with the code."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

import subgraphkit
from subgraphkit.backend.hookspecs import EXTENSION_HOOKS
from subgraphkit.cli.commands import PURPOSES
from subgraphkit.configuration.names import KNOWN_BACKENDS
from subgraphkit.finding.catalogue import State
from subgraphkit.finding.registry import get_backend
from tests.house.tree import CORE, ROOT, shown

DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_state_of_a_backend_is_explained() -> None:
    _, _, table = _page("backends.md").partition("| state | what it says |")
    explained = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert explained == list(get_args(State))


def test_what_claims_rest_on_is_said_of_every_backend() -> None:
    _, _, table = _page("backends.md").partition("| backend | claims are |")
    rows = re.findall(r"^\| (`.*?) \| `(\w+)`", table.partition("\n\n")[0], re.MULTILINE)
    said = {name: word for names, word in rows for name in re.findall(r"`(\w+)`", names)}
    backends = {name: get_backend(name) for name in KNOWN_BACKENDS}
    assert said == {name: getattr(one, "evidence", "") for name, one in backends.items()}


def test_every_command_is_in_the_table_of_commands() -> None:
    listed = re.findall(r"^\| `([\w-]+)[^`]*` \|", _page("cli.md"), re.MULTILINE)
    assert sorted(set(PURPOSES) - set(listed)) == []


def test_every_hook_of_extensions_is_in_the_table_of_hooks() -> None:
    _, _, table = _page("watching.md").partition("| hook | argument | called |")
    assert re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE) == list(
        EXTENSION_HOOKS
    )


def test_every_public_name_is_in_the_reference() -> None:
    listed = set(re.findall(r"`(\w+)`", _page("api/index.md")))
    assert set(subgraphkit.__all__) <= listed


def test_the_rooms_in_the_picture_are_the_layers_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [one["layers"] for one in settings["contracts"] if one["type"] == "layers"]
    rooms = set(re.findall(r"\w+", " ".join(layers)))
    (picture,) = re.findall(r"```text\n( cli.*?)```", _page("road.md"), re.DOTALL)
    pairs = re.findall(r"^ (\w+)(?:  (\w+))?(?:  (\w+))?", picture, re.MULTILINE)
    drawn = {name for pair in pairs for name in pair if name}
    assert drawn == _rooms()
    assert drawn <= rooms


def _rooms() -> set[str]:
    packages = {path.parent.name for path in CORE.glob("*/__init__.py")}
    return packages | {path.stem for path in CORE.glob("*.py") if not path.name.startswith("_")}


@pytest.mark.parametrize("page", DECISIONS, ids=shown)
def test_a_decision_is_one_page_with_its_reason(page: Path) -> None:
    text = _page(f"decisions/{page.name}")
    assert len(text.splitlines()) <= 60
    assert re.match(rf"# {page.name[:4]}: ", text)
    assert "**Decision.**" in text
    assert "**Why" in text or "| why" in text


def test_decisions_are_numbered_without_a_gap() -> None:
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
