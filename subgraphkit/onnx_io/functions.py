"""Model-local functions: checked for recursion and size, then inlined."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import onnx
from onnx import defs, inliner

from subgraphkit.errors import InvalidModelError
from subgraphkit.limits import LoadLimits
from subgraphkit.onnx_io.attributes import body_protos
from subgraphkit.onnx_io.protos import normal_domain
from subgraphkit.onnx_io.sources import LimitsOf

__all__ = ["inline_functions"]

_NODE_BYTES: Final = 1024
"""What inlining repeats counts as a node for each this many bytes, such as those of a constant."""

_Key = tuple[str, str, str]
_Nodes = Sequence[onnx.NodeProto]


def inline_functions(model: onnx.ModelProto, limits: LimitsOf = LoadLimits) -> onnx.ModelProto:
    """Return the model with every call of a model-local function replaced by the function's body.

    The given model is returned as it is if it has no functions, and is never changed.

    Args:
        model: The model.
        limits: Returns what a model may grow to.

    Raises:
        InvalidModelError: Functions that call each other in a circle, or that onnx cannot inline
            (SGK212).
        UnsupportedModelError: Calls multiply beyond the limit (SGK216).
    """
    if not model.functions:
        return model
    functions = {_key(f.domain, f.name, f.overload): f for f in model.functions}
    _require_bounded(model, functions, limits)
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


def _require_bounded(
    model: onnx.ModelProto, functions: Mapping[_Key, onnx.FunctionProto], limits: LimitsOf
) -> None:
    """Count what inlining would make, by who calls whom, before anything is inlined."""
    nodes, size = _inlined_size(model.graph.node, _inlined_sizes(functions))
    stored = sum(node.ByteSize() for one in functions.values() for node in one.node)
    repeated = max(0, size - 2 * stored)
    limits().require("max_inlined_nodes", nodes + repeated // _NODE_BYTES)


def _inlined_sizes(functions: Mapping[_Key, onnx.FunctionProto]) -> dict[_Key, tuple[int, int]]:
    """Return the nodes each function has once inlined, and their bytes.

    Callees come before callers.

    Raises:
        InvalidModelError: A function calls itself, by way of others or at once (SGK212).
    """
    sizes: dict[_Key, tuple[int, int]] = {}
    for root in functions:
        path: dict[_Key, Iterator[_Key]] = {}
        entered: _Key | None = None if root in sizes else root
        while entered is not None or path:
            if entered is not None:
                path[entered] = iter(dict.fromkeys(_calls(functions[entered].node, functions)))
            key = next(reversed(path))
            entered = next((one for one in path[key] if one not in sizes), None)
            if entered is None:
                del path[key]
                own = functions[key].node
                count, size = _inlined_size(own, sizes)
                sizes[key] = count, size + sum(node.ByteSize() for node in own)
            elif entered in path:
                names = [name for _, name, _ in path]
                circle = [*names[[*path].index(entered) :], entered[1]]
                raise InvalidModelError(
                    "SGK212",
                    "model-local functions call each other in a circle: " + " -> ".join(circle),
                    hint="ONNX functions must not be recursive; repetition needs Loop or Scan.",
                )
    return sizes


def _inlined_size(nodes: _Nodes, sizes: Mapping[_Key, tuple[int, int]]) -> tuple[int, int]:
    """Return how many nodes there are once inlined, and the bytes of those that take the place."""
    called = [sizes[key] for key in _calls(nodes, sizes)]
    return len(nodes) + sum(count for count, _ in called), sum(size for _, size in called)
