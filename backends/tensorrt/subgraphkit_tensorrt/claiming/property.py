"""The property: TensorRT gets the nodes that pass all filters, and builds regions of them."""

from typing import ClassVar, Final

import subgraphkit as sk
from subgraphkit.backend import Answer, BindContext, NodeSelector, PartitionSummary, Side
from subgraphkit.errors import CompileError
from subgraphkit.ir import BoundGraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.build import fault_of_machine
from subgraphkit_tensorrt.claiming.filters import Filters, blamed_nodes
from subgraphkit_tensorrt.running.regions import compile_region

_BUILDING: Final = frozenset({"SGK162", "SGK170", "SGK171", "SGK172"})
"""Failures that other nodes, or fewer, may do away with."""
_RETRIES: Final = 2
"""How often a subgraph is built again without the nodes that made a build fail."""


class TensorRTProperty(sk.SubgraphProperty):
    """Takes regions of nodes that TensorRT takes together."""

    name: ClassVar[str] = "whole"

    def __init__(self, filters: Filters) -> None:
        self.filters = filters
        self.min_nodes = filters.options.min_subgraph_nodes

    def prepare(self, graph: BoundGraph, context: BindContext[Options]) -> None:
        """Put all nodes through the rules, and what is left to the parser if it can be asked."""
        self.filters.look_at(graph, context)

    def create_selector(self, graph: BoundGraph) -> NodeSelector:
        """Take every node that was not refused when the graph was prepared."""
        del graph
        return NodeSelector(lambda node: self.filters.refusals.get(node.id, True))

    def accept(self, subgraph: sk.Subgraph) -> Answer:
        """Ask the parser about the region as it will be built."""
        return self.filters.review(subgraph)

    def accept_boundary(self, node: sk.Node, value: str, side: Side) -> Answer:
        """Say whether TensorRT can be handed a value, or hand it out."""
        borders = self.filters.borders
        return borders.may_enter(node, value) if side == "input" else borders.may_leave(node, value)

    def create_operator(
        self, subgraph: sk.Subgraph, context: BindContext[Options]
    ) -> sk.SubgraphOperator:
        """Build a region's engines; Unsupported if nodes are at fault, else CompileError."""
        filters = self.filters
        try:
            return compile_region(subgraph, filters.library, context)
        except CompileError as error:
            if error.code not in _BUILDING or fault_of_machine(error.context.get("lines", ())):
                raise
            raise self._refusal_of(subgraph, error) from error

    def finish(self, partitioning: PartitionSummary, context: BindContext[Options]) -> None:
        """Let go of the builder that answered."""
        del partitioning, context
        self.filters.release_builder()

    def _refusal_of(self, subgraph: sk.Subgraph, error: CompileError) -> sk.Unsupported:
        filters = self.filters
        inside = frozenset(subgraph.nodes)
        depth = 1 + max((depth for nodes, depth in filters.failures if inside <= nodes), default=0)
        filters.failures.append((inside, depth))
        blamed = [node for node in blamed_nodes(subgraph, error) if node in inside]
        text = " ".join(f"{error.message}. {error.hint}".split())
        if depth > _RETRIES or len(blamed) == len(inside):
            blamed = []
        filters.learn(blamed or subgraph.nodes, text)
        return sk.Unsupported(text, nodes=blamed)


class RetryPass(TensorRTProperty):
    """Divides what the first pass got wrong: a region is a new model, and the parser takes less."""

    name: ClassVar[str] = "retry"
