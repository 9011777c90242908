"""Conversions: the choice of nodes that are converted, and the model with their replacements."""

from functools import partial
from typing import Any, Final

import onnx

from subgraphkit.backend import Refusal
from subgraphkit.errors import BackendError
from subgraphkit.ir import Node, Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.flavours import Library, find
from subgraphkit_tensorrt.library.trial import has_operator
from subgraphkit_tensorrt.lowering.defined import as_defined
from subgraphkit_tensorrt.lowering.own import OWN
from subgraphkit_tensorrt.lowering.registry import Lowering, Replacement, registered
from subgraphkit_tensorrt.lowering.replacements import Namer, replace_nodes
from subgraphkit_tensorrt.rules.static_rules import Rules

__all__ = ["Conversions", "apply", "lower", "rules_for"]

_MENDABLE: Final = frozenset({"op_unsupported", "attribute", "rank"})
"""Reasons that another way to write a node may do away with; element types stay what they are."""


class Conversions:
    """Decides which nodes are converted.

    Args:
        rules: Say which nodes TensorRT would not take as they are.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def replacement(self, node: Node, model: onnx.ModelProto) -> Replacement | None:
        """Return what a node is written as in a model; None if it stays as it is.

        Raises:
            BackendError: A converter raised, or returned something that is no replacement (SGK166).
        """
        lower = self._lowering(node)
        if lower is None:
            return None
        try:
            made = lower(node, Namer(model, node))
        except Exception as error:
            raise _failed(node, f"raised {type(error).__name__}: {error}") from error
        if made is not None and not isinstance(made, Replacement):
            raise _failed(node, f"returned {made!r}, expected a Replacement or None")
        if made is not None and any(self._is_missing(one) for one in made.nodes):
            return None
        return made

    def converts(self, node: Node) -> bool:
        """Say whether a node is written as others."""
        return self.replacement(node, onnx.ModelProto()) is not None

    def advice(self, node: Node, refusal: Refusal) -> Refusal:
        """Return the refusal of an operator TensorRT lacks with a word on how to add it."""
        if refusal.code != "op_unsupported":
            return refusal
        domain = f', domain="{node.domain}"' if node.domain else ""
        return Refusal(
            refusal.code,
            f"{refusal.text}; node {node.label}, {_signature(node)}. If other operators can "
            f"compute it, register a converter: @subgraphkit_tensorrt.lowering.converter("
            f'"{node.op_type}"{domain}, since={node.opset}), in a module that the option modules '
            "names",
        )

    def _is_missing(self, node: onnx.NodeProto) -> bool:
        return not node.domain and node.op_type in self._rules.table.missing

    def _lowering(self, node: Node) -> Lowering | None:
        added = registered(node)
        if added is not None:
            return added.lower
        if node.domain or node.graph.is_constant_node(node.id):
            return None
        refusal = self._rules.refusal(node)
        if refusal is None or refusal.code not in _MENDABLE:
            return None
        return OWN.get(node.op_type, as_defined)


def lower(proto: Any, subgraph: Subgraph, options: Options) -> None:
    """Convert what TensorRT would not take as it is in the model of a subgraph, in place.

    Nodes made for a node get its metadata. What is converted depends on the library in use, on the
    options and on the converters that are registered.

    Args:
        proto: The ``ModelProto`` of the subgraph.
        subgraph: The subgraph.
        options: The options of the backend.

    Raises:
        BackendError: A converter failed (SGK166).
    """
    library = find(options.flavour).library
    if library is None:
        return
    apply(proto, subgraph, Conversions(rules_for(library, options)))


def rules_for(library: Library, options: Options) -> Rules:
    """Return the static rules for a library."""
    return Rules(
        library.capabilities,
        has_operator=partial(has_operator, library),
        truncate_double=options.truncate_double,
    )


def apply(proto: Any, subgraph: Subgraph, conversions: Conversions) -> None:
    """Convert the nodes of a model; see ``lower``."""
    producers, graph = subgraph.graph.producers, subgraph.graph
    replacements = {}
    for place, one in enumerate(proto.graph.node):
        made_by = producers.get(next(filter(None, one.output), ""))
        if made_by is None:
            continue
        replacement = conversions.replacement(Node(graph, made_by), proto)
        if replacement is not None:
            replacements[place] = replacement
    if replacements:
        replace_nodes(proto, replacements)


def _signature(node: Node) -> str:
    """Return what a converter has to compute: types of inputs and outputs, attributes."""
    types = node.graph.types
    read = ", ".join(str(types.get(name)) if name else "-" for name in node.inputs)
    made = ", ".join(str(types.get(name)) if name else "-" for name in node.outputs)
    named = ", ".join(f"{name}: {_kind(value)}" for name, value in sorted(node.attributes.items()))
    return f"({read}) -> ({made})" + (f" with {named}" if named else "")


def _kind(value: Any) -> str:
    """Return the type of an attribute, as text."""
    if isinstance(value, tuple | list):
        return f"{_kind(value[0])}s" if value else "list"
    return "string" if isinstance(value, bytes | str) else type(value).__name__.lower()


def _failed(node: Node, problem: str) -> BackendError:
    return BackendError(
        "SGK166",
        f"the converter of {node.qualified_op_type} {problem} at node {node.label}",
        backend="tensorrt",
        hint="Mend the converter, or have it return None for nodes it cannot write as others.",
    )
