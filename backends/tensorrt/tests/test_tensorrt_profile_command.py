"""Times of layers and figures of memory on the command line, by the names of the model's nodes."""

import json
from pathlib import Path

import onnx
import pytest

from backends.tensorrt.tests.double_road import DoubleBackend, parsed
from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit.backend import ProbeResult
from subgraphkit.cli import main
from subgraphkit.finding.registry import registered
from subgraphkit_tensorrt.backend_options import Options

MODEL = """agraph (float[2,3] x) => (float[2,3] y)
    { a = Relu(x) b = Add(a, x) c = Neg(b) y = Mul(c, b) }"""
NAMES = ["encoder/relu", "encoder/add", "head/neg", "head/mul"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Return a model whose nodes have names, as exporters give them."""
    proto = parsed(MODEL)
    for node, name in zip(proto.graph.node, NAMES, strict=True):
        node.name = name
    onnx.save(proto, tmp_path / "named.onnx")
    return str(tmp_path / "named.onnx")


def test_run_tells_the_time_of_layers_and_the_memory_of_engines(
    double: Double, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Profiled(DoubleBackend):
        name = "profiled"

        def __init__(self, options: Options | None = None) -> None:
            given = options if options is not None else Options()
            super().__init__(double, most=2, profiling=given.profiling)

        @classmethod
        def probe(cls, *, deep: bool = False) -> ProbeResult:
            del deep
            return ProbeResult(available=True, devices=("a double",))

    with registered(Profiled):
        words = ["run", model, "--backend", "profiled,numpy", "--json"]
        assert main([*words, "--option", "profiled.profiling=true"]) == 0
    operators = json.loads(capsys.readouterr().out)["data"]["operators"]
    assert [one["backend"] for one in operators] == ["profiled", "profiled"]
    layers = [
        (layer["nodes"], layer["ms"])
        for operator in operators
        for engine in operator["info"]["engines"]
        for layer in engine["layers"]
    ]
    assert [ms for _, ms in layers] == [0.5] * 4
    for name, (nodes, _) in zip(NAMES, layers, strict=True):
        assert len(nodes) == 1
        assert name in nodes[0]
    memory = [engine["memory"] for one in operators for engine in one["info"]["engines"]]
    assert all({"weight_bytes", "plan_bytes", "scratch_bytes"} <= one.keys() for one in memory)
    assert operators[0]["info"]["memory"]["shared_scratch_bytes"] > 0
