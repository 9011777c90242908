"""A place to open sessions from, where nothing else has a say."""

import os
from pathlib import Path

import onnx
import pytest

from tests.models import LINEAR, parsed


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with a model in it, with no setting from outside."""
    for name in [name for name in os.environ if name.startswith("SUBGRAPH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")
    monkeypatch.chdir(tmp_path)
    onnx.save(parsed(LINEAR), "m.onnx")
    return tmp_path
