"""The Open Inference Protocol, version 2, as KServe and Triton speak it: bytes to arrays and back.

Functions for any server. The body of an HTTP request becomes arrays, and results become the body of
an answer. Tensors are in JSON, or binary behind it (Triton's extension), where the arrays are views
of the body. As with Triton, FP16 and BF16 are binary only. JSON has neither NaN nor infinity.
``NaN`` and ``-Infinity`` are read nevertheless, as Triton does. They are never written, since a
strict reader would lose the whole answer.

Thread-safety: safe. Sources: KServe's ``inference_rest.md``, Triton's ``extension_binary_data.md``.
"""

from subgraphkit.serving.oip.messages import (
    InferenceRequest,
    Message,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from subgraphkit.serving.oip.metadata import (
    encode_error,
    model_configuration,
    model_metadata,
    model_statistics,
    probe,
    server_metadata,
)
from subgraphkit.serving.oip.parsing import HEADER

__all__ = [
    "HEADER", "InferenceRequest", "Message", "decode_request", "decode_response", "encode_error",
    "encode_request", "encode_response", "model_configuration", "model_metadata",
    "model_statistics", "probe", "server_metadata",
]  # fmt: skip
