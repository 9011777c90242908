"""ONNX Runtime's exception classes, where programs import them from."""

from subgraphkit.compat.onnxruntime.exceptions import *  # noqa: F403 (all of them, as there)
from subgraphkit.compat.onnxruntime.values import OrtDevice  # noqa: F401 (as there)
