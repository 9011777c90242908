"""The options of our own backends are declared in their manifests, and nowhere else."""

import ast
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from subgraphkit.backend import Option, read_manifest
from subgraphkit.backend.contract import option_class_of
from subgraphkit.backend.plugin_api import api_text
from subgraphkit.cli import main
from subgraphkit.finding.registry import get_backend
from tests.house.tree import ROOT

MANIFESTS = sorted(ROOT.glob("backends/*/subgraphkit_*/subgraphkit-backend.toml"))
NAMES = [path.parents[1].name for path in MANIFESTS]
SOURCES = [source for path in MANIFESTS for source in path.parent.rglob("*.py")]


def test_every_backend_has_a_manifest():
    assert len(MANIFESTS) == len(list(ROOT.glob("backends/*/pyproject.toml")))


@pytest.mark.parametrize("path", MANIFESTS, ids=NAMES)
def test_the_typed_options_are_those_of_the_manifest(path, capsys):
    assert main(["author", "manifest", "check", str(path.parent)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("path", MANIFESTS, ids=NAMES)
def test_a_class_has_name_version_and_options_of_its_manifest(path):
    name = path.parents[1].name
    manifest, backend = read_manifest(path, name), get_backend(name)
    assert (manifest.name, api_text(manifest.api)) == (backend.name, backend.api)
    assert manifest.options is backend.options


@pytest.mark.parametrize("name", NAMES)
def test_the_types_hold_every_default(name):
    backend = get_backend(name)
    types, defaults = get_type_hints(option_class_of(backend)), option_class_of(backend)()
    assert [one.name for one in fields(defaults)] == [one.name for one in backend.options]
    for option in backend.options:
        value = getattr(defaults, option.name)
        assert value == option.default
        allowed = get_args(types[option.name]) or (types[option.name],)
        assert not option.choices or value in (*allowed, None)


def test_no_backend_declares_an_option_or_reads_one_by_a_string():
    wrong = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_key = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
            owner = ast.unparse(node.value).rpartition(".")[2] if is_key else ""
            made = isinstance(node, ast.Call) and ast.unparse(node.func) == Option.__name__
            if made or owner.lstrip("_") in {"options", "option_values"}:
                wrong.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []
