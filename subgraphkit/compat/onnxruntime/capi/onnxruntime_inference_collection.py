"""Sessions and values, where ONNX Runtime's own Python has them."""

from subgraphkit.compat.onnxruntime import (  # noqa: F401 (as there)
    InferenceSession,
    IOBinding,
    OrtDevice,
    OrtValue,
)
