"""TensorRT for subgraphkit: engines on NVIDIA's GPUs for the nodes that TensorRT takes."""

from subgraphkit_tensorrt.backend import TensorRTBackend
from subgraphkit_tensorrt.running.streams import on_stream

__all__ = ["TensorRTBackend", "on_stream"]
