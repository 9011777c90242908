"""From a ``GraphProto`` to the graph of ``subgraphkit.ir``."""

from collections.abc import Iterable, Mapping
from itertools import chain
from sys import intern
from types import MappingProxyType
from typing import Any

import onnx

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Graph, Initializer, NodeTable, build_graph
from subgraphkit.onnx_io.attribute_rules import LazyAttributes, body_protos, constant_of
from subgraphkit.onnx_io.external_data import DataFolders
from subgraphkit.onnx_io.protos import normal_domain, read_type
from subgraphkit.onnx_io.weights import initializer_of, sparse_initializer_of
from subgraphkit.onnx_io.writing import OnnxGraphWriter
from subgraphkit.types import ValueType

_OVERRIDABLE_SINCE_IR = 4
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_Opsets = Mapping[str, int]


def read_graph(
    model: onnx.ModelProto,
    graph: onnx.GraphProto,
    opsets: _Opsets,
    folders: DataFolders | None,
    *,
    is_body: bool = False,
    held: Mapping[str, Initializer] = _NOTHING,
) -> Graph:
    """Index a graph; its weights are not read.

    A caller may override an initializer that is listed among the inputs. Before IR version 4 all
    had to be listed, so there the list does not say that. ONNX Runtime reads it the same way.

    ``folders``: Where the model's external data may be; None if nowhere.

    Raises:
        InvalidModelError: The graph has a cycle, a value is made twice or never (SGK203 to SGK205).
    """
    stored = _initializers(graph, folders, held)
    listed = [value.name for value in graph.input]
    overridable = model.ir_version >= _OVERRIDABLE_SINCE_IR and not is_body
    defaults = {name: stored.pop(name) for name in listed if overridable and name in stored}
    inputs = tuple(name for name in listed if name not in stored and name not in defaults)
    table, constants = _columns(model, graph, opsets, folders)
    types = read_types(chain(graph.value_info, graph.input, graph.output))
    for initializers in (stored, defaults, constants):
        types |= {name: initializer.type for name, initializer in initializers.items()}
    return build_graph(
        name=intern(graph.name),  # TypeError if it is no text
        table=table,
        inputs=inputs,
        outputs=tuple(value.name for value in graph.output),
        initializers=stored,
        defaults=defaults,
        opset_imports=opsets,
        types=types,
        node_constants=constants,
        is_body=is_body,
        writer=OnnxGraphWriter(model, graph, table.inputs),
    )


def read_types(
    values: Iterable[onnx.ValueInfoProto], *, inferred: bool = False
) -> dict[str, ValueType]:
    """Return the types that are stated of values, as ``read_type``."""
    types: dict[str, ValueType] = {}
    for value in values:
        try:
            type_ = read_type(value.type, inferred=inferred)
        except InvalidModelError as error:
            what = f"value {value.name!r}: {error.message}"
            raise InvalidModelError(error.code, what, hint=error.hint) from error
        if type_ is not None:
            types[intern(value.name)] = type_
    return types


def read_bodies(
    model: onnx.ModelProto, node: onnx.NodeProto, opsets: _Opsets, folders: DataFolders | None
) -> dict[str, Graph]:
    """Index the graphs held by a node's attributes, by attribute name."""
    return {
        name: read_graph(model, body, opsets, folders, is_body=True)
        for name, body in body_protos(node).items()
    }


def _initializers(
    graph: onnx.GraphProto, folders: DataFolders | None, held: Mapping[str, Initializer]
) -> dict[str, Initializer]:
    dense = [held.get(one.name) or initializer_of(one, folders) for one in graph.initializer]
    sparse = [
        held.get(tensor.values.name) or sparse_initializer_of(tensor, folders)
        for tensor in graph.sparse_initializer
    ]
    return {intern(initializer.name): initializer for initializer in (*dense, *sparse)}


def _columns(
    model: onnx.ModelProto, graph: onnx.GraphProto, opsets: _Opsets, folders: DataFolders | None
) -> tuple[NodeTable, dict[str, Initializer]]:
    op_types: list[str] = []
    domains: list[str] = []
    names: list[str] = []
    inputs: list[tuple[str, ...]] = []
    outputs: list[tuple[str, ...]] = []
    attributes: list[Mapping[str, Any]] = []
    bodies: dict[int, Mapping[str, Graph]] = {}
    constants: dict[str, Initializer] = {}
    for index, node in enumerate(graph.node):
        op_types.append(intern(node.op_type))
        domains.append(intern(normal_domain(node.domain)))
        names.append(node.name)
        inputs.append(tuple(map(intern, node.input)))
        outputs.append(tuple(map(intern, node.output)))
        if not node.attribute:
            attributes.append(_NOTHING)
            continue
        attributes.append(LazyAttributes(node, folders))
        if found := read_bodies(model, node, opsets, folders):
            bodies[index] = found
        if op_types[index] == "Constant" and not domains[index]:
            constant = constant_of(node, folders)
            if constant is not None:
                constants[constant.name] = constant
    "".join(names)  # raises TypeError if one is no text
    table = NodeTable(op_types, domains, names, inputs, outputs, attributes, bodies)
    return table, constants
