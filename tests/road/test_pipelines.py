"""Pipelines of scikit-learn and LightGBM predict here what they predict there."""

import numpy as np
import pytest

import subgraphkit as sk
from tests.road.pipelines import PIPELINES, Pipeline

# The libraries warn of their own futures, and of names of columns that arrays do not have.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", params=PIPELINES, ids=lambda pipeline: pipeline.name)
def trained(request):
    pipeline: Pipeline = request.param
    model = pipeline.make().fit(pipeline.x, pipeline.y)
    return pipeline, model, pipeline.converted(model)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime,numpy"])
def test_a_pipeline_predicts_what_it_was_trained_to(trained, backend):
    pipeline, model, proto = trained
    rows = pipeline.x[::3] if len(pipeline.x) > 9 else pipeline.x
    session = sk.InferenceSession(proto, backend=backend)
    outputs = session.run(None, pipeline.feeds(rows))
    expected = model.predict(rows)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(outputs[0].reshape(-1), expected, rtol=1e-4, atol=1e-4)
        return
    assert outputs[0].reshape(-1).tolist() == expected.tolist()
    if hasattr(model, "predict_proba"):
        compare_chances(outputs[1], model.predict_proba(rows), model.classes_.tolist())


def compare_chances(found, expected, classes):
    if isinstance(found, list):
        assert all(list(row) == classes for row in found)
        assert {type(number) for row in found for number in row.values()} == {float}
        found = np.array([list(row.values()) for row in found])
    np.testing.assert_allclose(found, expected, atol=1e-5)
