"""The table of faults of the backend class, its selectors and its properties.

Functions stand for methods here, and are given what the contract gives those.
"""

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from subgraphkit.backend import Answer, Option, ProbeResult, Refusal, SubgraphProperty
from subgraphkit.ir import Node
from subgraphkit.testing.cases import Outcome
from tests.faulty import spoiling as by
from tests.faulty.wrapping import (
    EveryNode,
    Fault,
    WrappedOperator,
    WrappingBackend,
    WrappingProperty,
)

_TURNS: Final = itertools.count()
_SHARED: Final[list[SubgraphProperty]] = []
_CONTRACT: Final = Outcome.FAIL_CONTRACT
_SELECT: Final = Outcome.FAIL_SELECT
_PROBE: Final = Outcome.FAIL_PROBE
_ONE: Final = "L2/one_node"


def _one_property(backend: WrappingBackend) -> Sequence[SubgraphProperty]:
    if not _SHARED:
        _SHARED.append(WrappingProperty(backend))
    return _SHARED


def _drawn_by_turns(owner: Any, backend: WrappingBackend) -> None:
    WrappingProperty.__init__(owner, backend)
    owner.takes = next(_TURNS) % 2 == 0


class _NoNode(EveryNode):
    def select(self, node: Node) -> Answer:
        del node
        return Refusal("op_unsupported", "it takes no operator at all")


def _counted(selector: Any, node: Node) -> Any:
    selector.seen += node.id
    return selector.seen < 1 or Refusal("enough", "it has taken enough already")


def _filtered_in(selector: EveryNode, candidates: Sequence[Node]) -> Sequence[Node]:
    graph = candidates[0].graph
    return [*candidates, *(node for node in graph.nodes if node.op_type == "Add")]


# fmt: off
CHOICES: Final[Mapping[str, Fault]] = {
    "RaisesInProbe": Fault("Raises where it should report.", "", "L0/probe", outcome=_PROBE,
        backend={"probe": classmethod(by.raising(OSError("libfaulty.so.1: no such file")))}),
    "CannotRunHere": Fault(
        "Has no device.", "", "L0/probe", outcome=_PROBE,
        backend={"probe": classmethod(lambda cls, *, deep=False: ProbeResult(
            available=False, problems=("no device of its kind is there",)))}),
    "AbortsInProbe": Fault(
        "Takes the process down when it is probed.", "", "L0/import", outcome=Outcome.CRASH,
        backend={"probe": classmethod(lambda cls, *, deep=False: os.abort())}),
    "OptionUnexplained": Fault("Has an option that nobody can know the use of.", "", "L1/options",
        outcome=_CONTRACT, backend={"options": (Option("speed", int, default=1),)}),
    "SharesProperty": Fault("Gives all instances one property, whose state they then share.", "",
        "L1/properties", outcome=_CONTRACT, backend={"properties": _one_property}),
    "AnswersWithText": Fault("Answers neither yes nor no.", "", "L1/answers", outcome=_SELECT,
        selector={"select": lambda self, node: "yes"}),
    "AnswersByTurns": Fault("Answers yes and no by turns, about one node.", "", "L1/answers",
        outcome=_SELECT, selector={"select": lambda self, node: next(_TURNS) % 2 == 0}),
    "StatelessByName": Fault(
        "Calls its selector stateless, and counts.", "", "L1/stateless", outcome=_SELECT,
        selector={"stateless": True, "seen": 0, "select": _counted,
                  "reset": lambda self: setattr(self, "seen", 0)}),
    "RaisesInSelect": Fault("Raises when it is asked about a node.", "", _ONE, outcome=_SELECT,
        selector={"select": by.raising(LookupError("no rule for this operator"))}),
    "TakesByTurns": Fault(
        "Takes everything in one bind and nothing in the next.", "", _ONE, outcome=_SELECT,
        strategy={"__init__": _drawn_by_turns, "create_selector":
                  lambda self, graph: EveryNode() if self.takes else _NoNode()}),
    "FiltersIn": Fault(
        "Keeps nodes in its filter that it was not shown.", "", "L2/two_roots", outcome=_SELECT,
        selector={"select": lambda self, node: node.op_type != "Add", "filter": _filtered_in}),
    "RaisesInCompile": Fault("Claims what it cannot compile, and does not give it back.", "", _ONE,
        outcome=Outcome.FAIL_COMPILE,
        strategy={"create_operator": by.raising(RuntimeError("it ran out of registers"))}),
    "CompilesToNothing": Fault(
        "Returns a class for an operator.", "", _ONE, outcome=Outcome.FAIL_COMPILE,
        strategy={"create_operator": lambda self, subgraph, context: WrappedOperator}),
    "DeclaresWhatPasses": Fault(
        "Declares that a case fails which does not.", "", "L2/chain", outcome=_CONTRACT,
        backend={"conformance": classmethod(
            lambda cls, suite: suite.xfail("L2/chain", "chains were not supported once"))}),
    "ClaimsNothing": Fault("Is never wrong, for it never does anything.", "", "L2/chain",
        outcome=Outcome.UNCLAIMED, backend={"selector_class": _NoNode}),
}
# fmt: on
"""By the name of the backend's class; those of one level together."""
