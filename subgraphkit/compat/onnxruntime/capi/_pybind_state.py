"""The names of ``onnxruntime_pybind11_state``, where ONNX Runtime's own Python has them."""

from subgraphkit.compat.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403 (all of them, as there)
