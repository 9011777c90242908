"""The names of ``onnxruntime_pybind11_state``, where ONNX Runtime's own Python has them."""

# A program may load this package by ONNX Runtime's name; ours beside it would take its place.
from .onnxruntime_pybind11_state import *  # noqa: F403, TID252 (all of them, as there)
