"""The kit learns what a backend takes, and holds it against the contract with that."""

import pytest

from subgraphkit.testing import Outcome, Report, Subject
from subgraphkit.testing.execution import carry_out
from subgraphkit.testing.levels import cases_of_level
from tests.faulty import ClaimsNothing, RaisesInSelect
from tests.unit.testing import choosy_backends as choosy

pytestmark = pytest.mark.usefixtures("ready_children")

TRIED = (
    "L1/operator/repeated_runs",
    "L1/operator/no_shared_memory",
    "L1/operator/buffers",
    "L2/one_node",
    "L2/diamond_with_a_foreign_middle",
    "L2/weights_shared_by_two_subgraphs",
)
"""A few cases that every backend is to have a part in, whatever it takes."""


def subject_of(backend):
    return Subject(target=f"{backend.__module__}:{backend.__qualname__}")


def findings(backend, cases=TRIED):
    subject = subject_of(backend)
    levels = {level: cases_of_level(level, subject) for level in (1, 2, 5)}
    return [carry_out(levels[int(case[1])][case], subject) for case in cases]


@pytest.mark.parametrize(("backend", "operator"), [
    (choosy.ConvRuns, "Conv"),
    (choosy.WholeRuns, "BatchNormalization"),
    (choosy.GemmOnly, "Gemm"),
    (choosy.QuantizedOnly, "QLinearConv"),
    (choosy.HalfOnly, "MatMul"),
    (choosy.FixedOnly, "Relu"),
    (choosy.AttentionOnly, "Attention"),
    (choosy.SortingOnly, "TopK"),
], ids=lambda one: getattr(one, "__name__", one))  # fmt: skip
def test_a_choosy_backend_is_held_against_the_contract_with_what_it_takes(backend, operator):
    found = findings(backend)
    assert [one.outcome for one in found] == [Outcome.RIGHT] * len(TRIED), found
    assert operator in {name for one in found for name in one.taken}
    assert Report(backend.__name__, found).is_passed


def test_a_fault_shows_in_what_a_choosy_backend_takes():
    found = findings(
        choosy.QuantizedThatWrites,
        ("L1/operator/inputs_left_alone", "L2/value_used_inside_and_outside"),
    )
    assert [one.outcome for one in found] == [Outcome.FAIL_ALIAS] * 2
    assert "with QLinearConv in its place" in found[1].detail


def test_a_profile_may_be_silent_about_what_computes_nothing_and_about_nothing_else():
    case = ("L1/operator/times_inside",)
    (silent,) = findings(choosy.SilentIdentity, case)
    assert (silent.outcome, silent.detail.startswith("its nodes compute nothing")) == (
        Outcome.SKIP,
        True,
    )
    (wrong,) = findings(choosy.SilentGemm, case)
    assert wrong.outcome is Outcome.FAIL_CONTRACT
    assert "recorded nothing of a run" in wrong.detail


def test_a_backend_that_claims_nothing_passes_nothing_and_fails_nothing():
    found = findings(ClaimsNothing, ("L1/operator/repeated_runs", "L5/runs/repeated"))
    assert {(one.outcome, one.taken) for one in found} == {(Outcome.UNCLAIMED, ())}
    report = Report("idle", found)
    assert [one.result for one in report.levels] == ["nothing claimed"] * 2
    assert not report.is_passed


def test_a_selector_that_raises_is_a_finding_and_not_asked_for_ever():
    found = findings(RaisesInSelect)
    assert {one.outcome for one in found} == {Outcome.FAIL_SELECT}
    assert "LookupError: no rule for" in found[0].detail


def test_what_is_claimed_is_learned_with_its_type_and_as_a_whole():
    assert {offer.element_type for offer in subject_of(choosy.HalfOnly).claims} == {"float16"}
    assert [offer.operators for offer in subject_of(choosy.WholeRuns).claims] == [
        ("Conv", "BatchNormalization", "Relu")
    ]


@pytest.mark.parametrize(
    ("backend", "operator"), [(choosy.GridOnly, "GridSample"), (choosy.DeterminantOnly, "Det")]
)
def test_who_takes_one_rare_operator_is_tried_on_that(backend, operator):
    claims = subject_of(backend).claims
    assert {offer.operators for offer in claims} == {(operator,)}
    found = findings(backend)
    assert [one.outcome for one in found] == [Outcome.RIGHT] * len(TRIED), found
    assert Report(backend.__name__, found).is_passed


@pytest.mark.parametrize(("backend", "name", "outcome"), [
    (choosy.SaysThatItFlushes, "operators/arithmetic", Outcome.RIGHT),
    (choosy.SaysThatItLosesSigns, "sizes/open/arithmetic", Outcome.RIGHT),
    (choosy.SaysThatItLosesSigns, "operators/arithmetic", Outcome.FAIL_VALUE),
])  # fmt: skip
def test_who_declares_to_lack_some_numbers_is_tried_on_all_others(backend, name, outcome):
    subject = subject_of(backend)
    found = carry_out(cases_of_level(5, subject)[f"L5/{name}"], subject)
    assert found.outcome is outcome, found
