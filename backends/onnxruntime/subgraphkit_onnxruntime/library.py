"""ONNX Runtime itself: imported when first used, with its wheels, versions and providers."""

import re
import sys
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import distributions
from types import ModuleType
from typing import Final

WHEELS: Final = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
    "onnxruntime-rocm",
    "onnxruntime-silicon",
    "onnxruntime-training",
)
"""Distributions that all own the module ``onnxruntime``."""

_REFUSALS: Final = frozenset({"Fail", "InvalidArgument", "InvalidGraph", "NotImplemented"})
"""What ONNX Runtime raises about a model; anything else is trouble with the machine."""

_exchanging: Final = threading.Lock()
_STATUS: Final = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_SOURCE: Final = re.compile(
    r"^(?:Exception during initialization: )?/\S+:\d+ .*?\)(?: const)? (?=\S)"
)


def onnxruntime() -> ModuleType:
    """Import ONNX Runtime.

    Raises:
        ImportError: It is not installed, or broken.
    """
    # not at the top: importing this package must work without it
    stand_in = sys.modules.get("onnxruntime")
    if stand_in is None or stand_in.__name__ == "onnxruntime":
        return import_module("onnxruntime")
    return _behind(stand_in)


@cache
def _behind(stand_in: ModuleType) -> ModuleType:
    """Import the library although a program has put another module in its place for its imports."""
    with _exchanging:
        del sys.modules["onnxruntime"]
        try:
            return import_module("onnxruntime")
        finally:
            sys.modules["onnxruntime"] = stand_in


def installed_wheels() -> dict[str, str]:
    """Return the installed distributions that own the module, with their versions."""
    found = {}
    for distribution in distributions():
        with suppress(Exception):  # metadata that cannot be read is not ours
            name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
            if name in WHEELS:
                found[name] = distribution.version
    return found


def is_refusal(error: Exception) -> bool:
    """Say whether ONNX Runtime refused a model, rather than failing over the machine."""
    return type(error).__name__ in _REFUSALS


def words_of(error: Exception) -> str:
    """Return what ONNX Runtime said, without its status codes and source positions."""
    return " ".join(_SOURCE.sub("", _STATUS.sub("", str(error))).split()) or type(error).__name__
