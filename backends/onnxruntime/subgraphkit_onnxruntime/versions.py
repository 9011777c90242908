"""The newest model format and operator sets that the installed ONNX Runtime reads.

ONNX Runtime refuses a model whose operator set is newer than it knows, even if every operator in it
is an old one. An operator is defined by the version that last changed it, so a model may say an
older operator set as long as none of its operators has changed since.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import onnx
from onnx import TensorProto, defs, helper

from subgraphkit.ir import Graph, Node
from subgraphkit_onnxruntime.library import onnxruntime

_FUTURE: Final = 9999
_NEWEST_IR: Final = re.compile(r"max supported IR version: (\d+)")
_NEWEST_OPSET: Final = re.compile(r"till opset (\d+)")


def small_model(*, ir_version: int = 8, opset: int = 17) -> bytes:
    """Return a serialized model of one node that any build runs."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "probe", [x], [y])
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, ir_version=ir_version, opset_imports=imports)
    data: bytes = model.SerializeToString()
    return data


@lru_cache(maxsize=1)
def newest_ir() -> int:
    """Return the newest IR version that the library reads."""
    return _named_limit(_NEWEST_IR, lambda: small_model(ir_version=_FUTURE))


@lru_cache(maxsize=1)
def newest_opset() -> int:
    """Return the newest version of the default operator set that the library vouches for."""
    return _named_limit(_NEWEST_OPSET, lambda: small_model(opset=_FUTURE))


def changed_since(node: Node, opset: int) -> str:
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
    data: bytes = model.SerializeToString()
    return data


def _operators(node: Node, opset: int) -> Iterable[tuple[str, int]]:
    if not node.domain:
        yield node.op_type, opset
    bodies: Iterable[Graph] = node.bodies.values()
    for body in bodies:
        for inner in body.nodes:
            yield from _operators(inner, opset)


def _since(op_type: str, opset: int) -> int:
    if not defs.has(op_type, opset, ""):
        return opset
    return int(defs.get_schema(op_type, opset, "").since_version)


def _named_limit(pattern: re.Pattern[str], make: Callable[[], bytes]) -> int:
    """Ask with a model of the far future, and read what the library says it can do."""
    library: Any = onnxruntime()
    options = library.SessionOptions()
    options.log_severity_level = 4
    try:
        library.InferenceSession(make(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 (its words are what is asked for)
        found = pattern.search(str(error))
        if found is not None:
            return int(found[1])
    return _FUTURE
