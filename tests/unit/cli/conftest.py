"""The command line, called in this process or in one of its own."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

from subgraphkit.cli import main
from subgraphkit.finding.registry import refresh_backends
from tests.models import LINEAR, parsed
from tests.ready import run_command

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def clean_surroundings(tmp_path, monkeypatch):
    """Work in an empty folder, with no setting from outside."""
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")
    monkeypatch.chdir(tmp_path)
    yield
    refresh_backends()


@pytest.fixture
def cli(capsys):
    """Return a function that carries out a command line in this process."""

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ended(int(code), captured.out, captured.err)

    return call


@pytest.fixture
def new_process(tmp_path):
    """Return a function that carries out a command line in a new process.

    Plugins written by ``install`` are found there.
    """

    def call(*words, **variables):
        folders = [str(tmp_path / "site"), str(ROOT), *filter(None, sys.path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), **variables}
        done = run_command([*map(str, words)], tmp_path, environment, timeout=60)
        return Ended(done.returncode, done.stdout, done.stderr)

    return call


Install = Callable[..., None]


@pytest.fixture
def install(tmp_path):
    """Return a function that puts a module with an entry point where a new process finds it."""

    def write(name, source, group="subgraphkit.backends"):
        site = tmp_path / "site"
        metadata = site / f"acme_{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (site / f"acme_{name}.py").write_text(source, encoding="utf-8")
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: acme-{name}\nVersion: 1.0\n", encoding="utf-8"
        )
        target = f"acme_{name}:Plugin" if "class Plugin" in source else f"acme_{name}"
        (metadata / "entry_points.txt").write_text(
            f"[{group}]\n{name} = {target}\n", encoding="utf-8"
        )

    return write


@pytest.fixture
def linear(tmp_path):
    """Return the file of a model ``x[N,3] -> y[N,2]``."""
    path = tmp_path / "linear.onnx"
    onnx.save(parsed(LINEAR), path)
    return path


@pytest.fixture
def array_file(tmp_path):
    """Return a function that stores an array and returns the file."""

    def store(array):
        path = tmp_path / "array.npy"
        np.save(path, array)
        return path

    return store
