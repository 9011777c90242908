"""``subgraphkit build`` with TensorRT, on a machine that need not have a GPU."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from backends.tensorrt.tests.tensorrt_models import blocks, needs_rtx
from subgraphkit.cli import main
from subgraphkit_tensorrt.building import build

pytestmark = needs_rtx
WORDS = ("--backend", "tensorrt:flavour=tensorrt_rtx:build_only=true", "--json")
DIMS = ("--option", "tensorrt.dims=batch=1x8x32;seq=16x128x512")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a model of two blocks and a cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    onnx.save(blocks((0, 1)), "model.onnx")
    return tmp_path


def _build(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code = main(["build", "model.onnx", *words])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)["data"]


def test_engines_are_built_ahead_and_the_builder_is_not_called_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = _build(capsys, *DIMS, *WORDS)["subgraphs"]
    assert (row["backend"], row["nodes"], row["engine"]) == ("tensorrt", 8, "built")
    (engine,) = row["info"]["engines"]
    assert engine["report"]["products"] == {"float32": 4}

    def no_builder(*_: Any) -> None:
        raise AssertionError("the builder was called")

    monkeypatch.setattr(build, "_run", no_builder)
    (row,) = _build(capsys, *DIMS, *WORDS)["subgraphs"]
    assert row["engine"] == "found"


def test_the_engine_itself_is_a_plan_with_the_names_of_the_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = _build(capsys, *DIMS, *WORDS, "--engine", "out.plan")
    assert data["engine_file"] == "out.plan"
    plan = Path("out.plan").read_bytes()
    assert plan.startswith(b"vtrt")
    assert b"y1" in plan


def test_shapes_that_are_not_known_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "model.onnx", *WORDS]) != 0
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert error["code"] == "SGK169"
    assert "dims={'batch': (1, 8, 32)}" in error["hint"]
