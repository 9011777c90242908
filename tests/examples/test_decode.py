"""The decoding example: its text is ONNX Runtime's, on one backend and on two."""

import importlib
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import subgraphkit as sk

ort = pytest.importorskip("onnxruntime")

FOLDER = Path(__file__).parents[2] / "examples" / "decode"


@pytest.fixture(scope="module")
def example():
    """Import the script the way Python runs it: its folder is on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("decode")
    for name in ("decode", "decoder"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def characters(example):
    known: str = example.read_weights(FOLDER / "weights.npz")[0]
    return known


@pytest.fixture(scope="module")
def model(example):
    built: onnx.ModelProto = example.build_decoder(example.read_weights(FOLDER / "weights.npz")[1])
    return built


@pytest.mark.parametrize(
    ("prefill", "decode"),
    [("onnxruntime", "onnxruntime"), ("numpy", "numpy"), ("onnxruntime", "numpy")],
)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_text_is_that_of_onnx_runtime(example, model, characters, prefill, decode, temperature):
    ids = [characters.index(one) for one in "A backend that"]
    told: list[int] = []

    def write(first, second):
        choose = example.sampling(temperature, 1) if temperature else example.greedy
        text: list[int] = example.timed(first, second, ids, 60, choose, told.append)[0]
        return text

    plain = ort.InferenceSession(model.SerializeToString())
    expected = write(plain, plain)
    with sk.InferenceSession(model, prefill) as one, sk.InferenceSession(model, decode) as other:
        assert write(one, other) == expected
    assert told == expected + expected
    words = "".join(characters[one] for one in expected).split()
    assert np.mean([len(word) for word in words]) < 9  # it has learnt to write words


def test_a_character_that_it_does_not_know_is_refused(example, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["decode.py", "--prompt", "naïve"])
    with pytest.raises(SystemExit) as ended:
        example.main()
    assert ended.value.code == 2
    assert "none of ['ï']" in capsys.readouterr().err
