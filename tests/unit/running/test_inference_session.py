"""The whole road in one call."""

import pytest

import subgraphkit as sk
from subgraphkit.errors import CallerError
from tests.models import CHAIN, parsed


@pytest.mark.parametrize(
    ("argument", "instead"), [("providers", "backend="), ("provider_options", "options=")]
)
def test_words_of_onnx_runtime_are_answered_with_ours(argument: str, instead: str) -> None:
    with pytest.raises(CallerError, match=instead):
        sk.InferenceSession(parsed(CHAIN), **{argument: ["CPUExecutionProvider"]})


def test_a_loaded_model_can_be_bound_more_than_once() -> None:
    model = sk.load(parsed(CHAIN))
    first = sk.InferenceSession(model, shapes={"N": 1})
    second = sk.InferenceSession(model, shapes={"N": 2})
    assert [s.get_inputs()[0].shape for s in (first, second)] == [[1, 4], [2, 4]]
