"""Our own converters, and composed operators written as ONNX itself defines them.

Ours are of operators or attributes that TensorRT lacks or reads otherwise. It has no operators on
int8, but fuses what stands between DequantizeLinear and QuantizeLinear into int8 kernels. It
quantizes symmetrically, so nodes with other zero points stay as they are.

Source: ONNX operators AveragePool and MaxPool, version 22, output shape with ``ceil_mode``; LSTM,
GRU and RNN, version 14, attribute ``layout``; QLinearConv and QLinearMatMul, version 10.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.inliner import inline_selected_functions

from subgraphkit.ir import Node
from subgraphkit.onnx_io import write_value_info
from subgraphkit.types import DataType
from subgraphkit_tensorrt.lowering.registry import Fresh, Lowering, Replacement
from subgraphkit_tensorrt.rules.judged_node import wide_axes

_IR_VERSION: Final = 10
_SEQUENCES: Final = (0,)
_STATES: Final = (5, 6)
_BATCH_SECOND: Final = [1, 0, 2]
_WHOLE_OUTPUT: Final = [2, 0, 1, 3]
"""From [sequence, directions, batch, hidden] to [batch, sequence, directions, hidden]."""
_OPERANDS: Final = ((0, 1, 2), (3, 4, 5))
"""Places of number, scale and zero point of the two factors."""
_RESULT: Final = (6, 7)
_BIAS: Final = 8


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


def put_sequence_first(node: Node, fresh: Fresh) -> Replacement | None:
    """Write ``layout=1``, which TensorRT reads as 0, as ``layout=0`` between transpositions."""
    if node.attribute("layout", 0) != 1 or node.graph.writer is None:
        return None
    inner = _copy_without(node.graph.writer.node_proto(node), "layout")
    before, after = [], []
    for place in (*_SEQUENCES, *_STATES):
        if place < len(inner.input) and inner.input[place]:
            turned = fresh(f"input{place}")
            before.append(_transpose(inner.input[place], turned, _BATCH_SECOND))
            inner.input[place] = turned
    for place, name in enumerate(node.outputs):
        if name:
            inner.output[place] = fresh(f"output{place}")
            turn = _BATCH_SECOND if place else _WHOLE_OUTPUT
            after.append(_transpose(inner.output[place], name, turn))
    return Replacement([*before, inner, *after])


def _copy_without(proto: onnx.NodeProto, *attributes: str) -> onnx.NodeProto:
    """Return a copy of a node without some attributes."""
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    for attribute in [one for one in made.attribute if one.name in attributes]:
        made.attribute.remove(attribute)
    return made


def _transpose(value: str, made: str, order: list[int]) -> onnx.NodeProto:
    return helper.make_node("Transpose", [value], [made], perm=order)


def dequantize_convolution(node: Node, fresh: Fresh) -> Replacement | None:
    """Write QLinearConv as Conv; its weights may have a scale for each output channel."""
    if not _is_symmetric(node) or node.graph.writer is None:
        return None
    constants: list[onnx.TensorProto] = []
    inputs, before = _dequantize_operands(node, fresh, axis=0)
    if len(node.inputs) > _BIAS and node.inputs[_BIAS]:
        bias = _bias(node)
        if bias is None:
            return None
        inputs.append(fresh("bias"))
        constants.append(numpy_helper.from_array(bias, inputs[-1]))
    made = fresh("sum")
    conv = helper.make_node("Conv", inputs, [made])
    conv.attribute.extend(node.graph.writer.node_proto(node).attribute)
    return Replacement([*before, conv, _quantize_result(node, made)], constants)


def dequantize_product(node: Node, fresh: Fresh) -> Replacement | None:
    """Write QLinearMatMul as MatMul; one scale each."""
    if not _is_symmetric(node) or not all(_is_single(node, scale) for _, scale, _ in _OPERANDS):
        return None
    inputs, before = _dequantize_operands(node, fresh, axis=None)
    made = fresh("product")
    matmul = helper.make_node("MatMul", inputs, [made])
    return Replacement([*before, matmul, _quantize_result(node, made)])


def _is_symmetric(node: Node) -> bool:
    """Say whether all numbers are int8 and all zero points are known to be 0."""
    zero_points = [*(zero for _, _, zero in _OPERANDS), _RESULT[1]]
    if any(node.dtype(place) is not DataType.INT8 for place in (0, 3, *zero_points)):
        return False
    known = [node.constant(place) for place in zero_points]
    return all(zero is not None and not zero.any() for zero in known)


def _is_single(node: Node, place: int) -> bool:
    return node.shape(place) in {(), (1,)}


def _dequantize_operands(
    node: Node, fresh: Fresh, axis: int | None
) -> tuple[list[str], list[onnx.NodeProto]]:
    names, made = [], []
    for number, places in zip(("x", "w"), _OPERANDS, strict=True):
        name = fresh(number)
        one = helper.make_node("DequantizeLinear", [node.inputs[i] for i in places], [name])
        if axis is not None and number == "w" and not _is_single(node, places[1]):
            one.attribute.append(helper.make_attribute("axis", axis))
        names.append(name)
        made.append(one)
    return names, made


def _quantize_result(node: Node, value: str) -> onnx.NodeProto:
    scales: Sequence[str] = [node.inputs[place] for place in _RESULT]
    return helper.make_node("QuantizeLinear", [value, *scales], [node.outputs[0]])


def _bias(node: Node) -> np.ndarray | None:
    """Return the int32 bias as floats: its scale is the product of the factors' scales."""
    stored = [node.constant(place) for place in (_BIAS, 1, 4)]
    if any(one is None for one in stored):
        return None
    bias, scale, scales = (np.asarray(one) for one in stored)
    return np.asarray(bias * (scale.reshape(-1)[0] * scales), np.float32)


OWN: Final[Mapping[str, Lowering]] = {
    "AveragePool": fit_window,
    "GRU": put_sequence_first,
    "LSTM": put_sequence_first,
    "MaxPool": fit_window,
    "QLinearConv": dequantize_convolution,
    "QLinearMatMul": dequantize_product,
    "RNN": put_sequence_first,
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
