"""The plugin of this tree's tests: a folder can be run by whoever has not installed everything."""

import sys

import pytest

from tests.house.tree import ROOT
from tests.scripts import run_child

FILES = {
    "test_absent.py": "import package_that_nobody_has\n",
    "test_broken.py": "import subgraphkit.room_that_is_not_there\n",
    "test_unknown.py": """
        from subgraphkit.errors import BackendNotFoundError
        def test_an_unknown_backend(): raise BackendNotFoundError("SGK101", "", backend="acme")
    """.replace("\n        ", "\n"),
}


@pytest.mark.parametrize(
    ("named", "end"),
    [(["."], "1 failed, 1 skipped, 1 error in"), ([], "1 failed, 2 errors in")],
    ids=["named files", "everything"],
)
def test_what_needs_a_package_that_is_not_installed_is_skipped_if_named(named, end, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml")]
    command += ["--continue-on-collection-errors", "-o", f"testpaths={tmp_path}"]
    done = run_child([*command, *(str(tmp_path / name) for name in named)], cwd=ROOT, status=None)
    assert end in done.stdout, done.stdout
    assert ("is not installed; pip install -e '.[test]' has it" in done.stdout) is bool(named)
