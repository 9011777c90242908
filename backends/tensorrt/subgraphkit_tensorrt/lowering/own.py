"""Our own converters, and composed operators written as ONNX itself defines them.

Source: ONNX operators AveragePool and MaxPool, version 22, output shape with ``ceil_mode``.
"""

from collections.abc import Mapping
from typing import Final

import onnx
from onnx import helper
from onnx.inliner import inline_selected_functions

from subgraphkit.ir import Node
from subgraphkit.onnx_io import write_value_info
from subgraphkit_tensorrt.lowering.registry import Fresh, Lowering, Replacement
from subgraphkit_tensorrt.rules.judged_node import wide_axes

_IR_VERSION: Final = 10


def fit_window(node: Node, fresh: Fresh) -> Replacement | None:
    """Write a pooling so that no window is wider than its input.

    Networks that end in one wide window instead of a global pooling do so whatever the size of the
    picture; TensorRT limits the volume of a window. Where nothing is padded, one window that
    reaches beyond the end sees all there is and no more.
    """
    del fresh
    sizes = wide_axes(node)
    if not sizes or not node.attribute("ceil_mode", 0) or node.graph.writer is None:
        return None
    kernel = list(node.attribute("kernel_shape"))
    if any(node.attribute("pads", ())) or any(one != 1 for one in node.attribute("dilations", ())):
        return None
    strides = list(node.attribute("strides", [1] * len(kernel)))
    for axis, size in sizes.items():
        kernel[axis] = strides[axis] = size
    made = _copy_without(node.graph.writer.node_proto(node), "kernel_shape", "strides")
    made.attribute.append(helper.make_attribute("kernel_shape", kernel))
    made.attribute.append(helper.make_attribute("strides", strides))
    return Replacement([made])


def _copy_without(proto: onnx.NodeProto, *attributes: str) -> onnx.NodeProto:
    """Return a copy of a node without some attributes."""
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    for attribute in [one for one in made.attribute if one.name in attributes]:
        made.attribute.remove(attribute)
    return made


OWN: Final[Mapping[str, Lowering]] = {
    "AveragePool": fit_window,
    "MaxPool": fit_window,
}
"""By operator of ONNX."""


def inline_definition(node: Node, fresh: Fresh) -> Replacement | None:
    """Return the nodes of the function that defines a node's operator; None if there is none.

    Source: ONNX operator schemas, function bodies.
    """
    if node.graph.writer is None or node.bodies:
        return None
    types = node.graph.types
    read, made = (
        [write_value_info(name, types.get(name)) for name in dict.fromkeys(names) if name]
        for names in (node.inputs, node.outputs)
    )
    # A definition that goes by types asks for that of an input that is left out as well.
    absent = [helper.make_tensor_value_info("", onnx.TensorProto.UNDEFINED, None)]
    opset = helper.make_opsetid("", node.opset)
    try:
        written = _with_defaults(node.graph.writer.node_proto(node), node.opset)
        graph = helper.make_graph([written], "one", read, made, value_info=absent)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)
        which = [(node.domain, node.op_type)]
        inlined = inline_selected_functions(model, which, inline_schema_functions=True)
    except (RuntimeError, onnx.defs.SchemaError):  # it depends on a type that is not known
        return None
    nodes = list(inlined.graph.node)
    if list(inlined.opset_import) != [opset] or nodes[0].op_type == node.op_type:
        return None
    names = {name: name for name in ("", *node.inputs, *node.outputs)}
    for one in nodes:
        _rename(one, names, fresh)
    return Replacement(nodes)


def _with_defaults(proto: onnx.NodeProto, opset: int) -> onnx.NodeProto:
    """Return a node with the attributes that it leaves to the operator's schema."""
    full = onnx.NodeProto()
    full.CopyFrom(proto)
    given = {attribute.name for attribute in proto.attribute}
    for name, attribute in onnx.defs.get_schema(proto.op_type, opset).attributes.items():
        if name not in given and attribute.default_value.name:
            full.attribute.append(attribute.default_value)
    return full


def _rename(node: onnx.NodeProto, names: dict[str, str], fresh: Fresh) -> None:
    """Give the values of a node, and of bodies in it, names that the model does not have."""

    def named(name: str) -> str:
        if name not in names:
            names[name] = fresh(name)
        return names[name]

    node.name = ""
    node.input[:] = map(named, node.input)
    node.output[:] = map(named, node.output)
    for body in (attribute.g for attribute in node.attribute if attribute.HasField("g")):
        for inner in body.node:
            _rename(inner, names, fresh)
        for value in (*body.input, *body.initializer, *body.output):
            value.name = named(value.name)
        del body.value_info[:]
