"""Backends that claim every node: one runs each region on the fallback, one computes nothing.

They have no operators of their own, so what goes wrong is the kit's doing, or the core's.
"""

from collections.abc import Sequence
from typing import ClassVar

from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    Conformance,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
    Unsupported,
)
from subgraphkit.backend.traits import Traits
from subgraphkit.ir import BoundGraph, Node, Subgraph


class _Everything(SubgraphSelector):
    stateless: ClassVar[bool] = True

    def select(self, node: Node) -> Answer:
        del node
        return True


class _Anything(SubgraphProperty):
    name: ClassVar[str] = "anything"

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        del graph
        return _Everything()


class _Nothing(_Anything):
    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        del context
        raise Unsupported(f"nothing computes {subgraph.id}, of which a partitioning was asked")


class LoopbackBackend(Backend):
    """Claims every node and runs each region on the fallback backend."""

    name: ClassVar[str] = "loopback"
    api: ClassVar[str] = "1.0"
    traits = Traits(pool="none", holds_limits=True)  # as the fallback does

    @classmethod
    def conformance(cls, suite: Conformance) -> None:
        """Declare what the fallback cannot run."""
        suite.xfail("L4/simple/test_gradient_of_*", "the fallback computes no gradients")

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (_Anything(),)


class Stub(Backend):
    """Takes every node that is left, and computes none.

    With it in a selection one backend can be asked about many nodes of which the fallback knows
    some only.
    """

    name: ClassVar[str] = "stub"

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (_Nothing(),)
