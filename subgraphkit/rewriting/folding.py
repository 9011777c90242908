"""BatchNormalization folded into the convolution before it, so that one int8 weight holds both."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx

from subgraphkit.rewriting.draft import Draft
from subgraphkit.types import DataType

__all__ = ["attribute", "fold_normalisations"]

_EPSILON: Final = 1e-5
_ALWAYS_SPATIAL: Final = 9  # one mean per channel; before, an attribute could say otherwise

_Array = npt.NDArray[Any]


def fold_normalisations(draft: Draft) -> int:
    """Fold in place every BatchNormalization that follows a Conv or ConvTranspose alone.

    Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference", 2018, section 3.2.

    Returns:
        How many were folded.
    """
    producers, read = draft.producers(), draft.readers()
    gone: set[int] = set()
    for node in draft.nodes:
        if node.op_type != "BatchNormalization" or not _is_plain(node, draft):
            continue
        before = producers.get(node.input[0])
        if before is None or read[node.input[0]] != 1 or not _takes_in(before, draft):
            continue
        _fold(before, node, draft)
        producers[node.output[0]] = before
        gone.add(id(node))
    draft.nodes[:] = [node for node in draft.nodes if id(node) not in gone]
    return len(gone)


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Return an attribute of a node, or a default."""
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else onnx.helper.get_attribute_value(found)


def _is_plain(node: onnx.NodeProto, draft: Draft) -> bool:
    fixed = all(name in draft.constants and name not in draft.pinned for name in node.input[1:5])
    alone = not any(node.output[1:])
    return (
        fixed
        and alone
        and not attribute(node, "training_mode", 0)
        and draft.opset() >= _ALWAYS_SPATIAL
    )


def _takes_in(node: onnx.NodeProto, draft: Draft) -> bool:
    if node.domain or node.op_type not in {"Conv", "ConvTranspose"}:
        return False
    if node.op_type == "ConvTranspose" and attribute(node, "group", 1) != 1:
        return False
    return all(
        name in draft.constants and name not in draft.pinned and draft.is_float(name)
        for name in node.input[1:]
        if name
    )


def _fold(before: onnx.NodeProto, node: onnx.NodeProto, draft: Draft) -> None:
    scale, shift, mean, variance = (draft.array(n).astype(np.float64) for n in node.input[1:5])
    factor = scale / np.sqrt(variance + attribute(node, "epsilon", _EPSILON))
    weight = draft.array(before.input[1])
    axis = 0 if before.op_type == "Conv" else 1
    along = [1] * weight.ndim
    along[axis] = -1
    folded = (weight * factor.reshape(along)).astype(weight.dtype)
    biases = [draft.array(name) for name in before.input[2:] if name]
    bias: Any = biases[0] if biases else 0.0
    moved = ((bias - mean) * factor + shift).astype(weight.dtype)
    names = (
        draft.store(f"{before.input[1]}_folded", folded, before.input[1]),
        draft.store(f"{node.input[2]}_folded", moved, node.input[2]),
    )
    draft.folded[node.output[0]] = (node.name, before.output[0])
    data = before.input[0]
    del before.input[:]
    before.input.extend((data, *names))
    before.output[0] = node.output[0]
    draft.retype(node.output[0], DataType.FLOAT, node.output[0])
