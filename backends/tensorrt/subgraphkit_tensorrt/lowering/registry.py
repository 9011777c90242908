"""The registry of converters that others registered."""

import hashlib
import importlib
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import onnx

from subgraphkit.ir import Node
from subgraphkit_tensorrt.option_rules import unusable


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of a node.

    Attributes:
        nodes: Nodes of operators that TensorRT has, in an order in which they can run. They read
            the node's inputs by name and make its outputs under their names.
    """

    nodes: Sequence[onnx.NodeProto]
    constants: Sequence[onnx.TensorProto] = ()


Fresh = Callable[[str], str]
"""Makes a name that the model does not have yet, of a word that says what the value is."""

Lowering = Callable[[Node, Fresh], Replacement | None]
"""Writes a node as others; None leaves the node as it is."""


_REGISTERED: Final[dict[tuple[str, str], Lowering]] = {}
_LOCK: Final = threading.Lock()


def converter(op_type: str, *, domain: str = "") -> Callable[[Lowering], Lowering]:
    """Register a function as the converter of an operator, in place of one that was before it.

    ``node.opset`` says of which version the operator is.

    Thread-safety: may be called from any thread; sessions bound before do not see it.
    """

    def register(lower: Lowering) -> Lowering:
        with _LOCK:
            _REGISTERED[domain, op_type] = lower
        return lower

    return register


def converter_of(node: Node) -> Lowering | None:
    """Return the converter that others registered for a node's operator."""
    with _LOCK:
        return _REGISTERED.get((node.domain, node.op_type))


def identity() -> str:
    """Return a digest of the converters that others registered, for the keys of engines."""
    with _LOCK:
        listed = sorted((*key, _code(lower)) for key, lower in _REGISTERED.items())
    return hashlib.sha256(repr(listed).encode()).hexdigest()[:16] if listed else ""


def _code(function: Lowering) -> str:
    """Return what a function is written in: its source, or its bytecode if there is none."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr((code.co_code, code.co_consts)) if code is not None else repr(function)


def unregister(op_type: str, *, domain: str = "") -> None:
    """Forget the converter of an operator; nothing happens if there is none."""
    with _LOCK:
        _REGISTERED.pop((domain, op_type), None)


def load_modules(names: Iterable[str]) -> None:
    """Import modules that register converters; OptionError (SGK168) if one cannot be."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            problem = f"names {name!r}, which cannot be imported: {type(error).__name__}: {error}"
            hint = "Name a module that Python finds, such as 'mypackage.converters'."
            raise unusable("SGK168", "modules", problem, hint) from error


class Namer:
    """Makes names for values inside a replacement."""

    def __init__(self, model: onnx.ModelProto, node: Node) -> None:
        graph = model.graph
        self._taken = {value.name for value in (*graph.input, *graph.initializer)}
        for one in graph.node:
            self._taken.update((*one.input, *one.output))
        self._prefix = next(filter(None, node.outputs), "node")

    def __call__(self, word: str) -> str:
        """Return a name that nothing in the model has; not the same twice."""
        name = stem = f"{self._prefix}/{word}"
        count = 0
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name


def replace_nodes(model: Any, replacements: Mapping[int, Replacement]) -> None:
    """Replace nodes, given by their place in ``model.graph.node``, in place.

    What replaces a node keeps its metadata, so that it can be told where it comes from.
    """
    graph = model.graph
    nodes = []
    for place, node in enumerate(graph.node):
        made = replacements.get(place, Replacement([node]))
        for one in made.nodes:
            nodes.append(onnx.NodeProto.FromString(one.SerializeToString()))
            if one is not node:
                nodes[-1].metadata_props.extend(node.metadata_props)
        graph.initializer.extend(made.constants)
    del graph.node[:]
    graph.node.extend(nodes)
