"""The base of all faulty backends: loopback, with an operator around the fallback's."""
# ruff: noqa: ARG002 (they take what the contract gives them)

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    InnerTime,
    Pool,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.ir import BoundGraph, Node, Subgraph

__all__ = ["EveryNode", "WrappedOperator", "WrappingBackend", "WrappingProperty"]


class EveryNode(SubgraphSelector):
    """Takes every node."""

    def select(self, node: Node) -> Answer:
        """Take the node."""
        return True


class WrappedOperator(SubgraphOperator):
    """Hands everything on to another operator.

    Args:
        inner: The other operator.
        subgraph: What it was compiled from.
    """

    def __init__(self, inner: SubgraphOperator, subgraph: Subgraph) -> None:
        self.inner = inner
        self.subgraph = subgraph

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Have the other operator compute, into arrays of its own."""
        return list(self.inner.run(inputs))

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Hand new weights on."""
        return self.inner.update_weights(changed)

    def profiled(self, record: Callable[[InnerTime], object]) -> SubgraphOperator | None:
        """Have the other operator profiled."""
        return self.inner.profiled(record)

    def close(self) -> None:
        """Close the other operator."""
        self.inner.close()


class WrappingProperty(SubgraphProperty):
    """Claims what its selector takes and wraps what the fallback makes of it.

    Args:
        backend: The backend it belongs to, which says what to make.
    """

    name: ClassVar[str] = "wrapping"

    def __init__(self, backend: "WrappingBackend") -> None:
        self.backend = backend

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Make the backend's selector."""
        return self.backend.selector_class()

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        """Make the backend's operator."""
        return self.backend.operator_class(context.fallback(subgraph), subgraph)


class WrappingBackend(Backend):
    """Does all as it should; the faulty ones change one thing about it."""

    name: ClassVar[str] = "faulty"
    api: ClassVar[str] = "1.0"
    pool: Pool = "none"
    selector_class: ClassVar[type[SubgraphSelector]] = EveryNode
    operator_class: ClassVar[type[WrappedOperator]] = WrappedOperator

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (WrappingProperty(self),)
