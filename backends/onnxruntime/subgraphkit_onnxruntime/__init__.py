"""The ONNX Runtime backend of subgraphkit: whole subgraphs as sessions of ONNX Runtime.

Importing the package does not import ONNX Runtime; ``OnnxRuntimeBackend.probe`` says what is
missing.
"""

from subgraphkit_onnxruntime.backend import OnnxRuntimeBackend

__all__ = ["OnnxRuntimeBackend"]
