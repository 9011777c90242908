"""A foreign neighbour: a backend that takes only the nodes around the case under test.

Its operator ``Carry`` hands a value on unchanged. It is of an unknown operator set, so that it
takes any type in any version of ONNX. Before the case it hands over arrays in the least convenient
layout of the contract, read-only and not contiguous. Behind it, it hands over copies.

There are also two backends that claim every node. One runs each region on the fallback, one
computes nothing. They have no operators of their own, so a fault is the kit's, or the core's.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    Conformance,
    Connectivity,
    OpSelector,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
    Unsupported,
)
from subgraphkit.backend.operator import Traits
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.ir import BoundGraph, Node, Subgraph

DOMAIN: Final = "subgraphkit.testing"
"""The operator set of the foreign nodes; version 1."""

CARRY: Final = "Carry"
"""Their operator: one input, one output of the same type."""


def is_own(node: Node) -> bool:
    """Say whether a node belongs to the case under test."""
    return node.domain != DOMAIN


def beside_foreign(choice: BackendChoice) -> dict[str, Any]:
    """Return the settings of a bind in which the foreign nodes go to the foreign backend."""
    return {"pin": {f"{DOMAIN}::{CARRY}": ForeignBackend.name}, "backend": [choice, ForeignBackend]}


class _Operator(SubgraphOperator):
    traits = Traits(thread_safe=True)

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        subgraph = self._subgraph
        values = {name: stored.array() for name, stored in subgraph.constants.items()}
        values |= zip(subgraph.inputs, inputs, strict=True)
        for node in subgraph.members:
            (source,), (target,) = node.inputs, node.outputs
            # A value that leaves the model is the caller's, so it is a plain copy.
            carry = deepcopy if subgraph.graph.is_output(target) else _awkward
            values[target] = carry(values[source])
        return [values[name] for name in subgraph.outputs]


class _Property(SubgraphProperty):
    name: ClassVar[str] = "carry"
    connectivity: Connectivity = "any"

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        return OpSelector(graph, [f"{DOMAIN}::{CARRY}"])

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        return _Operator(subgraph)


class ForeignBackend(Backend):
    """Carries values to the case under test and away from it."""

    name: ClassVar[str] = "foreign"
    # it has no threads, but so the case learns that it shares the processors
    traits = Traits(pool="sleeps")

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (_Property(),)


def _awkward(value: Any) -> Any:
    """Return an equal value whose arrays are read-only and, if they can be, not contiguous."""
    if isinstance(value, list):
        return [_awkward(element) for element in value]
    if not isinstance(value, np.ndarray):
        return value
    laid_out: npt.NDArray[Any] = value.copy()
    if value.ndim:
        spread = np.zeros((*value.shape[:-1], 2 * value.shape[-1]), value.dtype)
        laid_out = spread[..., ::2]
        laid_out[...] = value
    if laid_out.dtype == np.int64:
        # C has two types of 64 bits, NumPy a dtype for each, and they are equal
        laid_out = laid_out.view(np.longlong)
    laid_out.setflags(write=False)
    return laid_out


class _Everything(SubgraphSelector):
    stateless: ClassVar[bool] = True

    def select(self, node: Node) -> Answer:
        return True


class _Anything(SubgraphProperty):
    name: ClassVar[str] = "anything"

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        return _Everything()


class _Nothing(_Anything):
    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        raise Unsupported(f"nothing computes {subgraph.id}, of which a partitioning was asked")


class LoopbackBackend(Backend):
    """Claims every node and runs each region on the fallback backend."""

    name: ClassVar[str] = "loopback"
    api: ClassVar[str] = "1.0"
    traits = Traits(pool="none", holds_limits=True)  # as the fallback does

    @classmethod
    def conformance(cls, suite: Conformance) -> None:
        """Declare the nodes that the fallback cannot run."""
        suite.xfail("L4/simple/test_gradient_of_*", "the fallback computes no gradients")

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (_Anything(),)


class Stub(Backend):
    """Takes every node that is left, and computes none.

    With it in a selection, you can ask one backend about many nodes, even if the fallback knows
    only some.
    """

    name: ClassVar[str] = "stub"

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (_Nothing(),)
