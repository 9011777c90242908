"""The backends that take the place of ONNX Runtime's execution providers."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["BACKEND_OF", "in_our_names"]

BACKEND_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TensorrtExecutionProvider": "tensorrt",
        "NvTensorRTRTXExecutionProvider": "tensorrt",
        "CUDAExecutionProvider": "tensorrt",
        "OpenVINOExecutionProvider": "openvino",
        "DnnlExecutionProvider": "onednn",
        "TvmExecutionProvider": "tvm",
        "CPUExecutionProvider": "onnxruntime",
    }
)
"""By ONNX Runtime's name of a provider, ours of what runs on the same device."""

_FOLDED: Final = MappingProxyType({name.casefold(): ours for name, ours in BACKEND_OF.items()})
_PROVIDER: Final = re.compile(r"\b\w+ExecutionProvider\b", re.IGNORECASE)


def in_our_names(text: str) -> str:
    """Return a selection with ONNX Runtime's names of providers replaced by backends.

    Returns:
        The names of backends, each once; an empty string unless every provider has a backend.
    """
    found = [_FOLDED.get(name.casefold(), "") for name in _PROVIDER.findall(text)]
    return ",".join(dict.fromkeys(found)) if all(found) else ""
