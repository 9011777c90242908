"""Error codes: one list, every code used, every use listed, every code documented."""

import re

from subgraphkit.backend.refusal import REFUSAL_CODES
from subgraphkit.errors import CODES
from tests.house.tree import CORE, ROOT, modules, shown

CODE = re.compile(r"\bSGK\d{3}\b")


def _used(paths):
    used: dict[str, set[str]] = {}
    for path in paths:
        for code in CODE.findall(path.read_text(encoding="utf-8")):
            used.setdefault(code, set()).add(shown(path))
    return used


def test_every_code_in_the_sources_is_in_the_list():
    assert {code: at for code, at in _used(list(modules())).items() if code not in CODES} == {}


def test_every_code_in_the_list_is_used():
    sources = [path for path in modules() if path != CORE / "codes.py"]
    used = set(_used(sources))
    assert sorted(set(CODES) - used) == []


def test_the_pages_name_only_codes_that_exist():
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    assert {code: where for code, where in _used(pages).items() if code not in CODES} == {}


def test_the_documentation_renders_the_lists_themselves():
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert "```{mapping-table} subgraphkit.errors.CODES" in page
    assert "```{mapping-table} subgraphkit.backend.refusal.REFUSAL_CODES" in page


def test_codes_are_explained_in_one_line_without_a_full_stop():
    for meaning in [*CODES.values(), *REFUSAL_CODES.values()]:
        assert meaning == meaning.strip()
        assert "\n" not in meaning
        assert not meaning.endswith(".")
