"""The types that an operator's schema takes, spelt for the inputs and outputs a node has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import defs

from subgraphkit.onnx_io.protos import normal_domain
from subgraphkit.rewriting.draft import Draft
from subgraphkit.rewriting.folding import attribute

__all__ = ["Formals", "formals_of"]


@dataclass(frozen=True, slots=True)
class Formals:
    """The types a node's operator takes.

    Attributes:
        inputs: A type or the name of a type variable, per input.
        outputs: The same per output.
        allowed: The types of each type variable.
        version: Version of the operator set that defined the operator so.
    """

    inputs: list[str]
    outputs: list[str]
    allowed: dict[str, list[str]]
    version: int


def formals_of(node: onnx.NodeProto, draft: Draft) -> Formals | None:
    """Return the formal types of a node; None if ONNX does not define its operator."""
    domain, opset = normal_domain(node.domain), draft.opset(node.domain)
    if not opset or not defs.has(node.op_type, opset, domain):
        return None
    schema = defs.get_schema(node.op_type, opset, domain)
    outputs = _stretched(schema.outputs, len(node.output))
    if node.op_type == "DequantizeLinear" and not attribute(node, "output_dtype", 0):
        outputs = [schema.inputs[1].type_str]  # later versions give it a variable of its own
    return Formals(
        _stretched(schema.inputs, len(node.input)),
        outputs,
        {one.type_param_str: list(one.allowed_type_strs) for one in schema.type_constraints},
        schema.since_version,
    )


def _stretched(formals: Sequence[Any], count: int) -> list[str]:
    """Return one type per actual value; the last formal may stand for many."""
    return [formals[min(i, len(formals) - 1)].type_str for i in range(count)] if formals else []
