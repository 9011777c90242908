"""``new-backend``: what it refuses and what it says."""

import json
import re

from tests.unit.cli.conftest import ROOT

GUIDE = ("your-own-backend.md", "walk.txt")


def test_the_folder_is_named_after_the_distribution_unless_told(cli, tmp_path):
    ended = cli("author", "new-backend", "acme_npu")
    assert ended.code == 0
    assert (tmp_path / "subgraphkit-acme-npu" / "pyproject.toml").is_file()
    assert "subgraphkit author test acme_npu --level 5" in ended.out


def test_the_document_lists_the_files_and_what_to_do_next(cli, tmp_path):
    data = json.loads(cli("author", "new-backend", "acme", tmp_path / "a b", "--json").out)["data"]
    assert "subgraphkit_acme/backend.py" in data["files"]
    assert all((tmp_path / "a b" / name).is_file() for name in data["files"])
    assert data["next"][:2] == [f"cd '{tmp_path}/a b'", "pip install -e '.[test]'"]
    assert cli("author", "manifest", "check", tmp_path / "a b" / "subgraphkit_acme").code == 0


def test_what_comes_next_is_in_the_ci_file_the_readme_the_guide_and_its_transcript(cli, tmp_path):
    data = json.loads(cli("author", "new-backend", "acme", tmp_path / "new", "--json").out)["data"]
    steps = [one for command in data["next"][1:] for one in command.split(" && ")]
    text = (tmp_path / "new" / ".github" / "workflows" / "test.yml").read_text("utf-8")
    run = re.findall(r"- run: (.+)", text.replace('"', "'"))
    assert [one for one in steps if one not in run] == []
    readme = (tmp_path / "new" / "README.md").read_text("utf-8").replace('"', "'")
    assert [one for one in steps if one not in readme] == []
    guide, walk = ((ROOT / "docs" / name).read_text("utf-8") for name in GUIDE)
    assert [one for one in steps if one not in guide] == []
    assert [one for one in steps if f"$ cd acme; {one}\n" not in walk] == []
    names = [name for name in data["files"] if name not in guide]
    assert names == []
