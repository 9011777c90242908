"""Lists in the pages that are written by hand keep up with the code."""

import re
from typing import get_args
from xml.etree import ElementTree as ET

import pytest

import subgraphkit
from subgraphkit.backend.hookspecs import EXTENSION_HOOKS
from subgraphkit.cli.commands import PURPOSES
from subgraphkit.configuration.names import KNOWN_BACKENDS
from subgraphkit.finding.catalogue import State
from subgraphkit.finding.registry import get_backend
from tests.house.test_sources import CLAUSES
from tests.house.tree import CORE, ROOT, shown
from tests.scripts import load_script
from tests.suite import SAMPLED, WHOLE

DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))


@pytest.fixture(scope="module")
def subjects():
    with pytest.MonkeyPatch.context() as patch:
        folder = ROOT / "docs" / "_extensions"
        patch.syspath_prepend(folder)
        yield load_script(folder / "subjects.py")


def _page(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_a_page_begins_with_a_sentence_that_says_what_it_is_about():
    pages = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
    first = {
        name: re.findall(r"^[^\n#:<`{|-].*", text, re.MULTILINE) for name, text in pages.items()
    }
    wrong = {name: lines[0] for name, lines in first.items() if lines and CLAUSES.match(lines[0])}
    assert wrong == {}
    assert len(first) > 40


def test_every_state_of_a_backend_is_explained():
    _, _, table = _page("backends.md").partition("| state | what it says |")
    explained = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert explained == list(get_args(State))


def test_what_claims_rest_on_is_said_of_every_backend():
    _, _, table = _page("backends.md").partition("| backend | claims are |")
    rows = re.findall(r"^\| (`.*?) \| `(\w+)`", table.partition("\n\n")[0], re.MULTILINE)
    said = {name: word for names, word in rows for name in re.findall(r"`(\w+)`", names)}
    backends = {name: get_backend(name) for name in KNOWN_BACKENDS}
    assert said == {name: one.traits.evidence for name, one in backends.items()}


def test_every_command_is_in_the_table_of_commands():
    listed = re.findall(
        r"^\| `((?:(?:author|deploy) )?[\w-]+)[^`]*` \|", _page("cli.md"), re.MULTILINE
    )
    assert sorted(set(PURPOSES) - set(listed)) == []


def test_every_hook_of_extensions_is_in_the_table_of_hooks():
    _, _, table = _page("hooks.md").partition("| hook | argument | called |")
    assert re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE) == list(
        EXTENSION_HOOKS
    )


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"`(\w+)`", _page("api/index.md")))
    assert set(subgraphkit.__all__) <= listed


def test_the_rooms_in_the_picture_are_those_of_the_package_in_the_layers_of_the_contract(subjects):
    drawn = [room for layer in subjects.house_layers() for room in layer]
    assert sorted(drawn) == sorted(_rooms())
    sheet, described = subjects.house()
    words = [element.text for element in ET.fromstring(sheet.html(described)).iter()]
    assert set(drawn) <= set(words)
    assert words.index("errors") > words.index("cli")


def _rooms():
    packages = {path.parent.name for path in CORE.glob("*/__init__.py")}
    return packages | {path.stem for path in CORE.glob("*.py") if not path.name.startswith("_")}


@pytest.mark.parametrize("page", DECISIONS, ids=shown)
def test_a_decision_is_one_page_with_its_reason(page):
    text = _page(f"decisions/{page.name}")
    assert len(text.splitlines()) <= 60
    assert re.match(rf"# {page.name[:4]}: ", text)
    assert "**Decision.**" in text
    assert "**Why" in text or "| why" in text


def test_decisions_are_numbered_without_a_gap():
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_the_nightly_run_makes_every_sampled_check_in_full():
    (long,) = re.findall(r"(?m)^LONG := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text())
    sampled = {name: str(full) for name, (_, full, _) in SAMPLED.items()}
    asked = dict(re.findall(r"--([\w-]+)(?:=(\d+))?", long))
    assert asked == sampled | dict.fromkeys(WHOLE, "")
