"""Nodes that ONNX Runtime takes and then fails at, or answers other than ONNX defines.

Each was found with ONNX's own test cases on ONNX Runtime 1.31. They are refused, so that a backend
behind this one runs them.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from subgraphkit.ir import Node

__all__ = ["deviation"]


def deviation(node: Node) -> str:
    """Return what is wrong with ONNX Runtime's way of running a node; empty if nothing is known."""
    if node.domain:
        return ""
    check = _CHECKS.get(node.op_type)
    return check(node) if check is not None else ""


def _attention(node: Node) -> str:
    if _has(node.inputs, 3) and _has(node.inputs, 6):
        return "a mask must cover the padding of keys and values as well"
    if node.attribute("is_causal", 0) and _has(node.outputs, 3):
        return "scores hidden by is_causal are handed out as finite numbers"
    return ""


def _conv_integer(node: Node) -> str:
    return "zero points of weights must be one scalar" if _is_vector(node, 3) else ""


def _max_unpool(node: Node) -> str:
    return (
        "indices are taken to be those of the default output shape" if _has(node.inputs, 2) else ""
    )


def _reduce_bool(node: Node) -> str:
    shape = node.shape(0)
    if node.dtype(0).label == "bool" and (shape is None or 0 in shape):
        return "booleans cannot be reduced over nothing"
    return ""


def _resize(node: Node) -> str:
    if node.attribute("coordinate_transformation_mode", "") != "align_corners":
        return ""
    if not _has(node.inputs, 2):
        return ""
    scales = node.constant(2)
    if scales is not None and (scales == scales.round()).all():
        return ""
    return "corners are aligned by the rounded output size, not by the scales"


def _has(values: tuple[str, ...], place: int) -> bool:
    return place < len(values) and bool(values[place])


def _is_vector(node: Node, place: int) -> bool:
    shape = node.shape(place)
    return _has(node.inputs, place) and (shape is None or (len(shape) > 0 and shape != (1,)))


_CHECKS: Final[Mapping[str, Callable[[Node], str]]] = MappingProxyType(
    {
        "Attention": _attention,
        "ConvInteger": _conv_integer,
        "MaxUnpool": _max_unpool,
        "ReduceMax": _reduce_bool,
        "ReduceMin": _reduce_bool,
        "Resize": _resize,
    }
)
