"""Whose fault a wrong result is: the backend's or the fallback's."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from onnx import ModelProto

from subgraphkit.backend import (
    Answer,
    BindContext,
    SubgraphOperator,
    SubgraphSelector,
    Unsupported,
)
from subgraphkit.finding.registry import registered
from subgraphkit.ir import Node, Subgraph
from subgraphkit.testing import Finding, Outcome, Subject
from subgraphkit.testing.comparison import OF_OTHERS
from subgraphkit.testing.small_models import model_of
from tests.fakes import ReferenceOperator
from tests.faulty.wrapping import (
    EveryNode,
    WrappedOperator,
    WrappingBackend,
    WrappingProperty,
)
from tests.unit.testing.choosy_backends import GemmOnly

RELU_AND_TANH = "g (float[4] x) => (float[4] y) { a = Relu(x) y = Tanh(a) }"
X = np.arange(-1, 3, dtype=np.float32)
RIGHT = np.tanh(np.maximum(X, 0))


class _OfOnnx(WrappingProperty):
    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        return self.backend.operator_class(ReferenceOperator(subgraph), subgraph)


class ReluOnly(WrappingBackend):
    """Takes Relu, and computes it without the fallback."""

    property_class: ClassVar[type[WrappingProperty]] = _OfOnnx

    class _Relu(EveryNode):
        def select(self, node: Node) -> Answer:
            return node.op_type == "Relu"

    selector_class: ClassVar[type[SubgraphSelector]] = _Relu


class _Doubling(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return [result * 2 for result in super().run(inputs)]


class _GivingBack(_OfOnnx):
    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        raise Unsupported("not today")


class GivesBack(ReluOnly):
    """Gives back what it has claimed."""

    property_class: ClassVar[type[WrappingProperty]] = _GivingBack


class DoublesRelu(ReluOnly):
    """Takes Relu, and computes it wrongly."""

    operator_class: ClassVar[type[WrappedOperator]] = _Doubling


class Broken(ReluOnly):
    """Is a fallback that is wrong everywhere."""

    name: ClassVar[str] = "broken"
    selector_class: ClassVar[type[SubgraphSelector]] = EveryNode
    operator_class: ClassVar[type[WrappedOperator]] = _Doubling


class _Alternating(WrappedOperator):
    runs = 0

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        type(self).runs += 1
        return [result * (1 + type(self).runs % 2) for result in super().run(inputs)]


class WrongByTurns(ReluOnly):
    """Takes Relu, and computes it wrongly every other time."""

    operator_class: ClassVar[type[WrappedOperator]] = _Alternating


def found_in(backend: type, model: ModelProto, x: Any, expected: Any, **settings: Any) -> Finding:
    subject = Subject(target=f"{backend.__module__}:{backend.__qualname__}")
    return subject.check_model(model, [({"x": x}, [expected])], **settings)


def test_a_case_without_a_node_of_the_backend_is_neither_right_nor_wrong() -> None:
    found = found_in(GemmOnly, model_of(RELU_AND_TANH), X, RIGHT * 100)
    assert found.outcome is Outcome.UNCLAIMED
    found = found_in(GivesBack, model_of(RELU_AND_TANH), X, RIGHT * 100)
    assert found.outcome is Outcome.UNCLAIMED
    assert found.detail == "it gave back all that it had claimed"


def test_values_that_the_fallback_got_wrong_are_the_fallbacks() -> None:
    with registered(Broken, "broken"):
        found = found_in(ReluOnly, model_of(RELU_AND_TANH), X, RIGHT, fallback="broken")
        assert (found.outcome, found.detail) == (Outcome.SKIP, OF_OTHERS)
        both = found_in(DoublesRelu, model_of(RELU_AND_TANH), X, RIGHT, fallback="broken")
        assert both.outcome is Outcome.FAIL_VALUE


def test_a_wrong_subgraph_is_the_backends_fault_beside_others() -> None:
    model = model_of(RELU_AND_TANH)
    assert found_in(DoublesRelu, model, X, RIGHT).outcome is Outcome.FAIL_VALUE
    _Alternating.runs = 0
    assert found_in(WrongByTurns, model, X, RIGHT).outcome is Outcome.FAIL_VALUE
