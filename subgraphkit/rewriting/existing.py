"""Quantisation that a model came with: passed through, made symmetric if that changes nothing."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx

from subgraphkit.errors import UnsupportedModelError
from subgraphkit.rewriting.draft import Draft, label_of
from subgraphkit.types import DataType

__all__ = ["is_quantized", "make_symmetric"]

_MIDDLE: Final = 128
_Array = npt.NDArray[Any]


def is_quantized(draft: Draft) -> bool:
    """Say whether the model has QuantizeLinear or DequantizeLinear."""
    return any(_is_pair(node) for node in draft.nodes)


def make_symmetric(draft: Draft) -> int:
    """Let every uint8 with the zero point 128 be the int8 with the zero point 0 that it stands for.

    Both hold ``(q - 128) * scale`` for 256 values of ``q``, so nothing is lost.

    Returns:
        How many values and constants were converted.

    Raises:
        UnsupportedModelError: A zero point is not constant, or is neither 0 of int8 nor 128 of
            uint8, so no symmetric int8 stands for the same numbers (SGK235).
    """
    points = {id(node): _zero_point(node, draft) for node in draft.nodes if _is_pair(node)}
    unsigned = [
        node for node in draft.nodes if id(node) in points and points[id(node)].dtype == np.uint8
    ]
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in draft.nodes:
        for value in node.input:
            readers.setdefault(value, []).append(node)
    moved: dict[str, str] = {}
    made = {node.output[0] for node in unsigned if node.op_type == "QuantizeLinear"}
    for node in unsigned:
        value = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
        if value not in made and (value not in draft.constants or value in draft.pinned):
            raise _refused(node, f"{value!r} is uint8 and no QuantizeLinear makes it")
        _check_readers(node, value, readers, draft)
        _convert(node, points[id(node)], draft, moved)
    return len(unsigned)


def _is_pair(node: onnx.NodeProto) -> bool:
    return not node.domain and node.op_type in {"QuantizeLinear", "DequantizeLinear"}


def _zero_point(node: onnx.NodeProto, draft: Draft) -> _Array:
    if not "".join(node.input[2:]):
        value = node.input[0] if node.op_type == "DequantizeLinear" else node.output[0]
        type_: Any = draft.types.get(value)
        dtype = DataType.UINT8 if type_ is None else type_.dtype
        zero: _Array = np.zeros((), dtype.numpy)
    elif node.input[2] not in draft.constants:
        raise _refused(node, f"its zero point {node.input[2]!r} is computed")
    else:
        zero = draft.array(node.input[2])
    middle = _MIDDLE if zero.dtype == np.uint8 else 0
    if np.any(zero.astype(np.float64) != middle):
        shown = sorted({int(one) for one in zero.reshape(-1)})[:3]
        raise _refused(node, f"its zero point is {shown} of {zero.dtype}, expected {middle}")
    return zero


def _check_readers(
    node: onnx.NodeProto, value: str, readers: dict[str, list[onnx.NodeProto]], draft: Draft
) -> None:
    others = [one for one in readers.get(value, ()) if not _is_pair(one)]
    if others or value in draft.pinned:
        by = label_of(others[0]) if others else "an output or a body"
        raise _refused(node, f"{value!r} is uint8 and read by {by} as well")


def _convert(node: onnx.NodeProto, zero: _Array, draft: Draft, moved: dict[str, str]) -> None:
    point = draft.store(f"{label_of(node)}_zero_point", np.zeros(zero.shape, np.int8), "")
    node.input[2] = point
    if node.op_type == "QuantizeLinear":
        draft.retype(node.output[0], DataType.INT8, node.output[0])
        for one in [a for a in node.attribute if a.name == "output_dtype"]:
            node.attribute.remove(one)
        return
    value = node.input[0]
    if value in draft.constants:
        if value not in moved:
            array = (draft.array(value).astype(np.int16) - _MIDDLE).astype(np.int8)
            moved[value] = draft.store(f"{value}_int8", array, value)
        node.input[0] = moved[value]


def _refused(node: onnx.NodeProto, why: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        "SGK235",
        f"{node.op_type} {label_of(node)!r} cannot be made symmetric: {why}",
        hint="Quantize the model anew with symmetric int8, or start from the float32 model.",
    )
