"""The TensorRT backend of subgraphkit: runs on NVIDIA's GPUs whatever TensorRT takes."""

from subgraphkit_tensorrt.backend import TensorRTBackend
from subgraphkit_tensorrt.options.from_onnxruntime import from_onnxruntime
from subgraphkit_tensorrt.running.streams import on_stream

__all__ = ["TensorRTBackend", "from_onnxruntime", "on_stream"]
