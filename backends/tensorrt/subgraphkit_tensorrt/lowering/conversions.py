"""Conversions: converters and their registration, the nodes they take, and the model afterwards."""

from typing import Any, Final

import onnx

from subgraphkit.backend import Refusal
from subgraphkit.errors import BackendError
from subgraphkit.ir import Node, Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.flavours import find
from subgraphkit_tensorrt.lowering import registry
from subgraphkit_tensorrt.lowering.own import OWN, inline_definition
from subgraphkit_tensorrt.rules.static_rules import Rules

_MENDABLE: Final = frozenset({"op_unsupported", "attribute", "rank"})
"""Reasons that the definition of an operator may do away with; element types stay what they are."""


class Conversions:
    """Decides which nodes are converted.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def replacement(self, node: Node, model: onnx.ModelProto) -> registry.Replacement | None:
        """Return a node's replacement, if any; BackendError (SGK166) if a converter failed."""
        if (lower := self._lowering(node)) is None:
            return None
        try:
            made = lower(node, registry.Namer(model, node))
        except Exception as error:
            raise _converter_failure(node, f"raised {type(error).__name__}: {error}") from error
        if made is not None and not isinstance(made, registry.Replacement):
            raise _converter_failure(node, f"returned {made!r}, expected a Replacement or None")
        missing = self._rules.table.missing
        if made and any(not one.domain and one.op_type in missing for one in made.nodes):
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
            f"{refusal.text}; node {node.label}. If other operators can compute it, register a "
            f'converter: @subgraphkit_tensorrt.lowering.converter("{node.op_type}"{domain}), '
            "in a module that the option modules names",
        )

    def _lowering(self, node: Node) -> registry.Lowering | None:
        if (added := registry.converter_of(node)) is not None:
            return added
        if node.domain or node.graph.is_constant_node(node.id):
            return None
        refusal = self._rules.refusal(node)
        if refusal is None or (refusal.code not in _MENDABLE and node.op_type not in OWN):
            return None
        return OWN.get(node.op_type, inline_definition)


def lower(proto: Any, subgraph: Subgraph, options: Options) -> None:
    """Convert what TensorRT would not take as it is in the model of a subgraph, in place.

    Nodes made for a node get its metadata. What is converted depends on the library in use, on the
    options and on the converters that are registered.

    Raises:
        BackendError: A converter failed (SGK166).
    """
    if (library := find(options.flavour).library) is None:
        return
    apply(proto, subgraph, Conversions(Rules(library)))


def apply(proto: Any, subgraph: Subgraph, conversions: Conversions) -> None:
    """Convert the nodes of a model; see ``lower``."""
    producers, graph = subgraph.graph.producers, subgraph.graph
    replacements = {}
    for place, one in enumerate(proto.graph.node):
        if (made_by := producers.get(next(filter(None, one.output), ""))) is None:
            continue
        replacement = conversions.replacement(Node(graph, made_by), proto)
        if replacement is not None:
            replacements[place] = replacement
    if replacements:
        registry.replace_nodes(proto, replacements)


def _converter_failure(node: Node, problem: str) -> BackendError:
    return BackendError(
        "SGK166",
        f"the converter of {node.qualified_op_type} {problem} at node {node.label}",
        backend="tensorrt",
        hint="Mend the converter, or have it return None for nodes it cannot write as others.",
    )
