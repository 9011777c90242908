"""Real networks in fp16, bf16 and int8: run by ONNX Runtime and by NumPy, close to float32."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import subgraphkit as sk
from subgraphkit.calibrating import calibrate
from subgraphkit.comparing.accuracy import AccuracyReport, measure_accuracy
from subgraphkit.onnx_io.precision import Precision, rewrite
from subgraphkit.testing import light_models

NETWORKS = ("squeezenet", "shufflenet", "resnet50")
BYTES = {"fp16": 0.52, "bf16": 0.52, "int8": 0.97}
"""Part of the size that is left at most; shufflenet is made of groups too small for int8."""


def _converted(name: str, wanted: Precision) -> tuple[Any, Any, list[Any]]:
    model = light_models.seeded_model(name)
    batches = [light_models.seeded_feeds(model, seed) for seed in range(3)]
    ranges = None
    if wanted.kind == "int8":
        ranges = calibrate(model, batches[:2], backend="onnxruntime")
    return model, rewrite(model, wanted, ranges), batches[2:]


def _check(report: AccuracyReport, snr_db: float, cosine: float) -> None:
    for one in report.outputs:
        assert one.snr_db >= snr_db
        assert one.cosine >= cosine


@pytest.mark.parametrize("backend", ["onnxruntime", "numpy"])
@pytest.mark.parametrize("name", NETWORKS)
def test_fp16_is_within_a_thousandth_part(name: str, backend: str) -> None:
    model, done, batches = _converted(name, Precision("fp16"))
    assert done.model.ByteSize() <= BYTES["fp16"] * model.ByteSize()
    _check(measure_accuracy(model, done.model, batches, backend=backend), 45, 0.9999)


@pytest.mark.parametrize("name", NETWORKS)
def test_bf16_is_within_a_few_hundredths(name: str) -> None:
    model, done, batches = _converted(name, Precision("bf16"))
    assert done.model.ByteSize() <= BYTES["bf16"] * model.ByteSize()
    _check(measure_accuracy(model, done.model, batches), 25, 0.995)


@pytest.mark.parametrize("backend", ["onnxruntime", "numpy"])
@pytest.mark.parametrize("name", NETWORKS)
def test_int8_keeps_what_a_network_says(name: str, backend: str) -> None:
    model, done, batches = _converted(name, Precision("int8"))
    assert done.quantized
    assert done.model.ByteSize() <= BYTES["int8"] * model.ByteSize()
    _check(measure_accuracy(model, done.model, batches, backend=backend), 18, 0.99)


def test_int8_beside_fp16_runs_everywhere() -> None:
    model, done, batches = _converted("squeezenet", Precision("int8", high_precision="fp16"))
    for backend in ("onnxruntime", "numpy"):
        _check(measure_accuracy(model, done.model, batches, backend=backend), 18, 0.99)


def test_a_trained_network_classifies_the_same_in_every_precision() -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((10, 32)).astype(np.float32)
    labels = rng.integers(0, 10, 2000)
    points = centres[labels] + 0.5 * rng.standard_normal((2000, 32)).astype(np.float32)
    model = _trained(points[:1000], labels[:1000])
    ranges = calibrate(model, [{"x": points[:1000]}])
    right = _share_right(model, points[1000:], labels[1000:])
    assert right > 0.9
    for wanted in (Precision("fp16"), Precision("bf16"), Precision("int8")):
        done = rewrite(model, wanted, ranges)
        assert done.lowered or done.quantized == ("hidden", "score")
        assert abs(_share_right(done.model, points[1000:], labels[1000:]) - right) <= 0.01


def _trained(points: Any, labels: Any) -> onnx.ModelProto:
    """Fit two layers: random features, then least squares, as extreme learning machines do."""
    rng = np.random.default_rng(1)
    first = (rng.standard_normal((32, 128)) / np.sqrt(32)).astype(np.float32)
    features = np.maximum(points @ first, 0)
    second, *_ = np.linalg.lstsq(features, np.eye(16)[labels], rcond=None)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "first"], ["h"], name="hidden"),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "second"], ["y"], name="score"),
        ],
        "trained",
        [helper.make_tensor_value_info("x", 1, ["N", 32])],
        [helper.make_tensor_value_info("y", 1, ["N", 16])],
        [
            numpy_helper.from_array(first, "first"),
            numpy_helper.from_array(second.astype(np.float32), "second"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _share_right(model: onnx.ModelProto, points: Any, labels: Any) -> float:
    with sk.InferenceSession(model, backend="numpy") as session:
        (scores,) = session.run(None, {"x": points})
    return float((scores.argmax(1) == labels).mean())
