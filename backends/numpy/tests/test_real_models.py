"""Real architectures with seeded weights against ONNX Runtime."""

import numpy as np
import pytest

from backends.numpy.tests.comparing import compare, run_onnxruntime
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.testing.light_models import LIGHT_MODELS, seeded_feeds, seeded_model


@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_a_real_model_agrees_with_onnxruntime(name: str) -> None:
    model = seeded_model(name)
    feeds = seeded_feeds(model, seed=1)
    (expected,) = run_onnxruntime(model, feeds)
    compiled = compile_model(model)
    (actual,) = compiled.run(feeds)
    compare([expected], [actual], rtol=1e-3)
    np.testing.assert_array_equal(compiled.run(feeds)[0], actual)
