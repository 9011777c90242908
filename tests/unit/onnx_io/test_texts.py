"""Models written as text."""

import pytest

from subgraphkit.errors import InvalidModelError
from subgraphkit.onnx_io import model_of_text

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'


def test_a_text_is_loaded_like_any_model() -> None:
    model = model_of_text(f"{HEADER} g (float[N] x) => (float[N] y) {{ y = Relu(x) }}")
    assert [node.op_type for node in model.graph.nodes] == ["Relu"]
    assert model.name == "g"


@pytest.mark.parametrize(
    ("text", "code"),
    [("Relu", "SGK202"), (f"{HEADER} g (float x) => (float y) {{ y = Rely(x) }}", "SGK207")],
)
def test_a_text_that_is_no_model_is_refused(text: str, code: str) -> None:
    with pytest.raises(InvalidModelError, match=code):
        model_of_text(text)
