"""``author manifest``: when what was written is outdated; transcripts show what is written."""

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli

MANIFEST = """
name = "acme"
api = "1.0"
[options.names]
type = "list"
default = ["n"]
"""


@pytest.fixture
def package(cli: Cli) -> Path:
    """Return a package with the options written."""
    folder = Path("acme")
    folder.mkdir()
    (folder / "subgraphkit-backend.toml").write_text(MANIFEST, encoding="utf-8")
    assert cli("author", "manifest", "write", folder).code == 0
    return folder


def test_what_is_written_is_current_until_the_manifest_changes(cli: Cli, package: Path) -> None:
    assert cli("author", "manifest", "check", package).out.endswith("current\n")
    changed = MANIFEST.replace('["n"]', '["m"]')
    for manifest in (changed, MANIFEST[: MANIFEST.index("[options")]):
        (package / "subgraphkit-backend.toml").write_text(manifest, encoding="utf-8")
        ended = cli("author", "manifest", "check", package)
        assert (ended.code, ended.out.split()[-1]) == (1, "outdated")
        assert cli("author", "manifest", "write", package).code == 0
        assert cli("author", "manifest", "check", package).code == 0


def test_another_formatting_is_no_other_meaning(cli: Cli, package: Path) -> None:
    path = package / "backend_options.py"
    text = path.read_text(encoding="utf-8")
    other = text.replace('names: tuple[str, ...] = ("n",)', "names: tuple[str, ...] = (\n'n',)")
    assert other != text
    path.write_text(other, encoding="utf-8")
    assert cli("author", "manifest", "check", package).code == 0
    path.write_text(f"{text}(", encoding="utf-8")
    assert cli("author", "manifest", "check", package).code == 1
