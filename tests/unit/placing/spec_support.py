"""What tests of specs share: arrays for a model, one with data beside it, and refusals by code."""

from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import SubgraphkitError
from tests.models import parsed


def ones_for(session: sk.InferenceSession) -> dict[str, Any]:
    return {
        one.name: np.ones([d if isinstance(d, int) else 2 for d in one.shape], np.float32)
        for one in session.get_inputs()
    }


def refusal(code: str, made: Any) -> str:
    with pytest.raises(SubgraphkitError) as caught:
        made()
    assert caught.value.code == code, caught.value
    return str(caught.value)


def save_with_data(path: str, value: float) -> None:
    text = "g (float[2,4] x) => (float[2,4] y) { y = MatMul(x, w) }"
    model = parsed(text, w=np.full((4, 4), value, np.float32))
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
