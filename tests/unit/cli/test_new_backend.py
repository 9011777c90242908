"""``new-backend``: what it refuses and what it says."""

import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import parse_manifest
from subgraphkit.finding.registry import registered
from tests.models import parsed
from tests.unit.cli.conftest import ROOT, Cli

GUIDE = ("your-own-backend.md", "walk.txt")


def test_a_folder_that_holds_something_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    ended = cli("author", "new-backend", "acme", tmp_path)
    assert ended.code == 2
    assert "[SGK331]" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_told_with_the_reason_of_the_system(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ended = cli("author", "new-backend", "acme", tmp_path / "file" / "inside")
    assert ended.code == 2
    assert "[SGK331]" in ended.err
    assert "Not a directory" in ended.err


def test_the_folder_is_named_after_the_distribution_unless_told(cli: Cli, tmp_path: Path) -> None:
    ended = cli("author", "new-backend", "acme_npu")
    assert ended.code == 0
    assert (tmp_path / "subgraphkit-acme-npu" / "pyproject.toml").is_file()
    assert "subgraphkit author test acme_npu --level 5" in ended.out


def test_the_document_lists_the_files_and_what_to_do_next(cli: Cli, tmp_path: Path) -> None:
    data = json.loads(cli("author", "new-backend", "acme", tmp_path / "a b", "--json").out)["data"]
    assert "subgraphkit_acme/backend.py" in data["files"]
    assert all((tmp_path / "a b" / name).is_file() for name in data["files"])
    assert data["next"][:2] == [f"cd '{tmp_path}/a b'", "pip install -e '.[test]'"]


def test_the_manifest_it_writes_has_the_options_that_were_asked_for(
    cli: Cli, tmp_path: Path
) -> None:
    words = (
        "tile:int=8,mode:enum=fast|exact,place:path,share:float=1e-05,on:bool=yes,size:bytes=2GiB"
    )
    assert cli("author", "new-backend", "acme", tmp_path / "new", "--options", words).code == 0
    package = tmp_path / "new" / "subgraphkit_acme"
    text = (package / "subgraphkit-backend.toml").read_text(encoding="utf-8")
    manifest = parse_manifest(text, "acme")
    assert (manifest.name, manifest.devices) == ("acme", ("cpu",))
    assert {option.name: option.default for option in manifest.options} == {
        "min_nodes": 1,
        "tile": 8,
        "mode": "fast",
        "place": None,
        "share": 1e-5,
        "on": True,
        "size": 2 << 30,
    }
    assert cli("author", "manifest", "check", package).code == 0


def test_what_comes_next_is_in_the_ci_file_the_readme_the_guide_and_its_transcript(
    cli: Cli, tmp_path: Path
) -> None:
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


@pytest.mark.parametrize("words", [["--operators", "Softmax,Relu"], []])
def test_a_region_is_computed_with_kernels_or_else_by_the_fallback(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    name = f"acme_{len(words)}"
    cli("author", "new-backend", name, tmp_path / "new", "--selector", "operators", *words)
    monkeypatch.syspath_prepend(tmp_path / "new")
    backend = getattr(import_module(f"subgraphkit_{name}"), f"Acme{len(words)}Backend")
    model = parsed("g (float[2, 3] x) => (float[2, 3] z) { y = Relu(x)  z = Softmax(y) }")
    x = np.array([[-1, 2, 3], [4, 0, 0.5]], np.float32)
    with registered(backend), sk.InferenceSession(model, backend=f"{name},numpy") as opened:
        expected = np.exp(np.maximum(x, 0))
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(opened(x=x)["z"], expected, rtol=1e-5)
        taken = [one.backend for one in opened.partitioning.subgraphs]
        assert taken == ([name] if words else [name, "numpy"])
