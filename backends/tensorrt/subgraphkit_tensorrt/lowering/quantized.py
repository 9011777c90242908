"""Operators on quantized numbers, written as float operators between Q and DQ.

TensorRT has no operators on int8, but fuses what stands between DequantizeLinear and QuantizeLinear
into int8 kernels. It quantizes symmetrically, so nodes with other zero points stay as they are.

Source: ONNX operators QLinearConv and QLinearMatMul, version 10.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from subgraphkit.ir import Node
from subgraphkit.types import DataType
from subgraphkit_tensorrt.lowering.registry import Fresh, Lowering, Replacement

__all__ = ["QUANTIZED"]

_OPERANDS: Final = ((0, 1, 2), (3, 4, 5))
"""Places of number, scale and zero point of the two factors."""
_RESULT: Final = (6, 7)
_BIAS: Final = 8


def convolution(node: Node, fresh: Fresh) -> Replacement | None:
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


def product(node: Node, fresh: Fresh) -> Replacement | None:
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


QUANTIZED: Final[Mapping[str, Lowering]] = {"QLinearConv": convolution, "QLinearMatMul": product}
"""By operator."""
