"""``new-backend``: what it refuses and what it says."""

import json
from pathlib import Path

import pytest

from subgraphkit.backend import parse_manifest
from tests.unit.cli.conftest import Cli


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Acme", "not the form"),
        ("acme-npu", "not the form"),
        ("1st", "not the form"),
        ("a" * 33, "not the form"),
        ("auto", "a meaning of its own"),
        ("loopback", "a meaning of its own"),
        ("numpy", "publishes a backend of that name"),
    ],
)
def test_a_name_no_new_backend_may_have_is_refused_with_the_reason(
    cli: Cli, tmp_path: Path, name: str, reason: str
) -> None:
    ended = cli("new-backend", name)
    assert ended.code == 2
    assert "[SGK330]" in ended.err
    assert reason in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    ended = cli("new-backend", "acme", tmp_path)
    assert ended.code == 2
    assert "[SGK331]" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_told_with_the_reason_of_the_system(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ended = cli("new-backend", "acme", tmp_path / "file" / "inside")
    assert ended.code == 2
    assert "[SGK331]" in ended.err
    assert "Not a directory" in ended.err


def test_the_folder_is_named_after_the_distribution_unless_told(cli: Cli, tmp_path: Path) -> None:
    ended = cli("new-backend", "acme_npu")
    assert ended.code == 0
    assert (tmp_path / "subgraphkit-acme-npu" / "pyproject.toml").is_file()
    assert "subgraphkit test acme_npu --level 3" in ended.out


def test_the_document_lists_the_files_and_what_to_do_next(cli: Cli, tmp_path: Path) -> None:
    data = json.loads(cli("new-backend", "acme", tmp_path / "a b", "--json").out)["data"]
    assert "subgraphkit_acme/backend.py" in data["files"]
    assert all((tmp_path / "a b" / name).is_file() for name in data["files"])
    assert data["next"][0] == f"pip install -e '{tmp_path}/a b[test]'"


def test_the_manifest_it_writes_can_be_read(cli: Cli, tmp_path: Path) -> None:
    cli("new-backend", "acme", tmp_path / "new")
    path = tmp_path / "new" / "subgraphkit_acme" / "subgraphkit-backend.toml"
    manifest = parse_manifest(path.read_text(encoding="utf-8"), "acme")
    assert (manifest.name, manifest.devices) == ("acme", ("cpu",))
