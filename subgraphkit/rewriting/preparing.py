"""Preparation of a model: a newer operator set, symmetric quantisation, folded normalisations.

An operator may take the type only in a newer operator set. Quantisation that a model came with
passes through, and is made symmetric if that changes nothing. A BatchNormalization is folded into
the convolution before it, so that one int8 weight holds both.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import defs, helper, version_converter

from subgraphkit.errors import UnsupportedModelError
from subgraphkit.onnx_io.inference import infer
from subgraphkit.onnx_io.model import load
from subgraphkit.onnx_io.protos import normal_domain
from subgraphkit.rewriting.draft import Draft, attribute, label_of
from subgraphkit.rewriting.records import Precision
from subgraphkit.types import DataType

_MIDDLE: Final = 128
_Array = npt.NDArray[Any]


def is_quantized(draft: Draft) -> bool:
    """Say whether the model has QuantizeLinear or DequantizeLinear."""
    return any(_is_pair(node) for node in draft.nodes)


def make_symmetric(draft: Draft) -> int:
    """Let every uint8 with the zero point 128 be the int8 with the zero point 0 that it equals.

    Both hold ``(q - 128) * scale`` for 256 values of ``q``, so nothing is lost. Any other zero
    point, or one that is computed, is an UnsupportedModelError (SGK235).
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
    quantized = {node.output[0] for node in unsigned if node.op_type == "QuantizeLinear"}
    for node in unsigned:
        value = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
        if value not in quantized and (value not in draft.constants or value in draft.pinned):
            raise _not_symmetric(node, f"{value!r} is uint8 and no QuantizeLinear makes it")
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
        raise _not_symmetric(node, f"its zero point {node.input[2]!r} is computed")
    else:
        zero = draft.array(node.input[2])
    middle = _MIDDLE if zero.dtype == np.uint8 else 0
    if np.any(zero.astype(np.float64) != middle):
        shown = sorted({int(one) for one in zero.reshape(-1)})[:3]
        raise _not_symmetric(node, f"its zero point is {shown} of {zero.dtype}, expected {middle}")
    return zero


def _check_readers(
    node: onnx.NodeProto, value: str, readers: dict[str, list[onnx.NodeProto]], draft: Draft
) -> None:
    others = [one for one in readers.get(value, ()) if not _is_pair(one)]
    if others or value in draft.pinned:
        by = label_of(others[0]) if others else "an output or a body"
        raise _not_symmetric(node, f"{value!r} is uint8 and read by {by} as well")


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


def _not_symmetric(node: onnx.NodeProto, why: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        "SGK235",
        f"{node.op_type} {label_of(node)!r} cannot be made symmetric: {why}",
        hint="Quantize the model anew with symmetric int8, or start from the float32 model.",
    )


_EPSILON: Final = 1e-5
_ALWAYS_SPATIAL: Final = 9  # one mean per channel; before, an attribute could say otherwise


def fold_normalisations(draft: Draft) -> int:
    """Fold in place every BatchNormalization that follows a Conv or ConvTranspose alone.

    Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference", 2018, section 3.2.
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


def _is_plain(node: onnx.NodeProto, draft: Draft) -> bool:
    fixed = all(name in draft.constants and name not in draft.pinned for name in node.input[1:5])
    is_alone = not any(node.output[1:]) and not attribute(node, "training_mode", 0)
    return fixed and is_alone and draft.opset() >= _ALWAYS_SPATIAL


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


# First version whose QuantizeLinear takes a scale per channel.
_PER_CHANNEL: Final = 13

# First version whose QuantizeLinear takes scales of short floats.
_SHORT_SCALES: Final = 19

# First version whose Conv and poolings take bfloat16.
_BFLOAT16: Final = 22

_QUANTIZING: Final = {"QuantizeLinear", "DequantizeLinear"}


def quantizing_opset(precision: Precision) -> int:
    """Return the first operator set that can state a quantisation with a scale per channel."""
    return {"int8": _PER_CHANNEL, "fp8": _SHORT_SCALES}.get(precision.kind, 0)


def opset_wanted(model: onnx.ModelProto, precision: Precision) -> int:
    """Return the version of the operator set that a precision asks for, or 0 if any will do."""
    low, own = precision.low, (e for e in model.opset_import if not normal_domain(e.domain))
    opset = next((one.version for one in own), 0)
    operators = {node.op_type for node in model.graph.node if not normal_domain(node.domain)}
    wanted = quantizing_opset(precision)
    if low is not None and (wanted or operators & _QUANTIZING):
        wanted = _SHORT_SCALES
    newer = (one for one in operators if _takes(one, _BFLOAT16) and not _takes(one, opset))
    if low is DataType.BFLOAT16 and any(newer):
        wanted = _BFLOAT16
    return wanted if wanted > opset else 0


def convert_opset(skeleton: onnx.ModelProto, version: int) -> tuple[onnx.ModelProto, str]:
    """Convert a model to a newer version of the operator set.

    ``skeleton``: The model, its large weights being inputs, since the converter is slow on weights.
    """
    try:
        converted = version_converter.convert_version(skeleton, version)
    except Exception as error:  # noqa: BLE001 (onnx raises all that its C++ throws; it is told)
        return skeleton, " ".join(str(error).split())
    converted.ir_version = max(
        converted.ir_version,
        helper.find_min_ir_version_for(converted.opset_import, ignore_unknown=True),
    )
    try:
        infer(load(converted), {}, {})
    except Exception as error:  # noqa: BLE001 (the converter's result is not valid; it is told)
        return skeleton, " ".join(str(error).split())
    if _edge(converted) != _edge(skeleton):
        return skeleton, "the converter changed inputs or outputs"
    return converted, ""


def _takes(operator: str, opset: int) -> bool:
    if not defs.has(operator, opset):
        return False
    constraints = defs.get_schema(operator, opset).type_constraints
    return any("tensor(bfloat16)" in one.allowed_type_strs for one in constraints)


def _edge(model: onnx.ModelProto) -> list[tuple[str, int]]:
    values = (*model.graph.input, *model.graph.output)
    return [(value.name, value.type.tensor_type.elem_type) for value in values]
