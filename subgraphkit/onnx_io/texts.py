"""Models written as text, in the syntax of the ONNX specification."""

from onnx import parser

from subgraphkit.errors import InvalidModelError
from subgraphkit.onnx_io.model import Model, load

__all__ = ["model_of_text"]


def model_of_text(text: str) -> Model:
    """Load a model written as text.

    Args:
        text: Such as ``<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y)
            { y = Relu(x) }``.

    Raises:
        InvalidModelError: The text cannot be read (SGK202), or the model breaks a rule of ONNX.
    """
    try:
        proto = parser.parse_model(text)
    except parser.ParseError as error:
        raise InvalidModelError("SGK202", f"the text is not an ONNX model: {error}") from error
    return load(proto)
