"""Element types that a node may have: those of the specification, less those nothing computes.

A type is taken if any version of the operator takes it, not only the version of the model. Models
of older operator sets do use types that only a later version allows, and the same code computes
them. A type that no version takes has no meaning for the operator, even if NumPy would compute
something.

Source: type constraints of the operator schemas of ONNX.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from onnx import defs

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit.types import DataType, TensorType
from subgraphkit_numpy.kernels.microsoft import is_foreign, schema_of
from subgraphkit_numpy.kernels.reference import qualified_name

Elements = tuple[int, ...]
"""Element types as numbers of ``DataType``; 0 where there is none or it is not known."""

_Allowed = frozenset[DataType]
_STRING: Final = frozenset({DataType.STRING})
_FLOAT8: Final = frozenset(one for one in DataType if one.name.startswith(("FLOAT8E4", "FLOAT8E5")))
_NOT_COMPUTED: Final[Mapping[tuple[str, str], Mapping[int, _Allowed]]] = {
    ("", "Col2Im"): {0: _STRING},
    ("", "GridSample"): {0: _STRING},
    ("", "QLinearMatMul"): {7: _FLOAT8},
    ("", "Resize"): {0: _STRING | {DataType.BOOL}},
    ("", "Upsample"): {0: _STRING},
}
"""By operator and input: what the specification allows and nothing here computes."""

NUMBERS_ONLY: Final = frozenset({"ScatterElements", "ScatterND"})
"""Operators whose attribute ``reduction`` may ask for arithmetic."""

_NAMES: Final = {dtype.onnx_name: dtype for dtype in DataType if dtype}
_DENSE: Final = "tensor("


def elements_of(node: Node) -> tuple[Elements, Elements]:
    """Return the element types of the inputs and of the outputs of a node, as numbers."""
    find = node.graph.types.get
    # integers, because members of an enumeration are hashed by Python code
    return (
        tuple([int(t.dtype) if type(t) is TensorType else 0 for t in map(find, node.inputs)]),
        tuple([int(t.dtype) if type(t) is TensorType else 0 for t in map(find, node.outputs)]),
    )


def refused_reduction(node: Node) -> Refusal | None:
    """Return a refusal if a node multiplies or compares strings, else None; they may be joined."""
    reduction = node.attribute("reduction", "none")
    if reduction in {"add", "none"} or node.dtype() is not DataType.STRING:
        return None
    return _refusal(node.op_type, node.opset, f"string with reduction {reduction!r}")


def refused_type(
    domain: str, op_type: str, opset: int, inputs: Elements, outputs: Elements
) -> Refusal | None:
    """Return a refusal if nothing computes an operator of these element types, else None."""
    for place, refused in _NOT_COMPUTED.get((domain, op_type), {}).items():
        element = inputs[place] if place < len(inputs) else 0
        if element in refused:
            return _refusal(qualified_name(domain, op_type), opset, _list_names((element,)))
    for schema in _versions(domain, op_type, opset):
        if _fits(schema, inputs, outputs):
            return None
    given = inputs if any(inputs) else outputs
    return _refusal(qualified_name(domain, op_type), opset, _list_names(given))


def _list_names(elements: Elements) -> str:
    return " and ".join(dict.fromkeys([DataType(element).label for element in elements if element]))


def _refusal(label: str, opset: int, what: str) -> Refusal:
    return Refusal("dtype", f"{label} of {what}: nothing implements it (opset {opset})")


@lru_cache(maxsize=1024)
def _versions(domain: str, op_type: str, opset: int) -> tuple[Any, ...]:
    """Return the schemas of an operator, that of the opset first."""
    if is_foreign(domain, op_type):
        return (schema_of(op_type),)
    found = [defs.get_schema(op_type, opset, domain), defs.get_schema(op_type, domain)]
    while defs.has(op_type, before := found[-1].since_version - 1, domain):
        found.append(defs.get_schema(op_type, before, domain))
    return tuple([one for at, one in enumerate(found) if not at or not one.deprecated])


def _fits(schema: Any, inputs: Elements, outputs: Elements) -> bool:
    """Say whether the types are among those of a schema, equal where it has them equal."""
    bound: dict[str, int] = {}
    return _takes(schema.inputs, inputs, bound) and _takes(schema.outputs, outputs, bound)


def _takes(formals: Any, elements: Elements, bound: dict[str, int]) -> bool:
    for place, element in enumerate(elements):
        if not element:
            continue
        formal = _formal(formals, place)
        if formal is None or element not in _dense_elements(frozenset(formal.types)):
            return False
        # a variadic parameter may let every value have a type of its own
        if formal.is_homogeneous and bound.setdefault(formal.type_str, element) != element:
            return False
    return True


def _formal(formals: Any, place: int) -> Any:
    if place < len(formals):
        return formals[place]
    last = formals[-1] if formals else None
    return last if last is not None and last.option.name == "Variadic" else None


@lru_cache(maxsize=1024)
def _dense_elements(type_names: frozenset[str]) -> _Allowed:
    """Return the element types of the dense tensors among type strings, also of optional ones."""
    plain = [name.removeprefix("optional(").rstrip(")") for name in type_names]
    return frozenset(_NAMES[name.removeprefix(_DENSE)] for name in plain if name.startswith(_DENSE))
