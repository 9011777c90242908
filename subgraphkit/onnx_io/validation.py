"""Checks that a model keeps the rules of ONNX, made before anything is built from it.

onnx's own loader does not validate. Its checker accepts operator sets from the future, on which
runtimes fail in the middle. Acyclicity and single assignment are checked where the graph is indexed
(``subgraphkit.ir.build_graph``).
"""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import onnx
from onnx import AttributeProto, defs

from subgraphkit.errors import InvalidModelError, UnsupportedModelError
from subgraphkit.onnx_io.attribute_rules import body_protos, show_value
from subgraphkit.onnx_io.external_data import DataFolders
from subgraphkit.onnx_io.microsoft_rules import MICROSOFT
from subgraphkit.onnx_io.node_checks import NodeCheck, label_of
from subgraphkit.onnx_io.protos import normal_domain, read_type
from subgraphkit.onnx_io.weights import check_sparse, check_tensor

MAX_DEPTH: Final = 31
"""Bodies may be nested this deep; no deeper ones can be read from a file, by anybody."""

_OF_WHOLE: Final = frozenset({"metadata_props", "opset_import"})
# Domains that only ONNX gives operators to, with any schemas registered.
_OF_ONNX: Final = frozenset(
    {"", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training"}
)


def require_text(model: onnx.ModelProto, *, everywhere: bool) -> None:
    """Refuse text that is not UTF-8, as protobuf does not (InvalidModelError, SGK214)."""
    pending: list[tuple[str, Any]] = [("the model", model), ("the graph", model.graph)]
    while pending:
        where, message = pending.pop()
        for field, value in message.ListFields():
            values = value if hasattr(value, "extend") else [value]
            if field.type == field.TYPE_STRING:
                raw = next((one for one in values if isinstance(one, bytes)), None)
                if raw is not None:
                    raise InvalidModelError(
                        "SGK214",
                        f"field {field.name!r} of {where} is {show_value(raw)}, which is not UTF-8",
                        hint="The model file is damaged or was written wrongly; export it again.",
                    )
            elif field.type == field.TYPE_MESSAGE and (everywhere or field.name in _OF_WHOLE):
                pending += [(f"one {field.message_type.name}", one) for one in values]


def opsets_of(model: onnx.ModelProto) -> dict[str, int]:
    """Return the imported version of each operator set, checked against this build of onnx."""
    if model.ir_version > onnx.IR_VERSION:
        raise UnsupportedModelError(
            "SGK206",
            f"the model has IR version {model.ir_version}; onnx {onnx.__version__} knows up to "
            f"{int(onnx.IR_VERSION)}",
            hint="Upgrade onnx, or export the model for an older version.",
        )
    known = defs.C.schema_version_map()
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = normal_domain(entry.domain)
        if opsets.setdefault(domain, entry.version) != entry.version:
            raise InvalidModelError(
                "SGK214",
                f"operator set {_text_of(domain)} is imported in versions {opsets[domain]} and "
                f"{entry.version}",
                hint="Import each operator set once.",
            )
        if domain in known and not 1 <= entry.version <= known[domain][1]:
            raise UnsupportedModelError(
                "SGK206",
                f"the model needs operator set {_text_of(domain)} version {entry.version}; onnx "
                f"{onnx.__version__} has versions 1 to {known[domain][1]}",
                hint="Upgrade onnx, or export the model for an older operator set.",
                have=known[domain][1],
                need=entry.version,
            )
    return opsets


def check_graph(
    graph: onnx.GraphProto,
    opsets: Mapping[str, int],
    folders: DataFolders | None,
    hold: Callable[[Mapping[str, int]], None],
) -> set[str]:
    """Check operators, tensors and nesting of a graph and all bodies in it; return its domains.

    ``hold``: Compares the demands of the graph with limits.
    """
    bodies = list(_walk(graph))
    deepest = max(depth for _, depth in bodies)
    if deepest > MAX_DEPTH:
        body = next(body for body, depth in bodies if depth == deepest)
        raise InvalidModelError(
            "SGK209",
            f"bodies are nested more than {MAX_DEPTH} deep, down to graph {body.name!r}",
            hint="Flatten the control flow; no runtime accepts such a model.",
        )
    checks: dict[tuple[str, str], NodeCheck] = {}
    nodes = [node for body, _ in bodies for node in body.node]
    ranks = [len(tensor.dims) for body, _ in bodies for tensor in body.initializer]
    operands = [max(len(node.input), len(node.output)) for node in nodes]
    asks = {"nodes": len(nodes), "operands": max(operands, default=0), "depth": deepest}
    asks["rank"] = max(ranks, default=0)
    hold({f"max_{name}": one for name, one in asks.items()})
    for body, _ in bodies:
        _check_tensors(body, folders)
        for index, node in enumerate(body.node):
            key = (node.domain, node.op_type)
            if (check := checks.get(key)) is None:
                check = checks[key] = NodeCheck(_checked_schema(node, index, opsets), *key)
            check(node, index)
    return {domain for domain, _ in checks}


def _walk(graph: onnx.GraphProto) -> Iterator[tuple[onnx.GraphProto, int]]:
    """Yield the graph and every body below it with its depth, without recursion."""
    stack = [(graph, 0)]
    while stack:
        body, depth = stack.pop()
        yield body, depth
        if depth <= MAX_DEPTH:
            stack += [
                (inner, depth + 1)
                for node in body.node
                if node.attribute
                for inner in body_protos(node).values()
            ]


def _check_tensors(graph: onnx.GraphProto, folders: DataFolders | None) -> None:
    where = f"graph {graph.name!r}"
    for tensor in graph.initializer:
        check_tensor(tensor, folders, where)
    for sparse in graph.sparse_initializer:
        check_sparse(sparse, folders, where)
    stored = [tensor.name for tensor in graph.initializer]
    stored += [sparse.values.name for sparse in graph.sparse_initializer]
    inputs = [value.name for value in graph.input]
    _require_distinct("initializer", stored, where, "is given")
    _require_distinct("input", inputs, where, "is declared")
    if "" in [*stored, *inputs, *(value.name for value in graph.output)]:
        raise InvalidModelError(
            "SGK214",
            f"an input, output or initializer of {where} has no name",
            hint="No name means in ONNX that a value is left out.",
        )
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type in _WITH_TENSORS:
                _check_held(attribute, folders, f"node {node.name or node.op_type!r}")


def _require_distinct(what: str, names: Sequence[str], where: str, verb: str) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidModelError(
            "SGK204",
            f"{what} {twice!r} of {where} {verb} twice",
            hint="Every value of an ONNX graph is assigned once; rename one of the two.",
        )


_WITH_TENSORS: Final = frozenset(
    kind for name, kind in AttributeProto.AttributeType.items() if re.search("TENSOR|TYPE", name)
)


def _check_held(attribute: AttributeProto, folders: DataFolders | None, where: str) -> None:
    """Check the tensors and types that an attribute holds."""
    one, kind = attribute, attribute.type
    for tensor in (*[one.t] * (kind == one.TENSOR), *one.tensors):
        check_tensor(tensor, folders, where)
    for sparse in (*[one.sparse_tensor] * (kind == one.SPARSE_TENSOR), *one.sparse_tensors):
        check_sparse(sparse, folders, where)
    for type_ in (*[one.tp] * (kind == one.TYPE_PROTO), *one.type_protos):
        read_type(type_)


def _checked_schema(
    node: onnx.NodeProto, index: int, opsets: Mapping[str, int]
) -> defs.OpSchema | None:
    """Return the schema of an operator; None of one that is somebody's own."""
    domain = normal_domain(node.domain)
    if domain not in opsets:
        raise InvalidModelError(
            "SGK207",
            f"{label_of(node, index)} is of operator set {_text_of(domain)}, which the model does "
            f"not import (it imports {', '.join(_text_of(d) for d in opsets) or 'none'})",
            hint="Add the operator set to the model's opset_import.",
            domain=domain,
        )
    is_own = domain not in _OF_ONNX or (domain, node.op_type) in MICROSOFT
    if is_own and not defs.has(node.op_type, opsets[domain], domain):
        return None  # a backend may claim it
    try:
        return defs.get_schema(node.op_type, opsets[domain], domain)
    except defs.SchemaError as error:
        raise _unknown_operator(node, label_of(node, index), opsets[domain]) from error


def _unknown_operator(node: onnx.NodeProto, label: str, version: int) -> InvalidModelError:
    domain = normal_domain(node.domain)
    if versions := _operators(domain).get(node.op_type):
        what = f"exists from version {min(versions)} on; the model imports version {version}"
        hint = "Import a newer operator set, or export the model again."
    else:
        what = "does not exist"
        close = difflib.get_close_matches(node.op_type, _operators(domain), 1)
        hint = f"Did you mean {close[0]!r}?" if close else "Operators of your own need a domain."
    return InvalidModelError(
        "SGK207",
        f"{label}: operator {node.op_type!r} of operator set {_text_of(domain)} {what}",
        hint=hint,
        domain=domain,
        op_type=node.op_type,
    )


@lru_cache(maxsize=8)
def _operators(domain: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == domain:
            found.setdefault(schema.name, []).append(schema.since_version)
    return found


def _text_of(domain: str) -> str:
    return repr(domain or "ai.onnx")
