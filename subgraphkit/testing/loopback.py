"""A backend that claims every node and runs each region on the fallback backend.

It has no operators of its own, so what it gets wrong is the kit's doing, or the core's.
"""

from collections.abc import Sequence
from typing import ClassVar

from subgraphkit.backend import (
    Answer,
    Backend,
    Conformance,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.backend.traits import Traits
from subgraphkit.ir import BoundGraph, Node


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
