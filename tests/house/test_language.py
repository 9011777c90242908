"""Pages and help in plain words: short sentences, no turn that is read twice, and a next step."""

import re
from typing import Final

import pytest

from subgraphkit.cli.commands import PURPOSES
from subgraphkit.cli.parser import CommandLine
from tests.house.tree import CORE, ROOT, shown

MOST_WORDS: Final = 25
BANNED: Final = re.compile(
    r"as if nothing had happened|\bgo(?:es)? by\b|\b(?:held|holds?) (?:\w+ )?against\b"
    r"|\b(?:is|are|was|were) told\b|\bwhoever\b|\bwho runs what\b|\bwhat is written\b"
    r"|\bwhat was measured\b|\bbelongs? to whom\b|\bhave it quicker\b|\bwhat runs what\b",
    re.IGNORECASE,
)
CODE: Final = re.compile(r"``[^`]*``")
SAID: Final = re.compile(r'^ *"""(?=[^\s.)])((?s:.*?))"""|((?:^ *# .*\n)+)', re.MULTILINE)
ITEM: Final = re.compile(r"^\s*([\w*., ]+)(?: \([^)]*\))?: ", re.MULTILINE)
PAGES: Final = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FOR_DEVELOPERS: Final = sorted(
    [
        *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "RELIABILITY", "SECURITY")),
        *(ROOT / "docs" / "decisions").glob("*.md"),
        *(ROOT / "backends").glob("*/README.md"),
    ]
)


def sentences(text):
    """Go through the sentences of a page; code counts as a word, and a cell as a paragraph."""
    text = re.sub(
        r"^(`{3,}|:{3,}).*?^\1\s*$|\A---.*?^---$", "", text, flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", text))
    text = re.sub(r"^(#.*|\s*(?:[-*:]|\d+\.) )", r"\n\n\1", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\|", text):
        yield from re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split()))


def _wrong(text, most=MOST_WORDS):
    long = [one for one in sentences(text) if len(one.split()) > most]
    return [*long, *(found[0] for found in BANNED.finditer(text))]


@pytest.mark.parametrize("page", [*PAGES, *FOR_DEVELOPERS], ids=shown)
def test_a_page_is_in_plain_words(page):
    most = 30 if page in FOR_DEVELOPERS else MOST_WORDS
    assert _wrong(page.read_text(encoding="utf-8"), most) == []


@pytest.mark.parametrize("command", PURPOSES)
def test_the_help_of_a_command_is_in_plain_words(command):
    helps = [action.help or "" for action in CommandLine(command).called._actions]
    assert _wrong("\n\n".join([PURPOSES[command], *helps])) == []


def _wrong_in_module(source):
    """Go through docstrings and comments; items and cells of a table count as paragraphs."""
    for docstring, comment in SAID.findall(source):
        text = re.sub(r"^ *# ", "", docstring + comment, flags=re.MULTILINE)
        text = ITEM.sub(r"\n\n\1: ", CODE.sub("code", text))
        text = re.sub(r"(?<=\S) {2,}", "\n\n", text)
        yield from (wrong for wrong in _wrong(text) if not wrong.startswith("Keys:"))


def test_docstrings_and_comments_of_the_core_are_in_plain_words():
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(CORE.rglob("*.py"))}
    wrong = {shown(path): list(_wrong_in_module(source)) for path, source in sources.items()}
    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize("page", [one for one in PAGES if one.name != "changes.md"], ids=shown)
def test_a_page_has_a_next_step(page):
    steps = re.findall(r"^Next: \[.+\]\(.+\)\.$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(steps) == 1


def test_long_sentences_and_banned_turns_are_found():
    words = "word " * (MOST_WORDS + 1)
    assert _wrong(words)
    assert _wrong("It goes by what was measured.") == ["goes by", "what was measured"]
    assert not _wrong("A short one. " * MOST_WORDS)
    assert len([*_wrong_in_module(f'T = """\n"""\n"""{words}"""\n# a\n# {words[5:]}\n')]) == 2
