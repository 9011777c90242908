"""The command can be started as a module, from anywhere."""

import subprocess
import sys
from pathlib import Path

import subgraphkit


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "subgraphkit", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert subgraphkit.__version__ in done.stdout
