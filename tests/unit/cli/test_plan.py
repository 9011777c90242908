"""``subgraphkit plan``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from tests.models import DIAMOND, parsed
from tests.unit.cli.conftest import Cli


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    path = tmp_path / "diamond.onnx"
    model = parsed(DIAMOND)
    for node, name in zip(model.graph.node, ("first", "left", "right", "right"), strict=True):
        node.name = name
    onnx.save(model, path)
    return path


def _plan(cli: Cli, *words: object) -> dict[str, Any]:
    ended = cli("plan", *words, "--json")
    assert ended.code == 0, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    assert document["schema"] == "subgraphkit.plan/1"
    data: dict[str, Any] = document["data"]
    return data


def test_a_folder_with_the_models_data_is_trusted_on_the_command_line(
    cli: Cli, tmp_path: Path
) -> None:
    proto = parsed("g (float[1500] x) => (float[1500] y) { y = Add(x, w) }")
    weight = np.zeros(1500, np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin")
    (tmp_path / "store").mkdir()
    (tmp_path / "model" / "w.bin").rename(tmp_path / "store" / "w.bin")
    (tmp_path / "model" / "w.bin").symlink_to("../store/w.bin")
    refused = cli("plan", str(path), "--backend", "numpy")
    assert "--data-root" in refused.err
    assert cli("plan", str(path), "--backend", "numpy", "--data-root", "store").code == 0


def test_memory_is_told_by_part_and_too_little_of_it_is_an_error(
    cli: Cli, diamond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = sk.partition(sk.bind(sk.load(diamond), backend="numpy")).memory()
    data = _plan(cli, diamond, "--backend", "numpy", "--memory")
    assert data["memory"] == json.loads(json.dumps(told.to_dict()))
    shown = cli("plan", diamond, "--backend", "numpy", "--memory")
    assert shown.code == 0
    assert str(told) in shown.out
    assert [line.split()[0] for line in shown.out.splitlines()[-3:]] == [
        "graph,",
        "library",
        "numpy_0",
    ]
    monkeypatch.setenv("SUBGRAPH_MAX_MEMORY", "1KiB")
    refused = cli("plan", diamond, "--backend", "numpy", "--memory")
    assert refused.code == 2
    assert str(told) in shown.out
    assert "SGK134" in refused.err
