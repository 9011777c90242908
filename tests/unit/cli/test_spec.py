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


def test_what_cannot_be_a_spec_or_is_of_another_model_is_an_error(cli: Cli) -> None:
    onnx.save(parsed(LINEAR), "m.onnx")
    assert cli("deploy", "spec", "m.onnx", "-o", "spec.json").code == 0
    onnx.save(parsed(LINEAR, opset=19), "m.onnx")
    assert "SGK194" in cli("deploy", "spec", "spec.json", "--check").err
    said = cli("deploy", "spec", "m.onnx", "--check").err
    assert "SGK193" in said
    assert "This was 'm.onnx'." in said
    assert "SGK301" in cli("deploy", "spec", "absent.json", "--check").err
    assert "SGK114" in cli("deploy", "spec", "m.onnx", "--set", "colour=red").err
    assert "NAME=VALUE" in cli("deploy", "spec", "m.onnx", "--set", "colour").err
