"""Our own converters, and composed operators written as ONNX itself defines them.

Ours are of operators or attributes that TensorRT lacks or reads otherwise. It has no operators on
int8, but fuses what stands between DequantizeLinear and QuantizeLinear into int8 kernels. It
quantizes symmetrically, so nodes with other zero points stay as they are.

Source: ONNX operators AveragePool and MaxPool, version 22, output shape with ``ceil_mode``; LSTM,
GRU and RNN, version 14, attribute ``layout``; QLinearConv and QLinearMatMul, version 10.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from subgraphkit.ir import Node
from subgraphkit.onnx_io import write_value_info
from subgraphkit.types import DataType
from subgraphkit_tensorrt.lowering.registry import Fresh, Lowering, Replacement
from subgraphkit_tensorrt.rules.judged_node import wide_axes

_SEQUENCES: Final = (0,)
_STATES: Final = (5, 6)
_BATCH_SECOND: Final = [1, 0, 2]
_WHOLE_OUTPUT: Final = [2, 0, 1, 3]
"""From [sequence, directions, batch, hidden] to [batch, sequence, directions, hidden]."""
_OPERANDS: Final = ((0, 1, 2), (3, 4, 5))
"""Places of number, scale and zero point of the two factors."""
_RESULT: Final = (6, 7)
_BIAS: Final = 8


def fitted_window(node: Node, fresh: Fresh) -> Replacement | None:
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
    made = _without(node.graph.writer.node_proto(node), "kernel_shape", "strides")
    made.attribute.append(helper.make_attribute("kernel_shape", kernel))
    made.attribute.append(helper.make_attribute("strides", strides))
    return Replacement([made])


def sequence_first(node: Node, fresh: Fresh) -> Replacement | None:
    """Write ``layout=1``, which TensorRT reads as 0, as ``layout=0`` between transpositions."""
    if node.attribute("layout", 0) != 1 or node.graph.writer is None:
        return None
    inner = _without(node.graph.writer.node_proto(node), "layout")
    before, after = [], []
    for place in (*_SEQUENCES, *_STATES):
        if place < len(inner.input) and inner.input[place]:
            turned = fresh(f"input{place}")
            before.append(_transposed(inner.input[place], turned, _BATCH_SECOND))
            inner.input[place] = turned
    for place, name in enumerate(node.outputs):
        if name:
            inner.output[place] = fresh(f"output{place}")
            turn = _BATCH_SECOND if place else _WHOLE_OUTPUT
            after.append(_transposed(inner.output[place], name, turn))
    return Replacement([*before, inner, *after])


def _without(proto: onnx.NodeProto, *attributes: str) -> onnx.NodeProto:
    """Return a copy of a node without some attributes."""
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    for attribute in [one for one in made.attribute if one.name in attributes]:
        made.attribute.remove(attribute)
    return made


def _transposed(value: str, made: str, order: list[int]) -> onnx.NodeProto:
    return helper.make_node("Transpose", [value], [made], perm=order)


def dequantized_convolution(node: Node, fresh: Fresh) -> Replacement | None:
    """Write QLinearConv as Conv; its weights may have a scale for each output channel."""
    if not _is_symmetric(node) or node.graph.writer is None:
        return None
    constants: list[onnx.TensorProto] = []
    inputs, before = _dequantized(node, fresh, axis=0)
    if len(node.inputs) > _BIAS and node.inputs[_BIAS]:
        bias = _bias(node)
        if bias is None:
            return None
        inputs.append(fresh("bias"))
        constants.append(numpy_helper.from_array(bias, inputs[-1]))
    made = fresh("sum")
    conv = helper.make_node("Conv", inputs, [made])
    conv.attribute.extend(node.graph.writer.node_proto(node).attribute)
    return Replacement([*before, conv, _quantized(node, made)], constants)


def dequantized_product(node: Node, fresh: Fresh) -> Replacement | None:
    """Write QLinearMatMul as MatMul; one scale each."""
    if not _is_symmetric(node) or not all(_is_single(node, scale) for _, scale, _ in _OPERANDS):
        return None
    inputs, before = _dequantized(node, fresh, axis=None)
    made = fresh("product")
    matmul = helper.make_node("MatMul", inputs, [made])
    return Replacement([*before, matmul, _quantized(node, made)])


def _is_symmetric(node: Node) -> bool:
    """Say whether all numbers are int8 and all zero points are known to be 0."""
    zero_points = [*(zero for _, _, zero in _OPERANDS), _RESULT[1]]
    if any(node.dtype(place) is not DataType.INT8 for place in (0, 3, *zero_points)):
        return False
    known = [node.constant(place) for place in zero_points]
    return all(zero is not None and not zero.any() for zero in known)


def _is_single(node: Node, place: int) -> bool:
    return node.shape(place) in {(), (1,)}


def _dequantized(
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


def _quantized(node: Node, value: str) -> onnx.NodeProto:
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
    "AveragePool": fitted_window,
    "GRU": sequence_first,
    "LSTM": sequence_first,
    "MaxPool": fitted_window,
    "QLinearConv": dequantized_convolution,
    "QLinearMatMul": dequantized_product,
    "RNN": sequence_first,
}
"""By operator of ONNX."""


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
    """Copies nodes of a body, with the names and attributes of one call."""

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
