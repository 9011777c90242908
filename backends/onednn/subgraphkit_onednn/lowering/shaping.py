"""Operators that move elements and compute nothing."""

from typing import Final

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import GraphDraft, lowers, require, single_output

_MOST_CONCATENATED: Final = 64


@lowers("Identity", "Flatten")
def copy(draft: GraphDraft, node: Node) -> None:
    """Lower an operator that only copies."""
    draft.stand_for(single_output(node), draft.value(node.inputs[0]))


@lowers("Reshape", "Squeeze", "Unsqueeze")
def reshape(draft: GraphDraft, node: Node) -> None:
    """Lower a change of shape; what states the new shape must be constant."""
    if len(node.inputs) > 1:
        draft.read(node, 1)
    copy(draft, node)


@lowers("Dropout")
def dropout(draft: GraphDraft, node: Node) -> None:
    """Lower a dropout that lets everything pass."""
    training = draft.read(node, 2)
    require(training is None or not training.any(), "attribute", "Dropout in training mode")
    copy(draft, node)


@lowers("Transpose")
def transpose(draft: GraphDraft, node: Node) -> None:
    """Lower a permutation of axes."""
    x, y = draft.value(node.inputs[0]), draft.result(node)
    order = node.attribute("perm", None)
    axes = tuple(reversed(range(len(x.dims)))) if order is None else tuple(order)
    # oneDNN transposes nothing by itself, but brings elements from any strides into order.
    draft.add("reorder", [draft.permute(x, axes or (0,))], y)


@lowers("Concat")
def concat(draft: GraphDraft, node: Node) -> None:
    """Lower a concatenation of up to 64 tensors."""
    y = draft.result(node)
    tensors = [draft.value(name) for name in node.inputs]
    told = f"{len(tensors)} inputs, oneDNN concatenates {_MOST_CONCATENATED}"
    require(len(tensors) <= _MOST_CONCATENATED, "shape", told)
    axis = int(node.attribute("axis", 1)) % len(y.dims)
    if len(tensors) == 1:
        draft.stand_for(node.outputs[0], tensors[0])
    else:
        draft.add("concat", tensors, y, axis=axis)


@lowers("Cast")
def cast(draft: GraphDraft, node: Node) -> None:
    """Lower a cast between the floating-point types that oneDNN computes with here.

    Where it computes in float32 alone, bfloat16 loses the sign of zeros, and tiny numbers.
    """
    x, y = draft.value(node.inputs[0]), draft.result(node)
    if x.dtype == y.dtype:
        draft.stand_for(node.outputs[0], x)
    else:
        draft.add("type_cast", [x], y)
