"""ONNX Runtime's exception classes and options, where programs import them from."""

from subgraphkit.compat.onnxruntime import (  # noqa: F401 (as there)
    GraphOptimizationLevel,
    ModelMetadata,
    NodeArg,
    OrtDevice,
    OrtValue,
    RunOptions,
    SessionOptions,
    get_all_providers,
    get_available_providers,
    get_device,
)
from subgraphkit.compat.onnxruntime.exceptions import *  # noqa: F403 (all of them, as there)
