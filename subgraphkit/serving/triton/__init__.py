"""Triton Inference Server: a model repository that its Python backend runs sessions from."""

from subgraphkit.serving.triton.exporting import export_triton
from subgraphkit.serving.triton.served_model import ServedModel

__all__ = ["ServedModel", "export_triton"]
