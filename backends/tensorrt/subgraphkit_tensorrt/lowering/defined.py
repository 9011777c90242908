"""Composed operators, written as ONNX itself defines them."""

from collections.abc import Iterable, Mapping
from typing import Any

import onnx

from subgraphkit.ir import Node
from subgraphkit.onnx_io import write_value_info
from subgraphkit_tensorrt.lowering.registry import Fresh, Replacement

__all__ = ["as_defined"]


def as_defined(node: Node, fresh: Fresh) -> Replacement | None:
    """Return the body of the function that defines a node's operator; None if there is none.

    Source: ONNX operator schemas, function bodies.
    """
    if node.graph.writer is None:
        return None
    proto = node.graph.writer.node_proto(node)
    function = _definition(node, proto)
    if function is None or not _means_the_same(function, node.opset):
        return None
    names = {"": ""}
    # What is left out has no name in the body either.
    names.update(_paired(function.input, node.inputs))
    given = dict(_paired(function.output, node.outputs))
    for name in function.output:
        names[name] = given.get(name) or fresh(name)
    attributes = {attribute.name: attribute for attribute in function.attribute_proto}
    attributes |= {attribute.name: attribute for attribute in proto.attribute}
    body = _Body(names, attributes, fresh)
    return Replacement([body.copy(one) for one in function.node])


def _paired(formal: Iterable[str], actual: Iterable[str]) -> dict[str, str]:
    names, given = list(formal), list(actual)
    given += [""] * (len(names) - len(given))
    return dict(zip(names, given, strict=False))


def _definition(node: Node, proto: onnx.NodeProto) -> onnx.FunctionProto | None:
    """Return the definition for the node's version, types and attributes; None if there is none."""
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, node.opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    plain = [one for one in schema.function_opset_versions if one <= node.opset]
    if plain:
        return _parsed(schema.get_function_with_opset_version(max(plain)))
    dependent = [
        one for one in schema.context_dependent_function_opset_versions if one <= node.opset
    ]
    if not dependent:
        return None
    types = node.graph.types
    stated = [
        write_value_info(name, types.get(name) if name else None).type.SerializeToString()
        for name in node.inputs
    ]
    return _parsed(
        schema.get_context_dependent_function_with_opset_version(
            max(dependent), proto.SerializeToString(), stated
        )
    )


def _parsed(data: bytes) -> onnx.FunctionProto | None:
    return onnx.FunctionProto.FromString(data) if data else None


def _means_the_same(function: onnx.FunctionProto, opset: int) -> bool:
    """Say whether the body's operators are the same in the model's operator set."""
    written = {entry.domain: entry.version for entry in function.opset_import}
    if set(written) - {""}:
        return False
    version = written.get("", opset)
    return all(
        onnx.defs.get_schema(one.op_type, version).since_version
        == onnx.defs.get_schema(one.op_type, opset).since_version
        for one in function.node
    )


class _Body:
    """Copies nodes of a body, with the names and attributes of one call.

    Args:
        names: By name in the body, that in the model; grows.
        attributes: Attributes of the call, defaults included.
        fresh: Makes names.
    """

    def __init__(
        self, names: dict[str, str], attributes: Mapping[str, onnx.AttributeProto], fresh: Fresh
    ) -> None:
        self._names = names
        self._attributes = attributes
        self._fresh = fresh

    def copy(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Copy a node with what its bodies hold."""
        made = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
        made.input.extend(self._of(name) for name in node.input)
        made.output.extend(self._of(name) for name in node.output)
        for attribute in node.attribute:
            copied = self._attribute(attribute)
            if copied is not None:
                made.attribute.append(copied)
        return made

    def _attribute(self, attribute: onnx.AttributeProto) -> onnx.AttributeProto | None:
        copied = onnx.AttributeProto()
        if attribute.ref_attr_name:
            # An attribute that the call leaves out is left out of the body.
            given = self._attributes.get(attribute.ref_attr_name)
            if given is None:
                return None
            copied.CopyFrom(given)
            copied.name = attribute.name
            return copied
        copied.CopyFrom(attribute)
        if attribute.HasField("g"):
            self._graph(copied.g)
        return copied

    def _graph(self, graph: onnx.GraphProto) -> None:
        for value in (*graph.input, *graph.initializer):
            value.name = self._of(value.name)
        nodes = [self.copy(one) for one in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
        for value in graph.output:
            value.name = self._of(value.name)
        del graph.value_info[:]

    def _of(self, name: str) -> str:
        if name not in self._names:
            self._names[name] = self._fresh(name)
        return self._names[name]
