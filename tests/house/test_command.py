"""The command can be started in both ways, from anywhere."""

import subprocess
import sys
from pathlib import Path

import subgraphkit


def _start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "subgraphkit", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    done = _start(tmp_path, "--version")
    assert done.returncode == 0, done.stderr
    assert subgraphkit.__version__ in done.stdout


def test_help_opens_with_examples(tmp_path: Path) -> None:
    done = _start(tmp_path, "--help")
    assert done.returncode == 0, done.stderr
    assert "subgraphkit run" in done.stdout


def test_a_mistyped_command_is_a_usage_error_on_stderr(tmp_path: Path) -> None:
    done = _start(tmp_path, "pln")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "plan" in done.stderr
