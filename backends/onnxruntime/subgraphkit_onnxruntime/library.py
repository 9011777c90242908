"""ONNX Runtime itself: imported when first used, with its wheels, words, and what it reads.

ONNX Runtime refuses a model whose operator set is newer than it knows, even if every operator in it
is an old one. But an operator is defined by the version that last changed it. So a model may name
an older operator set, if none of its operators has changed since.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import onnx
from onnx import TensorProto, defs, helper

from subgraphkit.ir import Graph, Node

WHEELS: Final = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino",
    "onnxruntime-qnn", "onnxruntime-rocm", "onnxruntime-silicon", "onnxruntime-training",
)  # fmt: skip
"""Distributions that all own the module ``onnxruntime``."""

_REFUSALS: Final = frozenset({"Fail", "InvalidArgument", "InvalidGraph", "NotImplemented"})
"""What ONNX Runtime raises about a model; anything else is trouble with the machine."""

_exchanging: Final = threading.Lock()
_STATUS: Final = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_SOURCE: Final = re.compile(r"^(?:Exception during initialization: )?/\S+:\d+ .*?\)(?: const)? ")


def onnxruntime() -> ModuleType:
    """Import ONNX Runtime; ImportError if it is not installed, or broken."""
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


def is_refusal(error: Exception) -> bool:
    """Say whether ONNX Runtime refused a model, rather than failing over the machine."""
    return type(error).__name__ in _REFUSALS


def words_of(error: Exception) -> str:
    """Return what ONNX Runtime said, without its status codes and source positions."""
    return " ".join(_SOURCE.sub("", _STATUS.sub("", str(error))).split()) or type(error).__name__


_FUTURE: Final = 9999
_NEWEST_IR: Final = re.compile(r"max supported IR version: (\d+)")
_NEWEST_OPSET: Final = re.compile(r"till opset (\d+)")


def small_model(*, ir_version: int = 8, opset: int = 17) -> bytes:
    """Return a serialized model of one node that any build runs."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "probe", [x], [y])
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, ir_version=ir_version, opset_imports=imports)
    return bytes(model.SerializeToString())


@lru_cache(maxsize=1)
def newest_ir() -> int:
    """Return the newest IR version that the library reads."""
    return _named_limit(_NEWEST_IR, lambda: small_model(ir_version=_FUTURE))


@lru_cache(maxsize=1)
def newest_opset() -> int:
    """Return the newest version of the default operator set that the library vouches for."""
    return _named_limit(_NEWEST_OPSET, lambda: small_model(opset=_FUTURE))


def newer_form(node: Node, opset: int) -> str:
    """Return an operator of a node or its bodies that ``opset`` has in an older form, or ``""``."""
    if node.opset <= opset:
        return ""
    return next((one for one in _operators(node, node.opset) if _since(*one) > opset), ("",))[0]


def write_for_library(model: onnx.ModelProto) -> bytes:
    """Serialize a model whose operators the library knows, in versions that it reads.

    ``model``: The model; its versions are lowered in place.
    """
    model.ir_version = min(model.ir_version, newest_ir())
    for imported in model.opset_import:
        if not imported.domain:
            imported.version = min(imported.version, newest_opset())
    return bytes(model.SerializeToString())


def _operators(node: Node, opset: int) -> Iterable[tuple[str, int]]:
    if not node.domain:
        yield node.op_type, opset
    bodies: Iterable[Graph] = node.bodies.values()
    for body in bodies:
        for inner in body.nodes:
            yield from _operators(inner, opset)


def _since(op_type: str, opset: int) -> int:
    is_known = defs.has(op_type, opset, "")
    return int(defs.get_schema(op_type, opset, "").since_version) if is_known else opset


def _named_limit(pattern: re.Pattern[str], make: Callable[[], bytes]) -> int:
    """Ask with a model of the far future, and read what the library says it can do."""
    library: Any = onnxruntime()
    options = library.SessionOptions()
    options.log_severity_level = 4
    try:
        library.InferenceSession(make(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 (its words are what is asked for)
        if (found := pattern.search(str(error))) is not None:
            return int(found[1])
    return _FUTURE
