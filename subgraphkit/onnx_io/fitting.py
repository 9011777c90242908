"""The check of attributes and constant axes beside the shapes that nodes read.

Source: ONNX operator schemas, all versions.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from onnx import defs

from subgraphkit.ir import Graph, Node
from subgraphkit.onnx_io.attribute_fits import (
    OF_SHAPES,
    Fit,
    Given,
    fit_of,
    fit_of_input,
    leave,
)
from subgraphkit.onnx_io.attribute_rules import not_allowed, shown
from subgraphkit.types import DataType, ValueType

_WHOLE: Final = frozenset({DataType.INT32, DataType.INT64})
_MOST_READ: Final = 4096
"""Elements of a constant that is read to be judged."""


class _Judges(NamedTuple):
    """What judges an operator.

    Attributes:
        inputs: Place and name of an input, and what judges it.
    """

    attributes: Mapping[str, Fit]
    inputs: Collection[tuple[int, str, Fit]]


@lru_cache(maxsize=4096)
def _judges_of(op_type: str, domain: str, version: int, *, is_typed: bool) -> _Judges | None:
    """Return what judges an operator; None if nothing does."""
    if (domain, op_type) == ("com.microsoft", "FusedConv"):
        op_type, domain, version = "Conv", "", 11
    if domain or not defs.has(op_type, version, domain):
        return None
    schema = defs.get_schema(op_type, version, domain)
    names: Iterable[str] = schema.attributes
    found = {name: fit_of(op_type, name, is_typed=is_typed) for name in names}
    attributes = {name: fit for name, fit in found.items() if fit is not leave}
    read = [(place, one.name) for place, one in enumerate(schema.inputs)]
    judged = [(place, name, fit_of_input(op_type, name)) for place, name in read]
    inputs = [one for one in judged if one[2] is not leave]
    return _Judges(attributes, inputs) if attributes or inputs else None


def require_fitting(
    graph: Graph,
    types: Mapping[str, ValueType],
    bodies: Mapping[int, Mapping[str, Graph]],
    nodes: Collection[int],
    *,
    are_typed: bool = False,
) -> None:
    """Check attributes and constant axes of nodes, and in bodies, beside the shapes they read.

    Raises:
        InvalidModelError: An attribute or an input is not what the operator allows (SGK218).
    """
    table, opsets = graph.table, graph.opset_imports
    op_types, domains, attributes = table.op_types, table.domains, table.attributes
    judged = {
        key: found
        for key in set(zip(op_types, domains, strict=True))
        if (found := _judges_of(*key, opsets.get(key[1], 1), is_typed=are_typed))
    }
    names = {op_type for op_type, _ in judged}
    for node in [node for node in nodes if op_types[node] in names]:
        judges = judged.get((op_types[node], domains[node]))
        if judges is not None and (judges.inputs or attributes[node]):
            _require_of_node(graph, node, types, attributes[node], judges)
    for node, held in {**table.bodies, **bodies}.items():
        for body in held.values() if len(nodes) > 1 or node in nodes else ():
            scope = {**types, **body.types}
            require_fitting(body, scope, body.table.bodies, body.order)


def _require_of_node(
    graph: Graph,
    node: int,
    types: Mapping[str, ValueType],
    stated: Mapping[str, Any],
    judges: _Judges,
) -> None:
    read = graph.table.inputs[node]
    asked = [
        ("attribute", name, stated[name], fit)
        for name in stated
        if (fit := judges.attributes.get(name)) is not None
    ]
    for place, name, fit in judges.inputs:
        value = _constant(graph, read[place]) if place < len(read) else None
        if value is not None or fit in OF_SHAPES.values():
            asked.append(("input", name, value, fit))
    if not asked:
        return
    given = Given([getattr(types.get(one), "shape", None) for one in read], stated)
    for kind, name, value, fit in asked:
        if allowed := fit(value, given):
            found = shown(value) if value is not None else f"of shape {list(given.shape(1))}"
            raise not_allowed(f"node {Node(graph, node).label}", name, found, allowed, kind)


def _constant(graph: Graph, name: str) -> Any:
    """Return the whole numbers of a small constant, one alone as it is; None if it is none."""
    stored = graph.constants.get(name)
    if stored is None or stored.type.dtype not in _WHOLE:
        return None
    if not 0 < (stored.type.element_count or 0) <= _MOST_READ:
        return None
    values = stored.array()
    return tuple(values.reshape(-1).tolist()) if values.ndim else values.item()
