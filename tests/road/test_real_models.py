"""The nine real networks of the onnx wheel, as shipped and with seeded weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.runner import Runner

import subgraphkit as sk
from subgraphkit.testing import light_models as light
from tests.models import skip_if_large

MODELS = light.LIGHT_MODELS
RELATIVE = 1e-3
# Probabilities are at most 1; the scores of densenet are compared by their own size.
ABSOLUTE = 1e-5

# Equal scores near 1e10, where a step of float32 is 1024: Softmax takes any rounding for a winner.
SCORES = {"squeezenet": "r65"}


def _settings(name):
    """Return the tolerances of the official test."""
    folder = light.light_model_path(name).parents[1] / "real" / f"test_{name}"
    settings: dict[str, Any] = json.loads((folder / "data.json").read_text())
    return settings


def _expected(name):
    path: Path = light.light_model_path(name)
    tensor = onnx.TensorProto.FromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
    return onnx.numpy_helper.to_array(tensor)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_as_shipped_passes_the_official_test(name):
    outputs = [SCORES[name]] if name in SCORES else None
    path = light.light_model_path(name)
    with sk.InferenceSession(path, backend="numpy", outputs=outputs) as session:
        assert len(session.partitioning.subgraphs) == 1
        (picture,) = session.get_inputs()
        value = onnx.helper.make_tensor_value_info(picture.name, 1, picture.shape)
        feeds = {picture.name: Runner.generate_dummy_data(value, name=name)}
        (answer,) = session.run(None, feeds)
    if name in SCORES:
        answer = answer / answer.sum()
    settings = _settings(name)
    np.testing.assert_allclose(
        answer, _expected(name), rtol=settings["rtol"], atol=settings["atol"]
    )


def _check_agreement(answer, expected):
    assert answer.shape == expected.shape
    assert answer.dtype == expected.dtype
    # A network that answers the same for everything would agree with anybody.
    assert expected.max() > 3 * np.abs(expected).mean()
    np.testing.assert_allclose(
        answer, expected, rtol=RELATIVE, atol=ABSOLUTE * max(1.0, float(np.abs(expected).max()))
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_seeded_weights_agrees_with_onnx_runtime(name, pytestconfig):
    skip_if_large(name, pytestconfig)  # the official test above runs them all
    ort = pytest.importorskip("onnxruntime")
    model = light.seeded_model(name)
    feeds = light.seeded_feeds(model, seed=1)
    data = model.SerializeToString()
    expected = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    with sk.InferenceSession(model, backend="numpy") as session:
        answer, again = (session.run(None, feeds)[0] for _ in range(2))
    _check_agreement(answer, expected)
    np.testing.assert_array_equal(again, answer)


def test_seeded_weights_are_the_same_every_time_and_other_ones_for_other_seeds():
    first, again, other = (light.seeded_model("squeezenet", seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    onnx.checker.check_model(first)


@pytest.mark.parametrize("name", ["inception_v1", "squeezenet", "shufflenet"])
def test_seeding_keeps_the_operators(name):
    shipped = onnx.load(light.light_model_path(name))
    seeded = light.seeded_model(name)
    kept = [node for node in shipped.graph.node if node.op_type != "ConstantOfShape"]
    assert list(seeded.graph.node) == kept
    assert [value.name for value in seeded.graph.output] == [v.name for v in shipped.graph.output]


def test_a_network_nobody_knows_is_told():
    with pytest.raises(ValueError, match="resnet50"):
        light.seeded_model("resnet51")
