"""Model-local functions: checked for recursion and size, then inlined."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import onnx
from onnx import defs, inliner

from subgraphkit.errors import InvalidModelError
from subgraphkit.onnx_io.attributes import body_protos
from subgraphkit.onnx_io.protos import normal_domain

__all__ = ["MAX_INLINED_NODES", "inline_functions"]

MAX_INLINED_NODES: Final = 10_000_000
"""A model that grows beyond this many nodes when inlined is refused."""

_Key = tuple[str, str, str]
_Nodes = Sequence[onnx.NodeProto]


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with every call of a model-local function replaced by the function's body.

    The given model is returned as it is if it has no functions, and is never changed.

    Raises:
        InvalidModelError: Functions that call each other in a circle, whose calls multiply beyond
            ``MAX_INLINED_NODES``, or that onnx cannot inline (SGK212).
    """
    if not model.functions:
        return model
    functions = {_key(f.domain, f.name, f.overload): f for f in model.functions}
    sizes = _inlined_sizes(functions)
    total = _inlined_size(model.graph.node, sizes)
    if total > MAX_INLINED_NODES:
        raise InvalidModelError(
            "SGK212",
            f"inlining the model's functions would make {total} nodes; the limit is "
            f"{MAX_INLINED_NODES}",
            hint="The functions call each other too often; a model from an exporter never does.",
        )
    try:
        inlined = inliner.inline_local_functions(_raised(model), convert_version=True)
    except Exception as error:
        raise InvalidModelError(
            "SGK212", f"the model's functions cannot be inlined: {error}"
        ) from error
    _import_operator_sets(model, inlined)
    return inlined


def _raised(model: onnx.ModelProto) -> onnx.ModelProto:
    """Let functions import the model's operator sets where that changes no operator in them.

    onnx's converter refuses nodes of unknown type, so it is left only the work that there is.
    """
    wanted = {normal_domain(entry.domain): entry.version for entry in model.opset_import}
    raised = [
        (place, number, target)
        for place, function in enumerate(model.functions)
        for number, entry in enumerate(function.opset_import)
        if (target := wanted.get(normal_domain(entry.domain), entry.version)) != entry.version
        and all(
            _is_the_same(name, normal_domain(entry.domain), entry.version, target)
            for name in _operators(function.node, normal_domain(entry.domain))
        )
    ]
    if not raised:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for place, number, target in raised:
        copy.functions[place].opset_import[number].version = target
    return copy


def _operators(nodes: _Nodes, domain: str) -> set[str]:
    """Return the operators of a domain among nodes and the bodies in them."""
    found: set[str] = set()
    stack: list[_Nodes] = [nodes]
    while stack:
        for node in stack.pop():
            if normal_domain(node.domain) == domain:
                found.add(node.op_type)
            stack += [body.node for body in body_protos(node).values()]
    return found


def _is_the_same(name: str, domain: str, version: int, target: int) -> bool:
    """Say whether two versions of an operator differ at most in the types they take."""
    try:
        forms = [_form(defs.get_schema(name, one, domain)) for one in (version, target)]
    except defs.SchemaError:
        return True  # not an operator of onnx, which has nothing to convert then
    return forms[0] == forms[1]


def _form(schema: defs.OpSchema) -> tuple[Any, ...]:
    formals = [(formal.name, formal.option) for formal in (*schema.inputs, *schema.outputs)]
    attributes = {
        name: (one.type, one.required, one.default_value.SerializeToString())
        for name, one in schema.attributes.items()
    }
    return formals, attributes


def _import_operator_sets(model: onnx.ModelProto, inlined: onnx.ModelProto) -> None:
    """Import what the functions import and the model does not; onnx's inliner leaves it out."""
    known = {normal_domain(entry.domain) for entry in inlined.opset_import}
    needed = {(normal_domain(e.domain), e.version) for f in model.functions for e in f.opset_import}
    for domain, version in sorted(needed):
        if domain not in known:
            inlined.opset_import.add(domain=domain, version=version)


def _key(domain: str, name: str, overload: str) -> _Key:
    return normal_domain(domain), name, overload


def _calls(nodes: _Nodes, known: Mapping[_Key, object]) -> list[_Key]:
    """Return the functions called by nodes and by the bodies in them, with repetition."""
    found: list[_Key] = []
    stack: list[_Nodes] = [nodes]
    while stack:
        for node in stack.pop():
            key = _key(node.domain, node.op_type, node.overload)
            if key in known:
                found.append(key)
            stack += [body.node for body in body_protos(node).values()]
    return found


def _inlined_sizes(functions: dict[_Key, onnx.FunctionProto]) -> dict[_Key, int]:
    """Return the nodes each function has once inlined; callees before callers, no recursion."""
    callees = {key: _calls(function.node, functions) for key, function in functions.items()}
    sizes: dict[_Key, int] = {}
    for root in functions:
        path: list[_Key] = [root]
        while path:
            key = path[-1]
            pending = next((c for c in callees[key] if c not in sizes), None)
            if pending is None:
                path.pop()
                sizes[key] = len(functions[key].node) + sum(sizes[c] for c in callees[key])
            elif pending in path:
                circle = [*path[path.index(pending) :], pending]
                raise InvalidModelError(
                    "SGK212",
                    "model-local functions call each other in a circle: "
                    + " -> ".join(name for _, name, _ in circle),
                    hint="ONNX functions must not be recursive; repetition needs Loop or Scan.",
                )
            else:
                path.append(pending)
    return sizes


def _inlined_size(nodes: _Nodes, sizes: Mapping[_Key, int]) -> int:
    return len(nodes) + sum(sizes[key] for key in _calls(nodes, sizes))
