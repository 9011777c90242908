"""``manifest``: what is written from a manifest, and when it is outdated."""

import importlib.util
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_type_hints

import pytest

from subgraphkit.backend import OptionShapes
from tests.unit.cli.conftest import Cli

HEAD = 'name = "acme"\napi = "1.0"\n'
EVERY_KIND = (
    HEAD
    + r"""
[options.switch]
type = "bool"
default = false
[options.count]
type = "int"
default = 3
unit = "runs"
help = "How often."
[options.share]
type = "float"
default = 0.5
[options.word]
type = "str"
default = 'a "b" \c'
help = 'A "word" with a \ in it, and "quotes" at the "end"'
[options.kind]
type = "enum"
choices = ["x", 'y"', 3, true]
default = "x"
[options.level]
type = "int"
choices = [1, 2]
[options.size]
type = "bytes"
default = "2KiB"
help = "Scratch memory."
[options.place]
type = "path"
default = "~/place"
[options.absolute]
type = "path"
default = "/a/b"
[options.names]
type = "list"
default = ["n"]
[options.pair]
type = "list"
default = ["n", "m"]
[options.dims]
type = "shapes"
default = {batch = [1, 8], "t t" = ["n", 2]}
[options.without]
type = "shapes"
[options.with_a_name_so_long_that_the_choices_need_lines_of_their_own]
type = "enum"
choices = ["the first of them", "the second of them", "the third of them"]
default = "the first of them"
[options.with_a_long_default]
type = "enum"
choices = ["one of many choices", "another one of them", "the last of them all"]
default = "one of many choices"
"""
)


def _package(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "subgraphkit-backend.toml").write_text(text, encoding="utf-8")
    return folder


def _module(package: Path) -> ModuleType:
    path = package / "backend_options.py"
    spec = importlib.util.spec_from_file_location("written_options", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package with an option of every kind, and the options written."""
    monkeypatch.setenv("HOME", str(tmp_path / "writer"))
    package = _package(tmp_path / "acme", EVERY_KIND)
    ended = cli("author", "manifest", "write", package)
    assert ended.code == 0, ended.err
    assert ended.out == f"{package}: backend 'acme', 15 options, backend_options.py written\n"
    return package


def test_every_kind_of_option_is_a_field_of_its_type(package: Path) -> None:
    options = _module(package).Options
    types = get_type_hints(options)
    assert (types["switch"], types["count"], types["share"]) == (bool, int, float)
    assert (types["word"], types["size"], types["place"]) == (str, int, Path)
    assert types["kind"] == Literal["x", 'y"', 3, True]
    assert types["level"] == Literal[1, 2] | None
    assert types["names"] == tuple[str, ...]
    assert (types["dims"], types["without"]) == (OptionShapes, OptionShapes | None)


def test_every_default_is_that_of_the_manifest(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "reader"))
    options: Any = _module(package).Options()
    assert {one.name: getattr(options, one.name) for one in fields(options)} == {
        "switch": False,
        "count": 3,
        "share": 0.5,
        "word": 'a "b" \\c',
        "kind": "x",
        "level": None,
        "size": 2048,
        "place": tmp_path / "reader" / "place",
        "absolute": Path("/a/b"),
        "names": ("n",),
        "pair": ("n", "m"),
        "dims": {"batch": (1, 8), "t t": ("n", 2)},
        "without": None,
        "with_a_name_so_long_that_the_choices_need_lines_of_their_own": "the first of them",
        "with_a_long_default": "one of many choices",
    }


def test_help_and_units_are_docstrings_and_lines_are_not_long(package: Path) -> None:
    text = (package / "backend_options.py").read_text(encoding="utf-8")
    assert '"""How often. Unit: runs."""' in text
    assert '"""Scratch memory. In bytes."""' in text
    assert max(map(len, text.splitlines())) <= 100


def test_what_is_written_is_current_until_the_manifest_changes(cli: Cli, package: Path) -> None:
    assert cli("author", "manifest", "check", package).out.endswith("current\n")
    _package(package, EVERY_KIND.replace("default = 3", "default = 4"))
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


def test_options_that_are_all_taken_back_leave_a_class_without_fields(
    cli: Cli, package: Path
) -> None:
    _package(package, HEAD)
    assert cli("author", "manifest", "check", package).code == 1
    assert cli("author", "manifest", "write", package).code == 0
    assert fields(_module(package).Options) == ()


def test_a_file_of_somebody_else_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    package = _package(tmp_path / "theirs", EVERY_KIND)
    (package / "backend_options.py").write_text("MINE = 1\n", encoding="utf-8")
    ended = cli("author", "manifest", "write", package)
    assert ended.code == 2
    assert "[SGK332]" in ended.err
    assert (package / "backend_options.py").read_text(encoding="utf-8") == "MINE = 1\n"
