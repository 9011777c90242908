"""What every command writes in a terminal of 80 columns; how a table fits is for ``texts``."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from subgraphkit import texts
from subgraphkit.cli.commands import PURPOSES, command_of
from tests.models import parsed
from tests.unit.cli.conftest import Cli

pytestmark = pytest.mark.usefixtures("ready_children")

PLAIN = {"author manifest", "author new-backend", "profile"}
PLAIN |= {"deploy serve", "deploy spec", "deploy export-triton", "deploy probe"}
"""Commands that print no table."""

COMMANDS = (
    "run m.onnx --backend numpy",
    "plan m.onnx --backend onednn?,numpy --details",
    "plan m.onnx --backend numpy --memory",
    "plan m.onnx --backend numpy --against onednn,numpy",
    "build m.onnx --backend numpy",
    "build m.onnx --backend numpy --bundle bundle",
    "verify m.onnx --backend numpy --per-subgraph",
    "tune m.onnx --backend numpy --seconds 0.1",
    "convert m.onnx --precision fp16 --report --values -o half.onnx",
    "list --all",
    "list bundle",
    *(
        f"list {name}"
        for name in ("iree", "numpy", "onednn", "onnxruntime", "openvino", "tensorrt", "tvm")
    ),
    "doctor --settings",
    "deploy cache ls",
    "deploy cache verify",
)
IN_CHILDREN = (
    "bench m.onnx --backend numpy --repeat 1 --warmup 0",
    "doctor numpy",
    "author test numpy --level 0",
)
NAMES = (
    "/model/encoder/layer.0/attention/self/query",
    "図形/畳み込み層/出力値/正規化層の出力",
    "e\u0301" * 40,
)


def _model() -> onnx.ModelProto:
    first, second, third = NAMES
    model = parsed(
        "g (float[N, 4] x) => (float[N, 4] y) { a = Relu(x)\n b = Abs(a)\n y = Mul(a, b) }"
    )
    for node, name in zip(model.graph.node, NAMES, strict=True):
        node.name = name
    renamed = {"a": first, "b": second, "y": third, "x": f"input/{first}"}
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed[name] for name in names]
    model.graph.input[0].name, model.graph.output[0].name = renamed["x"], third
    return model


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have a terminal of 80 columns, and a model with long names."""
    monkeypatch.setattr(texts.Screen, "width", 80)
    onnx.save(_model(), "m.onnx")
    np.savez("batch.npz", x=np.ones(3))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))


def _check_lines(text: str, command: str) -> None:
    """What does not fit is one word, or a command to be copied."""
    for line in text.splitlines():
        is_whole = len(line.split()) == 1 or line.lstrip().startswith(("pip ", "subgraphkit "))
        assert texts.width_of(line) <= 80 or is_whole, (command, line)


def test_every_command_that_prints_a_table_is_tried() -> None:
    tried = {command_of(words.split()) for words in (*COMMANDS, *IN_CHILDREN)}
    assert tried == set(PURPOSES) - PLAIN


def test_no_command_writes_beyond_the_terminal(cli: Cli) -> None:
    for command in COMMANDS:
        ended = cli(*command.split())
        assert ended.code in {0, 1}, ended.err
        _check_lines(ended.out + ended.err, command)
