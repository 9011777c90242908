"""``subgraphkit run``."""

import json
from pathlib import Path
from typing import Any

import onnx

from tests.models import parsed
from tests.unit.cli.conftest import Cli, Install


def _run(cli: Cli, *words: object) -> dict[str, Any]:
    ended = cli("run", *words, "--json")
    assert ended.code == 0, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    assert document["schema"] == "subgraphkit.run/1"
    assert document["errors"] == []
    data: dict[str, Any] = document["data"]
    return data


WINDOWS = """
g (float[?, 1, ?, ?] x) => (y) {
    w = ConstantOfShape <value = float[1] {1}> (shape)
    a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
    b = MaxPool <kernel_shape = [2, 2], strides = [4, 4]> (a)
    y = GlobalAveragePool(b)
}
"""


def test_sizes_that_nobody_gave_leave_windows_something_to_slide_over(cli: Cli) -> None:
    proto = parsed(WINDOWS.replace("[?", "[A").replace("?", "A"))
    proto.graph.initializer.append(
        onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [4], [1, 1, 3, 3])
    )
    for dim in (proto.graph.input[0].type.tensor_type.shape.dim[at] for at in (0, 2, 3)):
        dim.ClearField("dim_param")
    onnx.save(proto, "windows.onnx")
    ended = cli("run", "windows.onnx", "--backend", "numpy")
    assert ended.code == 0
    assert "taken to be 1: x[0]; taken to be 8: x[2], x[3]" in ended.err
    assert "taken to be 1: x[0] (" in cli("run", "windows.onnx", "--shape", "x=?,1,9,8").err
    given = ("--symbol", "x[0]=2", "--symbol", "x[2]=9", "--symbol", "x[3]=8")
    assert "taken" not in cli("run", "windows.onnx", *given).err


PRINTS = """
import os
import subgraphkit as sk

print("printed at import")

class Property(sk.SubgraphProperty):
    def create_selector(self, graph):
        os.write(1, b"written to the descriptor")
        return sk.OpSelector(graph, ["MatMul"])

    def create_operator(self, subgraph, context):
        if os.environ.get("FAIL"):
            raise RuntimeError("out of luck")
        return context.compile(subgraph)

class Plugin(sk.Backend):
    name = "loud"
    def properties(self):
        return [Property()]
"""


def test_a_backend_that_fails_to_compile_is_a_failure(
    new_process: Cli, install: Install, linear: Path
) -> None:
    install("loud", PRINTS)
    ended = new_process("run", linear, "--backend", "loud", FAIL="1")
    assert (ended.code, ended.out) == (6, "")
    assert "[SGK130]" in ended.err
    assert "Traceback" not in ended.err
    shown = new_process("run", linear, "--backend", "loud", "--debug", FAIL="1")
    assert "RuntimeError: out of luck" in shown.err
    assert "Traceback" in shown.err
