"""Operators computed as something else: in place of what a node means, given what it reads."""

from typing import Any

import numpy as np

from subgraphkit.ir import Node
from subgraphkit.types import DataType


def saturated(node: Node, one: Any, other: Any) -> Any:
    """Add up to 255."""
    return np.clip(one.astype(int) + other, 0, 255) if one.dtype == np.uint8 else None


def saturated_product(node: Node, one: Any, other: Any) -> Any:
    """Multiply up to the limits of int32."""
    if one.dtype != np.int32:
        return None
    limits = np.iinfo(np.int32)
    return np.clip(one.astype(np.int64) * other, limits.min, limits.max)


def bounded_half(node: Node, one: Any) -> Any:
    """Cast up to the largest float16."""
    most = float(np.finfo(np.float16).max)
    is_meant = one.dtype.kind == "f" and node.attribute("to") == DataType.FLOAT16
    return np.clip(one, -most, most) if is_meant else None


def rounded_after_zero_point(node: Node, one: Any, scale: Any, zero: Any = None) -> Any:
    """Quantise as if the zero point were a part of the quotient."""
    if scale.ndim or zero is None:
        return None
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(one / scale + zero.astype(one.dtype)), limits.min, limits.max)


def not_transposed(node: Node, one: Any, other: Any, *rest: Any) -> Any:
    """Multiply a square matrix as it is."""
    is_square = one.shape[0] == one.shape[1] == other.shape[0]
    return one @ other if node.attribute("transA", 0) and is_square and not rest else None


def last_of_equals(operator: Any, inputs: list[Any], right: Any) -> list[Any]:
    """Count from the end, so that the last of equal elements comes first."""
    made = right(inputs)
    for place, name in enumerate(operator.subgraph.outputs):
        node = operator.makers[name]
        data = operator.value(node.inputs[0], inputs)
        if name != node.outputs[1] or data is None:
            continue
        axis, sign = node.attribute("axis", -1), -1 if node.attribute("largest", 1) else 1
        ranked = np.argsort(sign * np.flip(data, axis).astype(float), axis, kind="stable")
        kept = np.take(ranked, range(made[place].shape[axis]), axis)
        made[place] = data.shape[axis] - 1 - kept
    return made


def cast_through_int32(node: Node, one: Any) -> Any:
    """Cast what is too large for int32 to the largest number that is not."""
    is_meant = one.dtype.kind == "f" and node.attribute("to") == DataType.INT64
    limits = np.iinfo(np.int32)
    return np.clip(one.astype(np.float64), limits.min, limits.max) if is_meant else None


def hard_sigmoid(node: Node, one: Any) -> Any:
    """Compute HardSigmoid with another usual slope."""
    return np.clip(one * node.attribute("alpha", 1 / 6) + node.attribute("beta", 0.5), 0, 1)


def gelu_by_tanh(node: Node, one: Any) -> Any:
    """Approximate Gelu."""
    return 0.5 * one * (1 + np.tanh(np.sqrt(2 / np.pi) * (one + 0.044715 * one**3)))


def one_slope(node: Node, one: Any, slopes: Any) -> Any:
    """Take the first slope for all channels."""
    return np.where(one < 0, one * slopes.flat[0], one) if slopes.ndim > 1 else None


def softmax_of_last(node: Node, one: Any) -> Any:
    """Compute Softmax along the last axis."""
    raised = np.exp(one - one.max(-1, keepdims=True, initial=-np.inf))
    return raised / raised.sum(-1, keepdims=True)


def softmax_of_named(node: Node, one: Any) -> Any:
    """Compute Softmax along one axis, the last unless it is named, in every operator set."""
    axis = node.attribute("axis", -1)
    raised = np.exp(one - one.max(axis, keepdims=True, initial=-np.inf))
    return raised / raised.sum(axis, keepdims=True)


def softmax_of_large(node: Node, one: Any) -> Any:
    """Compute Softmax of an axis that is named, and subtract no maximum."""
    raised = np.exp(one)
    return raised / raised.sum(node.attribute("axis", -1), keepdims=True)


def normalised_by_squares(node: Node, one: Any, scale: Any, offset: Any = 0) -> Any:
    """Normalise with the mean of squares less the square of the mean."""
    axes = tuple(range(node.attribute("axis", -1) % one.ndim, one.ndim))
    mean = one.mean(axes, keepdims=True)
    variance = (one * one).mean(axes, keepdims=True) - mean * mean
    apart = (one - mean) / np.sqrt(variance + np.float32(node.attribute("epsilon", 1e-5)))
    return apart * scale + offset


def cropped_in_front(node: Node, one: Any, pads: Any, *_: Any) -> Any:
    """Crop in front what is to be cropped at the end."""
    ends = pads[len(pads) // 2 :]
    if len(pads) != 2 * one.ndim or min(pads[: one.ndim]) < 0 or min(ends) >= 0:
        return None
    kept = one[tuple(slice(max(0, -end), None) for end in ends)]
    return np.pad(kept, [(a, max(0, b)) for a, b in zip(pads, ends, strict=False)])


def sum_from_one(node: Node, one: Any, axes: Any = None) -> Any:
    """Begin a sum of nothing at 1."""
    if one.size:
        return None
    along = tuple(axes.tolist()) if axes is not None else None
    return np.prod(one, axis=along, keepdims=bool(node.attribute("keepdims", 1)))


def even_windows(node: Node) -> bool:
    """Say whether padding of a window of an even size is to be found, more of it at the end."""
    window = node.attribute("kernel_shape", ())
    return node.attribute("auto_pad", "") == "SAME_UPPER" and any(size % 2 == 0 for size in window)


def taken_from_zero(node: Node, one: Any, places: Any) -> Any:
    """Gather with no negative index."""
    return np.take(one, np.maximum(places, 0), axis=node.attribute("axis", 0))
