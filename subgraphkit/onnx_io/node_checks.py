"""Checks of single nodes: the inputs, outputs and attributes that their operator has.

They use onnx's schemas and the table of attributes, before onnx's inference or a library sees a
node.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final, NamedTuple

import onnx
from onnx import AttributeProto, defs

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Graph, Node
from subgraphkit.onnx_io.attribute_fits import OF_SHAPES, Fit, Given, fit_of, fit_of_input, leave
from subgraphkit.onnx_io.attribute_rules import Rule, not_allowed, rule_of, show_value
from subgraphkit.onnx_io.protos import normal_domain
from subgraphkit.types import DataType, ValueType

_AGAIN: Final = "The model file is damaged or was written wrongly; export it again."
# The beginning of attributes' names that onnx leaves to programs that pass models on.
_INTERNAL: Final = "__"

_SHORT: Final = {
    "FLOAT": "f", "GRAPH": "g", "INT": "i", "STRING": "s", "TENSOR": "t", "TYPE_PROTO": "tp",
}  # fmt: skip
# Where the value of an attribute of each type is.
_FIELDS: Final[Mapping[int, str]] = {
    number: _SHORT.get(name, name.lower())
    for name, number in AttributeProto.AttributeType.items()
    if number
}

# Attributes that count all outputs of a node, or some of its inputs.
_COUNTED: Final[Mapping[tuple[str, str], str]] = {
    ("Scan", "num_scan_inputs"): "input",
    ("Split", "num_outputs"): "output",
    ("Split", "split"): "output",
}

_SINGLE: Final = defs.OpSchema.FormalParameterOption.Single
_OPTIONAL: Final = defs.OpSchema.FormalParameterOption.Optional


def label_of(node: onnx.NodeProto, index: int) -> str:
    """Return how messages name a node by its place, such as ``node #3 Conv 'first'``."""
    return f"node #{index} {node.op_type}{f' {node.name!r}' if node.name else ''}"


class NodeCheck:
    """The checks of every node of one operator.

    ``schema``: onnx's schema of the operator; None if it has none.
    """

    def __init__(self, schema: defs.OpSchema | None, domain: str, op_type: str) -> None:
        self._schema = schema
        self._op_type = op_type
        domain = normal_domain(domain)
        self._is_standard = not domain
        self._is_constant = op_type == "Constant" and self._is_standard
        self._has_rules = domain in _WITH_RULES
        stated: Mapping[str, Any] = schema.attributes if schema is not None else {}
        known = stated.items()
        self._types = {name: one.type.name for name, one in known}
        self._required = {name for name, one in known if one.required}
        # Facts on attributes, by name and type: many nodes have the same.
        self._found: dict[tuple[str, int], tuple[str, Rule | None]] = {}

    def __call__(self, node: onnx.NodeProto, index: int) -> None:
        """Check a node.

        Raises:
            InvalidModelError: It has too many or too few inputs or outputs, or leaves out one it
                needs (SGK215). An attribute is twice there, or has no name or value (SGK214), or
                its operator forbids it (SGK218).
        """
        if node.attribute or self._required or self._is_constant:
            self._check_attributes(node, index)
        if self._schema is not None:
            self._check_counts(node, index, self._schema)
            if "" in node.input or "" in node.output:
                _check_presence(node, index, self._schema)

    def _check_attributes(self, node: onnx.NodeProto, index: int) -> None:
        names = set()
        for attribute in node.attribute:
            name, kind = attribute.name, attribute.type
            names.add(name)
            if (found := self._found.get((name, kind))) is None:
                found = self._found[name, kind] = self._find_out(attribute, node, index)
            field, rule = found
            value = getattr(attribute, field)
            if attribute.ref_attr_name or (not value and _is_elsewhere(attribute, field)):
                raise _node_error(node, index, f"has an attribute {name!r} without a value")
            if rule is not None:
                _check_value(value, rule, name, node, index)
                _check_count(value, name, node, index)
        if len(names) != len(node.attribute):
            raise _node_error(node, index, "has an attribute twice")
        if len(names) != 1 and self._is_constant:
            raise _node_error(node, index, f"states {len(names)} values, and is to state one")
        if not self._required <= names:
            missing = min(self._required - names)
            raise not_allowed(
                label_of(node, index), missing, "missing", "a value; it has no default"
            )

    def _check_counts(self, node: onnx.NodeProto, index: int, schema: defs.OpSchema) -> None:
        read, made = len(node.input), len(node.output)
        if not schema.min_input <= read <= schema.max_input:
            what, have, least, most = "input", read, schema.min_input, schema.max_input
        elif not schema.min_output <= made <= schema.max_output:
            what, have, least, most = "output", made, schema.min_output, schema.max_output
        else:
            return
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise InvalidModelError(
            "SGK215",
            f"{label_of(node, index)} has {have} {what}{'s'[have == 1 :]}; {node.op_type} of "
            f"version {schema.since_version} has {expected}",
            hint="The model is of another operator set than it imports, or was cut; "
            "export it again.",
        )

    def _find_out(
        self, attribute: AttributeProto, node: onnx.NodeProto, index: int
    ) -> tuple[str, Rule | None]:
        """Return the field of an attribute's value, and its rule."""
        name, kind = intern(attribute.name), attribute.type  # TypeError if it is no text
        if not name or kind not in _FIELDS:
            raise _node_error(node, index, f"has an attribute {name!r} without a name or a type")
        known = self._types
        if self._schema is not None and not name.startswith(_INTERNAL):
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                raise InvalidModelError(
                    "SGK218",
                    f"{label_of(node, index)}: {self._op_type} of version "
                    f"{self._schema.since_version} has no attribute {name!r}",
                    hint=f"Did you mean {close[0]!r}?" if close else _AGAIN,
                    attribute=name,
                )
            given = AttributeProto.AttributeType.Name(kind)
            if given != known[name]:
                label, expected = label_of(node, index), known[name]
                raise not_allowed(label, name, f"of type {given}", expected)
        if not self._has_rules:
            return _FIELDS[kind], None
        return _FIELDS[kind], rule_of(self._op_type, name, kind, is_standard=self._is_standard)


_WITH_RULES: Final = frozenset({"", "ai.onnx.ml", "com.microsoft"})


def _check_presence(node: onnx.NodeProto, index: int, schema: defs.OpSchema) -> None:
    """Check that nothing but optional parts is left out."""
    left_out = [("input", at, schema.inputs) for at, name in enumerate(node.input) if not name]
    left_out += [("output", at, schema.outputs) for at, name in enumerate(node.output) if not name]
    for what, place, formal in left_out:
        one = formal[min(place, len(formal) - 1)]
        # Of variadic outputs, some may have no name.
        if one.option == _SINGLE or (what == "input" and one.option != _OPTIONAL):
            raise InvalidModelError(
                "SGK215",
                f"{label_of(node, index)} leaves out {what} {place}, {one.name!r}, which is not "
                "optional",
                hint=_AGAIN,
            )


def _check_value(value: Any, rule: Rule, name: str, node: onnx.NodeProto, index: int) -> None:
    if rule.is_of_list or isinstance(value, int | float | bytes):
        holds = rule.holds(value)
    else:
        holds = all(map(rule.holds, value))
    if not holds:
        stated = value if isinstance(value, int | float | bytes) else tuple(value)
        raise not_allowed(label_of(node, index), name, show_value(stated), rule.text)


def _check_count(value: Any, name: str, node: onnx.NodeProto, index: int) -> None:
    """Check attributes that count inputs or outputs: onnx's inference relies on them."""
    names = _COUNTED.get((node.op_type, name), "")
    if not names:
        return
    stated, have = value if isinstance(value, int) else len(value), len(getattr(node, names))
    if stated != have if names == "output" else stated > have:
        told = show_value(value if isinstance(value, int) else tuple(value))
        raise not_allowed(label_of(node, index), name, told, f"what fits {have} {names}s")


def _is_elsewhere(attribute: AttributeProto, field: str) -> bool:
    """Say whether an attribute whose value is nothing states one of another type."""
    told = {"name", "type", "doc_string", "ref_attr_name", field}
    return any(one.name not in told for one, _ in attribute.ListFields())


def _node_error(node: onnx.NodeProto, index: int, what: str) -> InvalidModelError:
    return InvalidModelError("SGK214", f"{label_of(node, index)} {what}", hint=_AGAIN)


# -- beside the shapes that nodes read ------------------------------------------------------------

_WHOLE: Final = frozenset({DataType.INT32, DataType.INT64})
# Elements of a constant that is read to be judged.
_MOST_READ: Final = 4096


class _Judges(NamedTuple):
    """The judges of an operator.

    Attributes:
        inputs: Place and name of an input, and its judge.
    """

    attributes: Mapping[str, Fit]
    inputs: Collection[tuple[int, str, Fit]]


@lru_cache(maxsize=4096)
def _judges_of(op_type: str, domain: str, version: int, *, is_typed: bool) -> _Judges | None:
    """Return the judges of an operator; None if there are none."""
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
    """Refuse attributes and constant axes that do not fit the shapes, in bodies too (SGK218)."""
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
            _require_of_node(graph, node, types, judges)
    for node, held in {**table.bodies, **bodies}.items():
        for body in held.values() if len(nodes) > 1 or node in nodes else ():
            scope = {**types, **body.types}
            require_fitting(body, scope, body.table.bodies, body.order)


def _require_of_node(
    graph: Graph, node: int, types: Mapping[str, ValueType], judges: _Judges
) -> None:
    read, stated = graph.table.inputs[node], graph.table.attributes[node]
    asked = [
        ("attribute", name, stated[name], fit)
        for name in stated
        if (fit := judges.attributes.get(name)) is not None
    ]
    for place, name, fit in judges.inputs:
        value = _whole_numbers(graph, read[place]) if place < len(read) else None
        if value is not None or fit in OF_SHAPES.values():
            asked.append(("input", name, value, fit))
    if not asked:
        return
    given = Given([getattr(types.get(one), "shape", None) for one in read], stated)
    for kind, name, value, fit in asked:
        if allowed := fit(value, given):
            found = show_value(value) if value is not None else f"of shape {list(given.shape(1))}"
            raise not_allowed(f"node {Node(graph, node).label}", name, found, allowed, kind)


def _whole_numbers(graph: Graph, name: str) -> Any:
    """Return the whole numbers of a small constant, one alone as it is; None if it is none."""
    stored = graph.constants.get(name)
    if stored is None or stored.type.dtype not in _WHOLE:
        return None
    if not 0 < (stored.type.element_count or 0) <= _MOST_READ:
        return None
    values = stored.array()
    return tuple(values.reshape(-1).tolist()) if values.ndim else values.item()
