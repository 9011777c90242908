"""Running models with and without fusion, for tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from backends.numpy.tests.numpy_road import CompiledModel, compile_model

__all__ = ["assert_close", "both", "groups", "values"]

_RANDOM = np.random.default_rng(7)


def groups(compiled: CompiledModel) -> list[str]:
    """Return the operators of each step, a group's joined by plus signs."""
    assert compiled.operator is not None
    labels = [step.label for step in compiled.operator._program.steps]
    return [" + ".join(part.split()[1] for part in label.split(" + ")) for label in labels]


def values(*shape: int) -> Any:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def both(proto: onnx.ModelProto, *inputs: Any) -> tuple[list[Any], list[Any]]:
    """Run with and without fusion."""
    return compile_model(proto)(*inputs), compile_model(proto, fusion=False)(*inputs)


def assert_close(found: Sequence[Any], expected: Sequence[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
