"""The base of all faulty backends, loopback with an operator around the fallback's; and one fault.

A fault of results is a function that is given the operator, what it is fed, and what computes it as
it should; it returns what is handed out. ``results`` and ``instead`` make such functions of what
becomes of one array, or of what a node computes in place of what it means.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    InnerTime,
    Refusal,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
    Traits,
)
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit.testing.cases import Outcome

Run = Callable[[Sequence[Any]], list[Any]]
_Corrupt = Callable[["WrappedOperator", list[Any], Run], Sequence[Any]]


class EveryNode(SubgraphSelector):
    """Takes every node."""

    def select(self, node: Node) -> Answer:
        """Take the node."""
        return True


class WrappedOperator(SubgraphOperator):
    """Hands everything on to another operator.

    Attributes:
        corrupt: What is wrong with its results; None if they are right.
        makers: The nodes of its region by what they make.
    """

    corrupt: ClassVar[_Corrupt | None] = None

    def __init__(self, inner: SubgraphOperator, subgraph: Subgraph) -> None:
        self.inner = inner
        self.subgraph = subgraph
        self.state: dict[Any, Any] = {}
        self.makers = {name: node for node in subgraph.members for name in node.outputs if name}
        self.begin()

    def begin(self) -> None:
        """Do what is done once, at the end of making it."""

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Have the other operator compute, into arrays of its own."""
        corrupt = type(self).corrupt

        def right(fed: Sequence[Any]) -> list[Any]:
            made = self.inner.run(fed)
            return [np.array(one) if isinstance(one, np.ndarray) else one for one in made]

        if corrupt is None:
            return list(self.inner.run(inputs))
        return corrupt(self, list(inputs), right)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Hand new weights on."""
        return self.inner.update_weights(changed)

    def profiled(self, record: Callable[[InnerTime], object]) -> SubgraphOperator | None:
        """Have the other operator profiled, whose twin computes as it should, or none."""
        return self.inner.profiled(record) if type(self).corrupt is None else None

    def close(self) -> None:
        """Close the other operator."""
        self.inner.close()

    def value(self, name: str, inputs: Sequence[Any]) -> Any:
        """Return what a node reads, if it comes from outside of the region; None if not."""
        if name in self.subgraph.inputs:
            return np.asarray(inputs[self.subgraph.inputs.index(name)])
        stored = self.subgraph.constants.get(name)
        return None if stored is None else np.asarray(stored.array())


class WrappingProperty(SubgraphProperty):
    """Claims what its selector takes and wraps what the fallback makes of it."""

    name: ClassVar[str] = "wrapping"

    def __init__(self, backend: "WrappingBackend") -> None:
        self.backend = backend

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Make the backend's selector."""
        return self.backend.selector_class()

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        """Make the backend's operator."""
        return self.backend.operator_class(context.compile(subgraph), subgraph)


class WrappingBackend(Backend):
    """Does all as it should; the faulty ones change one thing about it."""

    name: ClassVar[str] = "faulty"
    api: ClassVar[str] = "1.0"
    traits = Traits(pool="none")
    selector_class: ClassVar[type[SubgraphSelector]] = EveryNode
    property_class: ClassVar[type[WrappingProperty]] = WrappingProperty
    operator_class: ClassVar[type[WrappedOperator]] = WrappedOperator

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (self.property_class(self),)


@dataclass(frozen=True)
class Fault:
    """One way in which a backend is wrong, and what the kit is to find.

    Attributes:
        takes: The operators it claims; everything, if there are none.
        case: The case that must find it.
        corrupt: What it does to results, if that is what is wrong.
        outcome: How that case must end.
    """

    text: str
    takes: str
    case: str
    corrupt: _Corrupt | None = None
    outcome: Outcome = Outcome.FAIL_VALUE
    operator: Mapping[str, Any] = field(default_factory=dict)
    selector: Mapping[str, Any] = field(default_factory=dict)
    strategy: Mapping[str, Any] = field(default_factory=dict)
    backend: Mapping[str, Any] = field(default_factory=dict)
    base: type[WrappingBackend] = WrappingBackend

    def made(self, name: str, module: str) -> type[WrappingBackend]:
        """Make the class of the backend, which a module has under a name."""
        space = {"__module__": module, "__doc__": self.text}
        taken = frozenset(self.takes.split())

        def select(_: EveryNode, node: Node) -> Answer:
            if node.op_type in taken:
                return True
            return Refusal("op_unsupported", f"it takes {', '.join(sorted(taken))}")

        own = {
            "selector_class": {**({"select": select} if taken else {}), **self.selector},
            "property_class": self.strategy,
            "operator_class": {
                **({"corrupt": staticmethod(self.corrupt)} if self.corrupt else {}),
                **self.operator,
            },
        }
        classes = {
            key: type(f"_{name}_{key}", (getattr(self.base, key),), {**space, **given})
            for key, given in own.items()
            if given
        }
        return type(name, (self.base,), {**space, **classes, **self.backend})


def results(change: Callable[[Any], Any], where: Callable[[Node], Any] | None = None) -> _Corrupt:
    """Corrupt each result that a node makes for which ``where`` is true."""

    def corrupt(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
        made = right(inputs)
        for place, name in enumerate(operator.subgraph.outputs):
            is_array = isinstance(made[place], np.ndarray)
            if is_array and (where is None or where(operator.makers[name])):
                changed = change(made[place])
                made[place] = made[place] if changed is None else np.asarray(changed)
        return made

    return corrupt


def instead(op_type: str, compute: Callable[..., Any]) -> _Corrupt:
    """Compute something else for an operator, where all it reads comes from outside of the region.

    ``compute``: Is given the node and what it reads; returns its first result, or None where that
    is to be as it should.
    """

    def corrupt(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
        made = right(inputs)
        for place, name in enumerate(operator.subgraph.outputs):
            node = operator.makers[name]
            if node.op_type != op_type or name != node.outputs[0]:
                continue
            read = [operator.value(one, inputs) for one in node.inputs if one]
            if all(one is not None for one in read):
                with np.errstate(all="ignore"):
                    other = compute(node, *read)
                if other is not None:
                    made[place] = np.asarray(other).astype(made[place].dtype)
        return made

    return corrupt
