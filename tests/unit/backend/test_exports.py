"""The package's lazy names, and what the type checker is told of them."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import subgraphkit.backend
from subgraphkit.backend import contract, plugin_api

STUB = Path(subgraphkit.backend.__file__).with_suffix(".pyi")


def test_the_stub_names_what_the_package_offers_and_where_it_lives() -> None:
    told = {
        alias.name: node.module
        for node in ast.walk(ast.parse(STUB.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {
        name: f"subgraphkit.backend.{home}" for name, home in subgraphkit.backend._HOMES.items()
    }
    assert told == homes
    assert sorted(told) == sorted(subgraphkit.backend.__all__)


def test_every_name_of_the_package_can_be_imported() -> None:
    for name, home in subgraphkit.backend._HOMES.items():
        module = importlib.import_module(f"subgraphkit.backend.{home}")
        assert getattr(subgraphkit.backend, name) is getattr(module, name)
        assert name in module.__all__


def test_listing_backends_imports_nothing_heavy() -> None:
    program = (
        "import sys, subgraphkit; subgraphkit.list_backends(all=True); "
        "import subgraphkit.backend.options, subgraphkit.configuration.config; "
        "print([m for m in ('google', 'ml_dtypes', 'networkx', 'numpy', 'onnx', 'pluggy') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=STUB.parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_the_plugin_api_is_written_down_once() -> None:
    assert contract.PLUGIN_API == plugin_api.PLUGIN_API
