"""Backends that compute right but for one small corruption, each a line of a table.

A corruption is a function that is given the operator, what it is fed, and what computes it as it
should; it returns what is handed out. ``results`` and ``instead`` make such functions of what
becomes of one array, or of what an operator computes in place of what it means.
"""
# ruff: noqa: ARG002 (they take what the contract gives them)

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from subgraphkit.backend import Answer, InnerTime, Refusal, SubgraphOperator
from subgraphkit.ir import Node, Subgraph
from subgraphkit.testing.cases import Outcome
from subgraphkit.testing.faulty.wrapping import EveryNode, WrappedOperator, WrappingBackend

__all__ = ["Corrupted", "Corruption", "backend_of", "instead", "results"]

_Run = Callable[[Sequence[Any]], list[Any]]
_Corrupt = Callable[["Corrupted", list[Any], _Run], Sequence[Any]]


class Corrupted(WrappedOperator):
    """Computes as it should, but for its corruption.

    Attributes:
        corrupt: The corruption.
        state: What it remembers.
        makers: The nodes of its region by what they make.
    """

    corrupt: ClassVar[_Corrupt]

    def __init__(self, inner: SubgraphOperator, subgraph: Subgraph) -> None:
        super().__init__(inner, subgraph)
        self.state: dict[Any, Any] = {}
        self.makers = {name: node for node in subgraph.members for name in node.outputs if name}

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Have the corruption compute, with what computes as it should."""

        def right(fed: Sequence[Any]) -> list[Any]:
            made = super(Corrupted, self).run(fed)
            return [np.array(one) if isinstance(one, np.ndarray) else one for one in made]

        return type(self).corrupt(self, list(inputs), right)

    def profiled(self, record: Callable[[InnerTime], object]) -> SubgraphOperator | None:
        """Have no times inside: the other operator's twin would compute as it should."""
        return None

    def value(self, name: str, inputs: Sequence[Any]) -> Any:
        """Return what a node reads, if it comes from outside of the region; None if not."""
        if name in self.subgraph.inputs:
            return np.asarray(inputs[self.subgraph.inputs.index(name)])
        stored = self.subgraph.constants.get(name)
        return None if stored is None else np.asarray(stored.array())


@dataclass(frozen=True)
class Corruption:
    """One way in which a backend is wrong.

    Attributes:
        text: What it does.
        takes: The operators it claims; everything, if there are none.
        case: The case that must find it.
        corrupt: What it does to results.
        outcome: How that case must end.
        more: Attributes of its operator.
    """

    text: str
    takes: str
    case: str
    corrupt: _Corrupt
    outcome: Outcome = Outcome.FAIL_VALUE
    more: Mapping[str, Any] = field(default_factory=dict)


def backend_of(name: str, corruption: Corruption, module: str) -> type[WrappingBackend]:
    """Make the class of a backend that a module has under a name."""
    taken = frozenset(corruption.takes.split())

    def select(_: EveryNode, node: Node) -> Answer:
        if not taken or node.op_type in taken:
            return True
        return Refusal("op_unsupported", f"it takes {', '.join(sorted(taken))}")

    space = {"__module__": module, "__doc__": corruption.text}
    selector = type(f"_{name}Selector", (EveryNode,), {**space, "select": select})
    own = {**space, "corrupt": staticmethod(corruption.corrupt), **corruption.more}
    operator = type(f"_{name}Operator", (Corrupted,), own)
    return type(
        name, (WrappingBackend,), {**space, "selector_class": selector, "operator_class": operator}
    )


def results(change: Callable[[Any], Any], where: Callable[[Node], Any] | None = None) -> _Corrupt:
    """Corrupt each result that a node makes for which ``where`` is true.

    Args:
        change: Is given a result of its own, and changes it or returns another.
        where: Says of a node whether its results are corrupted; of all, if it is None.
    """

    def corrupt(operator: Corrupted, inputs: list[Any], right: _Run) -> Sequence[Any]:
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

    Args:
        op_type: The operator.
        compute: Is given the node and what it reads; returns its first result, or None where that
            is to be as it should.
    """

    def corrupt(operator: Corrupted, inputs: list[Any], right: _Run) -> Sequence[Any]:
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
