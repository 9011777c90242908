"""Newer operator sets, where an operator takes the type only there."""

from typing import Final

import onnx
from onnx import defs, helper, version_converter

from subgraphkit.onnx_io.inference import infer
from subgraphkit.onnx_io.model import load
from subgraphkit.onnx_io.protos import normal_domain
from subgraphkit.rewriting.requests import Precision
from subgraphkit.types import DataType

__all__ = ["opset_wanted", "raised"]

_PER_CHANNEL: Final = 13
"""First version whose QuantizeLinear takes a scale per channel."""

_SHORT_SCALES: Final = 19
"""First version whose QuantizeLinear takes scales of short floats."""

_BFLOAT16: Final = 22
"""First version whose Conv and poolings take bfloat16."""

_QUANTIZING: Final = {"QuantizeLinear", "DequantizeLinear"}


def opset_wanted(model: onnx.ModelProto, precision: Precision) -> int:
    """Return the version of the operator set that a precision asks for, or 0 if any will do."""
    low, opset = precision.low, _opset(model)
    operators = {node.op_type for node in model.graph.node if not normal_domain(node.domain)}
    wanted = _PER_CHANNEL if precision.kind == "int8" else 0
    if low is not None and (precision.kind == "int8" or operators & _QUANTIZING):
        wanted = _SHORT_SCALES
    if low is DataType.BFLOAT16 and any(_gains(name, opset) for name in operators):
        wanted = _BFLOAT16
    return wanted if wanted > opset else 0


def raised(skeleton: onnx.ModelProto, version: int) -> tuple[onnx.ModelProto, str]:
    """Convert a model to a newer version of the operator set.

    Args:
        skeleton: The model, its large weights being inputs, since the converter is slow on weights.
        version: The version wanted.

    Returns:
        The model and an empty string; or the model as it was, and why it could not be converted.
    """
    try:
        converted = version_converter.convert_version(skeleton, version)
    except Exception as error:  # noqa: BLE001 (onnx raises whatever its C++ throws; it is told)
        return skeleton, " ".join(str(error).split())
    converted.ir_version = max(
        converted.ir_version,
        helper.find_min_ir_version_for(converted.opset_import, ignore_unknown=True),
    )
    try:
        infer(load(converted), {}, {})
    except Exception as error:  # noqa: BLE001 (what the converter made is not valid; it is told)
        return skeleton, " ".join(str(error).split())
    if _edge(converted) != _edge(skeleton):
        return skeleton, "the converter changed inputs or outputs"
    return converted, ""


def _opset(model: onnx.ModelProto) -> int:
    return next((e.version for e in model.opset_import if not normal_domain(e.domain)), 0)


def _gains(operator: str, opset: int) -> bool:
    """Say whether an operator takes bfloat16 in the newer version only."""
    return _takes(operator, _BFLOAT16) and not _takes(operator, opset)


def _takes(operator: str, opset: int) -> bool:
    if not defs.has(operator, opset):
        return False
    constraints = defs.get_schema(operator, opset).type_constraints
    return any("tensor(bfloat16)" in one.allowed_type_strs for one in constraints)


def _edge(model: onnx.ModelProto) -> list[tuple[str, int]]:
    values = (*model.graph.input, *model.graph.output)
    return [(value.name, value.type.tensor_type.elem_type) for value in values]
