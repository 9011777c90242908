"""Normalization and softmax."""

import math
from typing import Any, Final

from subgraphkit.ir import Node
from subgraphkit.types import DataType
from subgraphkit_onednn.lowering.draft import GraphDraft, has_input, lowers, require
from subgraphkit_onednn.lowering.folding import folded_into_convolution

_FIRST_SOFTMAX_ALONG_AXIS: Final = 13
_FIRST_INFERENCE_BY_DEFAULT: Final = 7
_BATCHED: Final = range(2, 6)
_PRODUCTS: Final = {"Gemm", "MatMul"}


@lowers("BatchNormalization")
def batch_normalization(draft: GraphDraft, node: Node) -> None:
    """Lower a batch normalization with given statistics."""
    training = node.attribute("training_mode", 0) or node.opset < _FIRST_INFERENCE_BY_DEFAULT
    require(not training, "attribute", "BatchNormalization in training mode")
    require(bool(node.attribute("spatial", 1)), "attribute", "statistics per element (spatial=0)")
    x, y = draft.value(node.inputs[0]), draft.result(node)
    require(len(x.dims) in _BATCHED, "rank", f"oneDNN normalizes 2 to 5 axes, not {len(x.dims)}")
    if folded_into_convolution(draft, node, y):
        return
    makers = [node.producer(0)]
    makers += [one.producer(at) for one in makers if one and one.op_type == "Add" for at in (0, 1)]
    is_joined = any(one and one.op_type in _PRODUCTS for one in makers)
    told = "statistics of few bits behind a product, which oneDNN reads as float32"
    require(x.dtype == DataType.FLOAT or not is_joined, "dtype", told)
    scale, bias, mean, variance = (draft.value(name) for name in node.inputs[1:5])
    inputs, epsilon = [x, scale, bias, mean, variance], float(node.attribute("epsilon", 1e-5))
    draft.add("batch_norm_inference", inputs, y, epsilon=epsilon, data_format="NCX")


@lowers("LayerNormalization")
def layer_normalization(draft: GraphDraft, node: Node) -> None:
    """Lower a layer normalization; several normalized axes become one."""
    x, y = draft.value(node.inputs[0]), draft.result(node)
    axis = int(node.attribute("axis", -1)) % len(x.dims)
    length = math.prod(x.dims[axis:])
    dims = (*x.dims[:axis], length) if axis else (1, length)
    scale = draft.value(node.inputs[1])
    require(math.prod(scale.dims) == length, "shape", "the scale is broadcast")
    scale = draft.view(node.inputs[1], (length,))
    if has_input(node, 2):
        size = math.prod(draft.value(node.inputs[2]).dims)
        require(size == length, "shape", "the bias is broadcast")
        bias = draft.view(node.inputs[2], (length,))
    else:
        bias = draft.full(0.0, (length,), x.dtype)
    inner = draft.view(node.inputs[0], dims)
    output = y if dims == y.dims else draft.like(y, dims)
    told: dict[str, Any] = {"begin_norm_axis": -1, "keep_stats": False, "use_affine": True}
    told["epsilon"] = float(node.attribute("epsilon", 1e-5))
    draft.stand_for(node.outputs[0], draft.add("layer_norm", [inner, scale, bias], output, **told))


@lowers("Softmax", "LogSoftmax")
def softmax(draft: GraphDraft, node: Node) -> None:
    """Lower a softmax; before opset 13 all axes from ``axis`` on are one."""
    kind = "softmax" if node.op_type == "Softmax" else "log_softmax"
    x, y = draft.value(node.inputs[0]), draft.result(node)
    rank = len(x.dims)
    along_axis = node.opset >= _FIRST_SOFTMAX_ALONG_AXIS
    stated = int(node.attribute("axis", -1 if along_axis else 1))
    axis = stated % max(rank, 1) if stated < rank else rank
    told = "for another axis than the last, oneDNN has a slow reference kernel alone"
    require(not along_axis or math.prod(x.dims[axis + 1 :]) == 1, "attribute", told)
    if along_axis or axis == rank - 1:
        draft.add(kind, [x], y, axis=axis)
        return
    dims = math.prod(x.dims[:axis]), math.prod(x.dims[axis:])
    inner = draft.view(node.inputs[0], dims)
    draft.stand_for(node.outputs[0], draft.add(kind, [inner], draft.like(y, dims), axis=1))
