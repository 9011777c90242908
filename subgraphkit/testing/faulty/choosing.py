"""Faults of the backend class, its selectors and its properties."""
# ruff: noqa: ARG002, ARG003 (they take what the contract gives them)

import itertools
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from subgraphkit.backend import (
    Answer,
    BindContext,
    Conformance,
    Option,
    ProbeResult,
    Refusal,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.ir import Node, Subgraph
from subgraphkit.testing.faulty.wrapping import (
    EveryNode,
    WrappedOperator,
    WrappingBackend,
    WrappingProperty,
)

__all__ = [
    "AbortsInProbe",
    "AnswersByTurns",
    "AnswersWithText",
    "CannotRunHere",
    "ClaimsNothing",
    "CompilesToNothing",
    "DeclaresWhatPasses",
    "FiltersIn",
    "OptionUnexplained",
    "RaisesInCompile",
    "RaisesInProbe",
    "RaisesInSelect",
    "SharesProperty",
    "StatelessByName",
    "TakesByTurns",
]

_TURNS = itertools.count()


class RaisesInProbe(WrappingBackend):
    """Raises where it should report."""

    @classmethod
    def probe(cls, *, deep: bool = False) -> ProbeResult:
        """Raise."""
        raise OSError("libfaulty.so.1: cannot open shared object file")


class AbortsInProbe(WrappingBackend):
    """Takes the process down when it is probed."""

    @classmethod
    def probe(cls, *, deep: bool = False) -> ProbeResult:
        """Abort."""
        os.abort()


class CannotRunHere(WrappingBackend):
    """Has no device."""

    @classmethod
    def probe(cls, *, deep: bool = False) -> ProbeResult:
        """Report that there is no device."""
        return ProbeResult(available=False, problems=("no device of its kind is there",))


class OptionUnexplained(WrappingBackend):
    """Has an option that nobody can know the use of."""

    options: ClassVar[Sequence[Option]] = (Option("speed", int, default=1),)


class SharesProperty(WrappingBackend):
    """Gives all instances one property, whose state they then share."""

    shared: ClassVar[list[SubgraphProperty]] = []

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property of all instances."""
        if not self.shared:
            self.shared.append(WrappingProperty(self))
        return self.shared


class DeclaresWhatPasses(WrappingBackend):
    """Declares that a case fails which does not."""

    @classmethod
    def conformance(cls, suite: Conformance) -> None:
        """Declare it."""
        suite.xfail("L2/chain", "chains were not supported once")


class _Raising(EveryNode):
    def select(self, node: Node) -> Answer:
        raise LookupError(f"no rule for {node.op_type}")


class RaisesInSelect(WrappingBackend):
    """Raises when it is asked about a node."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Raising


class _Texting(EveryNode):
    def select(self, node: Node) -> Any:
        return "yes"


class AnswersWithText(WrappingBackend):
    """Answers neither yes nor no."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Texting


class _ByTurns(EveryNode):
    def select(self, node: Node) -> Answer:
        return next(_TURNS) % 2 == 0


class AnswersByTurns(WrappingBackend):
    """Answers yes and no by turns, about one node."""

    selector_class: ClassVar[type[SubgraphSelector]] = _ByTurns


class _AllOrNothing(EveryNode):
    def __init__(self, *, takes: bool) -> None:
        self.takes = takes

    def select(self, node: Node) -> Answer:
        return self.takes


class _ByTurnsProperty(WrappingProperty):
    def __init__(self, backend: WrappingBackend) -> None:
        super().__init__(backend)
        self.takes = next(_TURNS) % 2 == 0

    def create_selector(self, graph: Any) -> SubgraphSelector:
        return _AllOrNothing(takes=self.takes)


class TakesByTurns(WrappingBackend):
    """Takes everything in one bind and nothing in the next."""

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return a property that has drawn by turns."""
        return (_ByTurnsProperty(self),)


class _Stateless(EveryNode):
    stateless: ClassVar[bool] = True

    def __init__(self) -> None:
        self.seen = 0

    def select(self, node: Node) -> Answer:
        self.seen += node.id
        return self.seen < 1 or Refusal("enough", "it has taken enough already")

    def reset(self) -> None:
        self.seen = 0


class StatelessByName(WrappingBackend):
    """Calls its selector stateless, and counts."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Stateless


class _FilteringIn(EveryNode):
    def select(self, node: Node) -> Answer:
        return node.op_type != "Add"

    def filter(self, candidates: Sequence[Node]) -> Sequence[Node]:
        graph = candidates[0].graph
        return [*candidates, *(node for node in graph.nodes if node.op_type == "Add")]


class FiltersIn(WrappingBackend):
    """Keeps nodes in its filter that it was not shown."""

    selector_class: ClassVar[type[SubgraphSelector]] = _FilteringIn


class ClaimsNothing(WrappingBackend):
    """Is never wrong, for it never does anything."""

    class _Nothing(EveryNode):
        def select(self, node: Node) -> Answer:
            return Refusal("op_unsupported", "it takes no operator at all")

    selector_class: ClassVar[type[SubgraphSelector]] = _Nothing


class _RaisingProperty(WrappingProperty):
    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        raise RuntimeError("the compiler ran out of registers")


class RaisesInCompile(WrappingBackend):
    """Claims what it cannot compile, and does not give it back."""

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (_RaisingProperty(self),)


class _NothingProperty(WrappingProperty):
    def create_operator(self, subgraph: Subgraph, context: BindContext) -> Any:
        return WrappedOperator


class CompilesToNothing(WrappingBackend):
    """Returns a class for an operator."""

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (_NothingProperty(self),)
