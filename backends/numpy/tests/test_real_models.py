"""Real architectures with seeded weights against ONNX Runtime."""

import numpy as np
import pytest

from backends.numpy.tests.comparing import run_onnxruntime
from backends.numpy.tests.light_models import NAMES, seeded_model
from backends.numpy.tests.numpy_road import compile_model


def test_the_wheel_ships_nine_real_models() -> None:
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", NAMES)
def test_a_real_model_agrees_with_onnxruntime(name: str) -> None:
    model = seeded_model(name)
    (value,) = model.graph.input
    shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (expected,) = run_onnxruntime(model, {value.name: x})
    compiled = compile_model(model)
    (actual,) = compiled(x)
    scale = np.abs(expected).max()
    assert np.std(expected) > 1e-3 * scale
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=2e-5 * scale)
    np.testing.assert_array_equal(compiled(x)[0], actual)
