"""Each backend's page of operators is written from a file that the conformance kit wrote."""

import csv

import pytest

from tests.house.tree import ROOT
from tests.scripts import load_script

SUPPORT = ROOT / "docs" / "support"
FILES = sorted(SUPPORT.glob("*.csv"))
NAMES = [path.stem for path in FILES]


def rows(text):
    """Read the rows of a file."""
    return list(csv.DictReader(text.splitlines()))


def support_table():
    """Load the Sphinx extension that writes the pages."""
    pytest.importorskip("sphinx")
    return load_script(ROOT / "docs" / "_extensions" / "support_table.py")


def test_every_file_has_a_page_in_the_table_of_contents_and_every_page_a_file():
    pages = sorted(path.stem for path in SUPPORT.glob("*.md") if path.stem != "index")
    contents = (SUPPORT / "index.md").read_text()
    listed = contents.partition("```{toctree}\n")[2].partition("```")[0].split()[2:]
    assert "numpy" in NAMES
    assert pages == NAMES == sorted(listed)
    for name in NAMES:
        assert f"```{{support-table}} {name}.csv\n```" in (SUPPORT / f"{name}.md").read_text()


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_file_is_one_that_the_kit_writes_and_nothing_in_it_is_wrong(path):
    found = rows(path.read_text())
    assert tuple(found[0]) == support_table().COLUMNS
    assert len(found) >= 190
    assert sum(int(row["wrong"]) for row in found) == 0
    assert all(int(row["right"]) <= int(row["claimed"]) <= int(row["offered"]) for row in found)
