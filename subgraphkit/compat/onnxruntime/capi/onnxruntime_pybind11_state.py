"""ONNX Runtime's exception classes, where programs import them from."""

from subgraphkit.compat.onnxruntime.exceptions import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,  # noqa: A004 (ONNX Runtime's name)
    RuntimeException,
)
from subgraphkit.compat.onnxruntime.values import OrtDevice

__all__ = [
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "NoModel",
    "NoSuchFile",
    "NotImplemented",
    "OrtDevice",
    "RuntimeException",
]
