"""``subgraphkit deploy spec``: what it writes, and the check of it."""

import json
from pathlib import Path

import onnx

import subgraphkit as sk
from tests.models import LINEAR, parsed
from tests.unit.cli.conftest import Cli


def test_a_spec_is_written_that_opens_the_session_that_the_words_describe(cli: Cli) -> None:
    Path("models").mkdir()
    onnx.save(parsed(LINEAR), "models/m.onnx")
    words = ("--backend", "numpy", "--symbol", "N=3", "--set", "threads=2", "--warm-up")
    ended = cli("deploy", "spec", "models/m.onnx", *words, "--root", "models", "-o", "spec.json")
    assert ended.code == 0, ended.err
    spec = sk.SessionSpec.from_json(Path("spec.json").read_text())
    expected = sk.SessionSpec.of(
        "models/m.onnx", "numpy", {"N": 3}, threads=2, warm_up=True, root="models"
    )
    assert (spec, spec.source) == (expected, "m.onnx")
    checked = cli("deploy", "spec", "spec.json", "--check", "--root", "models")
    assert (checked.code, checked.out.splitlines()[0]) == (
        0,
        "InferenceSession('m.onnx', 2 nodes in 1 subgraph: numpy 1)",
    )
    assert spec.digest[:12] in checked.err
    shown = cli("deploy", "spec", "models/m.onnx", *words, "--root", "models")
    assert sk.SessionSpec.from_json(shown.out) == expected
    told = json.loads(cli("deploy", "spec", "models/m.onnx", "--json").out)
    assert told["data"]["spec"]["source"] == "models/m.onnx"
