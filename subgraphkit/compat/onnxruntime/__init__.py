"""The part of ONNX Runtime's Python interface that programs use, over subgraphkit.

``import subgraphkit.compat.onnxruntime as onnxruntime`` is the one line to change. For a library
that imports ``onnxruntime`` itself, set ``sys.modules["onnxruntime"]`` to this module before the
library is imported. ``SUBGRAPH_BACKEND``, or another configuration, wins over the providers of a
program; see ``providers``. A feature without an equivalent raises an error with a code.
"""

import subgraphkit
from subgraphkit.compat.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    ModelMetadata,
    RunOptions,
    SessionOptions,
)
from subgraphkit.compat.onnxruntime.providers import (
    get_all_providers,
    get_available_providers,
    get_device,
)
from subgraphkit.compat.onnxruntime.session import InferenceSession
from subgraphkit.compat.onnxruntime.values import IOBinding, OrtDevice, OrtValue
from subgraphkit.running.feeds import NodeArg

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
    "ModelMetadata", "NodeArg", "OrtDevice", "OrtValue", "RunOptions", "SessionOptions",
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers",
    "get_available_providers", "get_build_info", "get_device", "get_version_string", "preload_dlls",
    "set_default_logger_severity", "set_default_logger_verbosity", "set_seed",
]  # fmt: skip

__version__ = "1.23.0"
"""The release of ONNX Runtime whose interface this is; programs compare it with their needs."""


def get_version_string() -> str:
    """Return the release of ONNX Runtime whose interface this is."""
    return __version__


def get_build_info() -> str:
    """Say that this is subgraphkit, and of which version."""
    return f"Build Info: subgraphkit {subgraphkit.__version__}"


def set_default_logger_severity(severity: int) -> None:
    """Do nothing: nothing is logged unless the setting ``verbose`` says so."""


set_default_logger_verbosity = set_default_logger_severity


def disable_telemetry_events() -> None:
    """Do nothing: there are none."""


enable_telemetry_events = disable_telemetry_events


def set_seed(seed: int) -> None:
    """Do nothing: random operators take their seed from the model."""


def preload_dlls(*_: object, **__: object) -> None:
    """Do nothing: each backend finds its libraries when it is first used."""
