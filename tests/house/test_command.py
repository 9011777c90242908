"""The command can be started as a module, from anywhere."""

import sys

import subgraphkit
from tests.scripts import run_child


def test_the_package_runs_as_a_module(tmp_path):
    command = [sys.executable, "-m", "subgraphkit", "--version"]
    done = run_child(command, cwd=tmp_path)
    assert subgraphkit.__version__ in done.stdout
