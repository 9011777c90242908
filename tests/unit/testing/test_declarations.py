"""What a backend declares, and whose fault a wrong case is."""

from typing import ClassVar

import numpy as np
import pytest

from subgraphkit.backend import Conformance, SubgraphSelector, Unsupported, hookimpl
from subgraphkit.errors import ConfigError
from subgraphkit.finding.registry import registered
from subgraphkit.testing import Case, Finding, Outcome, Subject
from subgraphkit.testing.comparison import OF_OTHERS
from subgraphkit.testing.execution import carry_out
from subgraphkit.testing.small_models import model_of
from tests.fakes import ReferenceOperator
from tests.faulty.wrapping import EveryNode, WrappedOperator, WrappingBackend, WrappingProperty
from tests.unit.testing.choosy_backends import GemmOnly


def judged(outcome, needs=(), case="L3/Conv/plain"):
    subject = Subject("declaring")
    return carry_out(Case(case, lambda _: Finding(outcome), needs=needs), subject)


class Declaring(WrappingBackend):
    name = "declaring"

    @classmethod
    def conformance(cls, suite):
        suite.xfail("L3/Conv/*", "no dilations")
        suite.skip("L3/Loop/*", "loops take the machine down")
        suite.lacks("threads", "the library has one context per process")
        suite.tolerance("float16", rtol=0.1, atol=0.2)


@pytest.fixture(autouse=True)
def _declaring():
    with registered(Declaring):
        yield


def test_an_expected_failure_that_comes_is_no_failure():
    found = judged(Outcome.FAIL_VALUE)
    assert found.outcome is Outcome.XFAIL
    assert found.detail.startswith("no dilations")


@pytest.mark.parametrize("outcome", [Outcome.RIGHT, Outcome.UNCLAIMED, Outcome.PASSED])
def test_an_expected_failure_that_does_not_come_is_a_failure(outcome):
    found = judged(outcome)
    assert found.outcome is Outcome.FAIL_CONTRACT
    assert "declared to go wrong (no dilations), and it did not" in found.detail


def test_a_declaration_is_of_the_cases_it_names_and_no_others():
    assert judged(Outcome.FAIL_VALUE, case="L3/Relu/plain").outcome is Outcome.FAIL_VALUE


def test_what_must_not_be_tried_is_skipped_with_the_reason():
    found = judged(Outcome.FAIL_VALUE, case="L3/Loop/plain")
    assert (found.outcome, found.detail) == (Outcome.SKIP, "loops take the machine down")


def test_a_case_that_needs_what_the_backend_lacks_is_skipped_with_both_reasons():
    found = judged(Outcome.RIGHT, needs=("threads",), case="L7/threads")
    assert found.outcome is Outcome.SKIP
    assert "several threads" in found.detail
    assert "one context per process" in found.detail


def test_declared_tolerances_reach_the_subject():
    assert Subject("declaring").declarations.tolerances == {"float16": (0.1, 0.2)}


def test_a_case_that_raises_breaks_the_contract():
    def broken(_):
        raise LookupError("lost")

    found = carry_out(Case("L3/Relu/x", broken), Subject("declaring"))
    assert (found.outcome, found.detail) == (Outcome.FAIL_CONTRACT, "LookupError: lost")


@pytest.mark.parametrize("declare", [
    lambda suite: suite.lacks("telepathy", "no"),
    lambda suite: suite.lacks("threads", " "),
    lambda suite: suite.xfail("", "no"),
    lambda suite: suite.xfail("L3/*", ""),
    lambda suite: suite.skip("L3/*", ""),
    lambda suite: suite.tolerance("float16", rtol=-1.0, atol=0.0),
    lambda suite: suite.tolerance("float16", rtol=float("nan"), atol=0.0),
])  # fmt: skip
def test_a_declaration_that_says_nothing_is_refused(declare):
    with pytest.raises(ConfigError, match="SGK310"):
        declare(Conformance())


def test_a_backend_given_as_hooks_declares_by_a_hook():
    class Hooks:
        @hookimpl
        def subgraphkit_backend(self, options):
            return Declaring(options)

        @hookimpl
        def subgraphkit_conformance(self, suite):
            suite.xfail("L4/*", "models are too big")

    with registered(Hooks(), name="hooked"):
        declared = Subject("hooked").declarations
    assert declared.xfails == {"L3/Conv/*": "no dilations", "L4/*": "models are too big"}


RELU_AND_TANH = "g (float[4] x) => (float[4] y) { a = Relu(x) y = Tanh(a) }"
X = np.arange(-1, 3, dtype=np.float32)
RIGHT = np.tanh(np.maximum(X, 0))


class _OfOnnx(WrappingProperty):
    def create_operator(self, subgraph, context):
        return self.backend.operator_class(ReferenceOperator(subgraph), subgraph)


class ReluOnly(WrappingBackend):
    """Takes Relu, and computes it without the fallback."""

    property_class: ClassVar[type[WrappingProperty]] = _OfOnnx

    class _Relu(EveryNode):
        def select(self, node):
            return node.op_type == "Relu"

    selector_class: ClassVar[type[SubgraphSelector]] = _Relu


class _Doubling(WrappedOperator):
    def run(self, inputs, outputs=None):
        return [result * 2 for result in super().run(inputs)]


class _GivingBack(_OfOnnx):
    def create_operator(self, subgraph, context):
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

    def run(self, inputs, outputs=None):
        type(self).runs += 1
        return [result * (1 + type(self).runs % 2) for result in super().run(inputs)]


class WrongByTurns(ReluOnly):
    """Takes Relu, and computes it wrongly every other time."""

    operator_class: ClassVar[type[WrappedOperator]] = _Alternating


def found_in(backend, model, x, expected, **settings):
    subject = Subject(target=f"{backend.__module__}:{backend.__qualname__}")
    return subject.check_model(model, [({"x": x}, [expected])], **settings)


def test_a_case_without_a_node_of_the_backend_is_neither_right_nor_wrong():
    found = found_in(GemmOnly, model_of(RELU_AND_TANH), X, RIGHT * 100)
    assert found.outcome is Outcome.UNCLAIMED
    found = found_in(GivesBack, model_of(RELU_AND_TANH), X, RIGHT * 100)
    assert found.outcome is Outcome.UNCLAIMED
    assert found.detail == "it gave back all that it had claimed"


def test_values_that_the_fallback_got_wrong_are_the_fallbacks():
    with registered(Broken, "broken"):
        found = found_in(ReluOnly, model_of(RELU_AND_TANH), X, RIGHT, fallback="broken")
        assert (found.outcome, found.detail) == (Outcome.SKIP, OF_OTHERS)
        both = found_in(DoublesRelu, model_of(RELU_AND_TANH), X, RIGHT, fallback="broken")
        assert both.outcome is Outcome.FAIL_VALUE


def test_a_wrong_subgraph_is_the_backends_fault_beside_others():
    model = model_of(RELU_AND_TANH)
    assert found_in(DoublesRelu, model, X, RIGHT).outcome is Outcome.FAIL_VALUE
    _Alternating.runs = 0
    assert found_in(WrongByTurns, model, X, RIGHT).outcome is Outcome.FAIL_VALUE
