"""Backends the project publishes, so that a missing one is answered with the line that installs it.

Only the name and the line are known here; all else is in the backend's manifest. Nothing is listed
before it is published: a line that installs a name nobody owns invites whoever takes it.

Source: fsspec's table of known implementations.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["KNOWN_BACKENDS"]

KNOWN_BACKENDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "numpy": "pip install subgraphkit-numpy",
        "onednn": "pip install subgraphkit-onednn",
        "onnxruntime": "pip install 'subgraphkit-onnxruntime[cpu]'",
        "openvino": "pip install subgraphkit-openvino",
        "tensorrt": "pip install 'subgraphkit-tensorrt[cu13]'",
        "tvm": "pip install subgraphkit-tvm",
    }
)
"""By backend name, the command that installs it."""
