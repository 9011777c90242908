"""The plugins of this folder, really built and installed, and programs run where they are."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

RunProgram = Callable[..., Any]
"""Runs a program, with further variables of the environment, and returns the JSON it writes."""


@pytest.fixture(scope="session")
def plugin_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build and install every plugin into a folder of its own, by one call of pip."""
    folder = tmp_path_factory.mktemp("plugin-site")
    projects = sorted(str(path.parent) for path in HERE.glob("*/pyproject.toml"))
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    done = subprocess.run([*command, *projects], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def run_program(plugin_site: Path, tmp_path_factory: pytest.TempPathFactory) -> RunProgram:
    """Return a function that runs a program with all plugins installed."""
    folder = tmp_path_factory.mktemp("working-directory")

    def run(program: str, **variables: str) -> Any:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("SUBGRAPH_")
        }
        environment["PYTHONPATH"] = os.pathsep.join([str(plugin_site), str(ROOT)])
        environment["SUBGRAPH_CONFIG"] = "none"
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            cwd=folder,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
