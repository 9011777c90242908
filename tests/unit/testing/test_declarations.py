"""What authors declare, and how strictly it is taken."""

from typing import Any

import pytest

from subgraphkit.backend import Conformance, hookimpl
from subgraphkit.errors import ConfigError
from subgraphkit.finding.registry import registered
from subgraphkit.testing import Case, Finding, Outcome, Subject
from subgraphkit.testing.execution import carry_out
from tests.faulty.wrapping import WrappingBackend


def judged(outcome: Outcome, needs: tuple[str, ...] = (), case: str = "L3/Conv/plain") -> Finding:
    subject = Subject("declaring")
    return carry_out(Case(case, 3, lambda _: Finding(outcome), needs=needs), subject)


class Declaring(WrappingBackend):
    name = "declaring"

    @classmethod
    def conformance(cls, suite: Conformance) -> None:
        suite.xfail("L3/Conv/*", "no dilations")
        suite.skip("L3/Loop/*", "loops take the machine down")
        suite.lacks("threads", "the library has one context per process")
        suite.tolerance("float16", rtol=0.1, atol=0.2)


@pytest.fixture(autouse=True)
def _declaring() -> Any:
    with registered(Declaring):
        yield


def test_an_expected_failure_that_comes_is_no_failure() -> None:
    found = judged(Outcome.FAIL_VALUE)
    assert found.outcome is Outcome.XFAIL
    assert found.detail.startswith("no dilations")


@pytest.mark.parametrize("outcome", [Outcome.RIGHT, Outcome.UNCLAIMED, Outcome.PASSED])
def test_an_expected_failure_that_does_not_come_is_a_failure(outcome: Outcome) -> None:
    found = judged(outcome)
    assert found.outcome is Outcome.FAIL_CONTRACT
    assert "declared to go wrong (no dilations), and it did not" in found.detail


def test_a_declaration_is_of_the_cases_it_names_and_no_others() -> None:
    assert judged(Outcome.FAIL_VALUE, case="L3/Relu/plain").outcome is Outcome.FAIL_VALUE


def test_what_must_not_be_tried_is_skipped_with_the_reason() -> None:
    found = judged(Outcome.FAIL_VALUE, case="L3/Loop/plain")
    assert (found.outcome, found.detail) == (Outcome.SKIP, "loops take the machine down")


def test_a_case_that_needs_what_the_backend_lacks_is_skipped_with_both_reasons() -> None:
    found = judged(Outcome.RIGHT, needs=("threads",), case="L7/threads")
    assert found.outcome is Outcome.SKIP
    assert "several threads" in found.detail
    assert "one context per process" in found.detail


def test_declared_tolerances_reach_the_subject() -> None:
    assert Subject("declaring").declarations.tolerances == {"float16": (0.1, 0.2)}


def test_a_case_that_raises_breaks_the_contract() -> None:
    def broken(_: Subject) -> Finding:
        raise LookupError("lost")

    found = carry_out(Case("L3/Relu/x", 3, broken), Subject("declaring"))
    assert (found.outcome, found.detail) == (Outcome.FAIL_CONTRACT, "LookupError: lost")


@pytest.mark.parametrize(
    "declare",
    [
        lambda suite: suite.lacks("telepathy", "no"),
        lambda suite: suite.lacks("threads", " "),
        lambda suite: suite.xfail("", "no"),
        lambda suite: suite.xfail("L3/*", ""),
        lambda suite: suite.skip("L3/*", ""),
        lambda suite: suite.tolerance("float16", rtol=-1.0, atol=0.0),
        lambda suite: suite.tolerance("float16", rtol=float("nan"), atol=0.0),
    ],
)
def test_a_declaration_that_says_nothing_is_refused(declare: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        declare(Conformance())
    assert caught.value.code == "SGK310"


def test_a_backend_given_as_hooks_declares_by_a_hook() -> None:
    class Hooks:
        @hookimpl
        def subgraphkit_backend(self, options: Any) -> WrappingBackend:
            return Declaring(options)

        @hookimpl
        def subgraphkit_conformance(self, suite: Conformance) -> None:
            suite.xfail("L4/*", "models are too big")

    with registered(Hooks(), name="hooked"):
        declared = Subject("hooked").declarations
    assert declared.xfails == {"L3/Conv/*": "no dilations", "L4/*": "models are too big"}
