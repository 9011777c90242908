"""``calibrate`` and ``convert``."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.models import parsed


@pytest.fixture
def model(tmp_path):
    weight = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    text = "g (float[N,32] x) => (float[N,32] y) { a = MatMul(x, w) y = Relu(a) }"
    onnx.save(parsed(text, 17, w=weight), tmp_path / "wide.onnx")
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(1)
    for i in range(3):
        x = rng.standard_normal((4, 32)).astype(np.float32)
        np.savez(tmp_path / "data" / f"{i}.npz", x=x)
    return "wide.onnx"


def test_a_model_is_calibrated_and_converted_with_a_report(cli, model):
    words = ("convert", model, "--precision", "int8", "--ranges", "ranges.json", "-o", "small.onnx")
    ended = cli(*words, "--calibrate", "data", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["data"]
    assert found["ranges"] == {"batches": 3, "values": 3, "file": "ranges.json"}
    ended = cli(*words, "--report", "--values", "--data", "data", "--json")
    assert ended.code == 0, ended.err
    data = json.loads(ended.out)["data"]
    assert data["quantized"] == found["quantized"]
    assert data["quantized"] == ["a"]
    assert [one["name"] for one in data["accuracy"]["values"]] == ["a"]
    assert data["accuracy"]["batches"] == 3
    assert data["bytes"] == Path("small.onnx").stat().st_size < Path(model).stat().st_size
    onnx.checker.check_model(onnx.load("small.onnx"), full_check=True)


def test_an_error_beyond_the_bound_fails_and_stores_nothing(cli, model):
    words = ("convert", model, "--precision", "bf16", "-o", "out.onnx", "--max-error")
    ended = cli(*words, "1e-6")
    assert ended.code == 1
    assert not Path("out.onnx").exists()
    assert cli(*words, "1").code == 0


OVERFLOWING = """g (float[N,8] x) => (float[N,8] y) <float big = {300}, float small = {0.00001}>
{ a = Relu(x) b = Mul(a, big) c = Mul(b, b) d = Mul(c, small) y = Tanh(d) }"""


@pytest.fixture
def overflowing():
    onnx.save(parsed(OVERFLOWING), "overflowing.onnx")
    x = np.random.default_rng(2).standard_normal((16, 8)).astype(np.float32)
    np.save("x.npy", x)
    return "overflowing.onnx"


def test_a_search_keeps_the_nodes_that_overflow_and_stores_the_model(cli, overflowing):
    words = ("--precision", "fp16", "-o", "o.onnx", "--min-snr", "60", "--data", "x.npy")
    ended = cli("convert", overflowing, *words, "--search", "--json")
    assert ended.code == 0, ended.err
    data = json.loads(ended.out)["data"]
    assert data["search"]["kept"].keys() == {"c", "d"}
    assert set(data["search"]["keep"]) == {"c", "d"}
    assert data["accuracy"]["outputs"][0]["snr_db"] >= 60
    assert data["search"]["trials"] > 1
    assert "trial" not in ended.err  # over at once
    keep = [word for one in data["search"]["keep"] for word in ("--keep", one)]
    stored = Path("o.onnx").read_bytes()
    assert cli("convert", overflowing, *words, *keep).code == 0
    assert Path("o.onnx").read_bytes() == stored


def test_nodes_that_see_large_values_stay_if_ranges_say_so(cli, overflowing):
    words = ("--precision", "fp16", "-o", "o.onnx", "--calibrate", "x.npy", "--json")

    def kept(*more):
        data = json.loads(cli("convert", overflowing, *words, *more).out)["data"]
        return [one["node"] for one in data["kept"] if one["code"] == "activation"]

    assert kept() == ["b", "c", "d"]
    assert kept("--data-max", "10000") == ["c", "d"]
    assert kept("--data-max", "1e9") == []
