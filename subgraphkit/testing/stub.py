"""A backend that takes what nobody else does, and computes none of it.

With it in the selection no node is left over, so that one backend can be asked about many nodes of
which the fallback knows some only.
"""

from collections.abc import Sequence
from typing import ClassVar

from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
    Unsupported,
)
from subgraphkit.ir import BoundGraph, Node, Subgraph


class _Selector(SubgraphSelector):
    stateless: ClassVar[bool] = True

    def select(self, node: Node) -> Answer:
        del node
        return True


class _Property(SubgraphProperty):
    name: ClassVar[str] = "bystander"

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        del graph
        return _Selector()

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        del context
        raise Unsupported(f"nothing computes {subgraph.id}, of which a partitioning was asked")


class Stub(Backend):
    """Takes every node that is left."""

    name: ClassVar[str] = "bystander"

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (_Property(),)
