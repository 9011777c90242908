"""Claims of the TVM backend: the importer and the compiler are asked, one node at a time.

A verdict is remembered for the process by everything it depends on: operator, version, attributes,
types and small constants. So a network of a thousand nodes is mostly a few dozen questions.
"""

from typing import Any, Final

import onnx

from subgraphkit.backend import Answer, Refusal, SubgraphSelector
from subgraphkit.ir import BoundGraph, Node, Subgraph, make_subgraph
from subgraphkit.types import DataType, TensorType, ValueType
from subgraphkit_tvm.building import lower
from subgraphkit_tvm.importing import (
    ImportRefusedError,
    has_converter,
    import_model,
    parametrised,
    weight_names,
)
from subgraphkit_tvm.library import words_of
from subgraphkit_tvm.rules import refused_by_rule

__all__ = ["TvmSelector"]

_TAKEN: Final = frozenset(
    {
        DataType.FLOAT,
        DataType.DOUBLE,
        DataType.FLOAT16,
        DataType.INT8,
        DataType.INT16,
        DataType.INT32,
        DataType.INT64,
        DataType.UINT8,
        DataType.UINT16,
        DataType.UINT32,
        DataType.UINT64,
        DataType.BOOL,
    }
)

_remembered: dict[tuple[bytes, tuple[str, ...]], Answer] = {}


class TvmSelector(SubgraphSelector):
    """Takes the nodes that TVM imports with the right types and has loops for."""

    stateless = True

    def __init__(self, graph: BoundGraph) -> None:
        self._graph = graph

    def select(self, node: Node) -> Answer:
        # The importer looks at names of operators alone, whatever their domain.
        if node.domain or node.bodies or not has_converter(node.op_type):
            what = "with bodies" if node.bodies else f"for {node.qualified_op_type}"
            return Refusal("op_unsupported", f"TVM's ONNX importer has no converter {what}")
        alone = make_subgraph(self._graph, [node.id], "tvm")
        for name in (*node.inputs, *alone.outputs):
            if not name:
                continue
            refusal = _refused_type(
                name, self._graph.types.get(name), is_constant=name in self._graph.constants
            )
            if refusal is not None:
                return refusal
        refusal = refused_by_rule(node)
        return _verdict(alone) if refusal is None else refusal


def _refused_type(name: str, type_: ValueType | None, *, is_constant: bool) -> Refusal | None:
    """Return why a value cannot be inside a region, or None."""
    if not isinstance(type_, TensorType) or type_.dtype not in _TAKEN:
        return Refusal("dtype", f"{name!r} is {type_}, TVM takes numbers of whole bytes and bool")
    if type_.element_count is None:
        return Refusal("dynamic_shape", f"{name!r} is {type_}, code is made for known shapes only")
    if not type_.element_count and not is_constant:
        return Refusal("shape", f"{name!r} is {type_}, tensors without elements are not taken")
    return None


def _verdict(subgraph: Subgraph) -> Answer:
    weights = weight_names(subgraph)
    model = parametrised(subgraph, weights)
    names = _normalise(model.graph)
    expected = {
        names[name]: type_
        for name, type_ in zip(subgraph.outputs, subgraph.output_types, strict=True)
    }
    key = (model.SerializeToString(deterministic=True), tuple(map(str, expected.values())))
    if key not in _remembered:
        renamed = tuple(names[name] for name in weights)
        _remembered[key] = _ask(model, len(subgraph.inputs), renamed, expected)
    return _remembered[key]


def _ask(
    model: onnx.ModelProto, input_count: int, weights: tuple[str, ...], outputs: Any
) -> Answer:
    if not outputs:
        return True  # Nobody reads what the node makes, so nothing of it will be compiled.
    try:
        imported = import_model(model, input_count, weights, outputs)
    except ImportRefusedError as error:
        return Refusal("shape", f"TVM's ONNX importer: {error}")
    except Exception as error:  # noqa: BLE001 (whatever it says is its reason)
        return Refusal("op_unsupported", f"TVM's ONNX importer: {words_of(error)}")
    try:
        lower(imported)
    except Exception as error:  # noqa: BLE001 (as above)
        return Refusal("op_unsupported", f"TVM: {words_of(error)}")
    return True


def _normalise(graph: onnx.GraphProto) -> dict[str, str]:
    """Rename values by their order and drop other names, so that equal nodes look equal."""
    graph.name = "node"
    del graph.value_info[:]
    names: dict[str, str] = {}
    for node in graph.node:
        node.name = node.doc_string = ""
        for values in (node.input, node.output):
            values[:] = [
                names.setdefault(name, f"v{len(names)}") if name else "" for name in values
            ]
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = names.setdefault(value.name, f"v{len(names)}")
        value.doc_string = ""
    return names
