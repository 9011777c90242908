"""What no file of the project contains, and links that lead somewhere."""

import re

import pytest

from tests.house.tree import PROJECTS, REPOSITORY, ROOT, shown, text_files

# The brackets keep this file from being found itself.
FORBIDDEN = re.compile(
    r"p[y]pi\.(org|python)|python[h]osted\.org|/(wor[k]|roo[t]|op[t]|hom[e]/\w+)/|/tm[p]/"
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
PAGES = [path for path in text_files() if path.suffix == ".md"]


def test_no_file_names_a_registry_or_a_path_of_one_machine():
    found = []
    for path in text_files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if FORBIDDEN.search(line):
                found.append(f"{shown(path)}:{number}: {line.strip()}")
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_the_links_of_a_page_into_this_project_lead_to_files(page):
    broken = []
    for link in LINK.finditer(_prose(page.read_text(encoding="utf-8"))):
        target = re.sub(rf"^{REPOSITORY}/(blob|tree)/main/", "/", link["target"]).partition("#")[0]
        if target and "://" not in target and not target.startswith("mailto:"):
            place = ROOT / target[1:] if target.startswith("/") else page.parent / target
            if not place.exists():
                broken.append(link["target"])
    assert broken == []


@pytest.mark.parametrize("project", [ROOT, *(path.parent for path in PROJECTS)], ids=shown)
def test_the_page_of_a_package_has_links_that_work_away_from_the_repository(project):
    page = (project / "README.md").read_text(encoding="utf-8")
    links = [link["target"] for link in LINK.finditer(_prose(page))]
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_readme_opens_with_the_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first_block = re.search(r"```\w*\n(.*?)```", readme, re.DOTALL)
    assert first_block is not None
    commands = [line.partition("#")[0].strip() for line in first_block[1].splitlines()]
    assert commands == ["make demo", "make test"]


def _prose(text):
    """Leave out code, where brackets mean something else."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
