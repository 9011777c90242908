"""The plugins of this folder, really built and installed, and programs run where they are."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ready import python_command
from tests.scripts import install_projects, run_child

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

RunProgram = Callable[..., Any]
"""Runs a program, with further variables of the environment, and returns the JSON it writes."""


@pytest.fixture(scope="session")
def plugin_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build and install every plugin into a folder of its own, by one call of pip."""
    folder = tmp_path_factory.mktemp("plugin-site")
    install_projects(folder, *sorted(path.parent for path in HERE.glob("*/pyproject.toml")))
    return folder


@pytest.fixture(scope="session")
def run_program(plugin_site: Path, tmp_path_factory: pytest.TempPathFactory) -> RunProgram:
    """Return a function that runs a program with all plugins installed."""
    folder = tmp_path_factory.mktemp("working-directory")

    def run(program: str, **variables: str) -> Any:
        path = os.pathsep.join([str(plugin_site), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": path, "SUBGRAPH_CONFIG": "none", **variables}
        command = python_command("-P", "-c", program)
        done = run_child(command, cwd=folder, env=environment, timeout=60)
        return json.loads(done.stdout.splitlines()[-1])

    return run
