"""Our own converters, and composed operators written as ONNX itself defines them."""

from collections.abc import Mapping
from typing import Final

import onnx
from onnx import helper
from onnx.inliner import inline_selected_functions

from subgraphkit.ir import Node
from subgraphkit.onnx_io import write_value_info
from subgraphkit.types import DataType
from subgraphkit_tensorrt.lowering.registry import Fresh, Lowering, Replacement

_EXACT: Final = 1 << 24
"""The first whole number beyond which float32 leaves some out."""


def count_truths(node: Node, fresh: Fresh) -> Replacement | None:
    """Write a cumulative sum of truth values, such as those of a mask, as one of float32.

    TensorRT has none of whole numbers. Counts below 2**24 are the same; sums of other numbers may
    not be, and stay as they are.
    """
    graph, x = node.graph, node.inputs[0]
    maker = Node(graph, graph.producers[x]) if x in graph.producers else None
    is_truth = maker is not None and maker.op_type == "Cast" and not maker.domain
    if maker is None or not is_truth or graph.dtype(maker.inputs[0]) is not DataType.BOOL:
        return None
    sizes = [dim for dim in graph.shape(x) or () if isinstance(dim, int)]
    if graph.writer is None or max(sizes, default=0) >= _EXACT:
        return None
    wide, summed = fresh("float32"), fresh("sum")
    made = onnx.NodeProto()
    made.CopyFrom(graph.writer.node_proto(node))
    made.input[0], made.output[0] = wide, summed
    widened = helper.make_node("Cast", [x], [wide], to=onnx.TensorProto.FLOAT)
    narrowed = helper.make_node("Cast", [summed], [node.outputs[0]], to=int(graph.dtype(x)))
    return Replacement([widened, made, narrowed])


OWN: Final[Mapping[str, Lowering]] = {"CumSum": count_truths}


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
        model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
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

    def name_of(name: str) -> str:
        if name not in names:
            names[name] = fresh(name)
        return names[name]

    node.name = ""
    node.input[:] = map(name_of, node.input)
    node.output[:] = map(name_of, node.output)
    for body in (attribute.g for attribute in node.attribute if attribute.HasField("g")):
        for inner in body.node:
            _rename(inner, names, fresh)
        for value in (*body.input, *body.initializer, *body.output):
            value.name = name_of(value.name)
        del body.value_info[:]
