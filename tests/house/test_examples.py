"""The examples in README and docs are collected; a collector that finds nothing would pass too."""

import re

import pytest

from tests.house.tree import ROOT, shown
from tests.run_examples import DOCSTRINGS, PAGES

WITH_EXAMPLES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if re.search(r"^```(python|console)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]


def test_the_pages_one_reads_first_have_examples():
    names = {shown(page) for page in WITH_EXAMPLES}
    assert {"README.md", "docs/quickstart.md", "docs/road.md", "docs/write-a-backend.md"} <= names


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=shown)
def test_every_example_of_a_page_is_collected(page):
    written = re.findall(r"^```(?:python|console)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert PAGES.should_parse(page)
    assert len(list(PAGES.parse(page).examples())) >= len(written)


def test_the_examples_of_docstrings_are_collected():
    module = ROOT / "subgraphkit" / "configuration" / "config.py"
    assert DOCSTRINGS.should_parse(module)
    assert list(DOCSTRINGS.parse(module).examples())


def test_nothing_is_skipped_without_being_seen():
    skipping = [shown(page) for page in WITH_EXAMPLES if "skip:" in page.read_text()]
    assert skipping == []
