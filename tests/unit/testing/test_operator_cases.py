"""Level 3: the official cases in every form; what is wrong is caught, what is not taken is told."""

import numpy as np
import pytest

from subgraphkit.comparing import tolerance_for
from subgraphkit.testing import Case, Finding, Outcome, Subject
from subgraphkit.testing.checking import drawn_batches
from subgraphkit.testing.children import Task
from subgraphkit.testing.comparison import difference_of_draws, draws, repeated
from subgraphkit.testing.execution import carry_out, carry_out_in_one_model
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.official_cases import official_cases

LOOPBACK = Subject(target="subgraphkit.testing.foreign:LoopbackBackend")
CASES = cases_of_level(3, LOOPBACK)
VARIANTS = ("alone", "sandwiched", "folded")


def found(case: str, backend: str = "subgraphkit.testing.foreign:LoopbackBackend") -> Finding:
    """Carry a case out on a backend of the kit."""
    return carry_out(CASES[case], Subject(target=backend))


def faulty(case: str, name: str) -> Finding:
    """Carry a case out on a backend that computes something wrong."""
    return found(case, f"tests.faulty:{name}")


def test_every_official_case_is_run_alone_and_every_plain_one_sandwiched() -> None:
    names = {case.name: case for case in official_cases("node")}
    forms: dict[str, set[str]] = {}
    for case in CASES:
        _, _, name, form = case.split("/")
        forms.setdefault(name, set()).add(form)
    assert forms.keys() == names.keys()
    for name, case_ in names.items():
        assert forms[name] - {"folded"} == (
            {"alone"} if case_.is_expanded else {"alone", "sandwiched"}
        )


@pytest.mark.parametrize("form", VARIANTS)
@pytest.mark.parametrize(
    "name",
    [
        "Conv/test_conv_with_strides_padding",
        "Resize/test_resize_upsample_scales_linear",
        "Loop/test_loop13_seq",
        "StringConcat/test_string_concat",
        "QuantizeLinear/test_quantizelinear_e4m3fn",
        "Dropout/test_training_dropout_mask",
        "SequenceInsert/test_sequence_insert_at_back",
    ],
)
def test_what_is_taken_and_right_is_right_in_every_form(name: str, form: str) -> None:
    finding = found(f"L3/{name}/{form}")
    assert (finding.outcome, finding.detail) == (Outcome.RIGHT, "")
    assert finding.taken


@pytest.mark.parametrize("form", VARIANTS)
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("WrongValue", Outcome.FAIL_VALUE),
        ("WrongDtype", Outcome.FAIL_DTYPE),
        ("WrongShape", Outcome.FAIL_SHAPE),
        ("RaisesInRun", Outcome.FAIL_RUN),
        ("OutputsTooFew", Outcome.FAIL_RUN),
    ],
)
def test_a_wrong_result_is_caught_at_its_stage_in_every_form(
    fault: str, outcome: Outcome, form: str
) -> None:
    assert faulty(f"L3/Add/test_add_bcast/{form}", fault).outcome is outcome


def test_whoever_ignores_strides_is_caught_between_foreign_nodes_only() -> None:
    assert faulty("L3/Relu/test_relu/alone", "IgnoresStrides").outcome is Outcome.RIGHT
    finding = faulty("L3/Relu/test_relu/sandwiched", "IgnoresStrides")
    assert finding.outcome is Outcome.FAIL_VALUE
    assert "of 60 elements differ" in finding.detail


RANDOM = (
    "test_bernoulli",
    "test_bernoulli_seed",
    "test_bernoulli_double_expanded",
    "test_training_dropout_default_mask",
)


@pytest.mark.parametrize("name", RANDOM)
def test_what_is_drawn_is_checked_by_what_it_must_have_in_common(name: str) -> None:
    case = next(case for case in official_cases("node") if case.name == name)
    ((inputs, _),) = case.data_sets()
    feeds = case.feeds(inputs)
    assert draws(case, feeds)
    model, feeds = repeated(case.model, feeds)
    with LOOPBACK.session(model) as session:
        results = session.run(None, feeds)
    assert difference_of_draws(case, feeds, results, tolerance_for) is None
    always = [np.ones_like(results[0]), *results[1:]]
    never = [np.zeros_like(results[0]), *results[1:]]
    for wrong in (always, never):
        fault = difference_of_draws(case, feeds, wrong, tolerance_for)
        assert fault is not None
        assert fault.stage == "value"
    short = [results[0].astype(np.int8), *results[1:]]
    wide = difference_of_draws(case, feeds, short, tolerance_for)
    assert wide is not None
    assert wide.stage == "dtype"


def jointly(operator: str, form: str, backend: str) -> tuple[list[Case], list[Finding] | None]:
    """Carry the cases of an operator out in one model."""
    cases = [
        case
        for name, case in CASES.items()
        if name.startswith(f"L3/{operator}/") and name.endswith(f"/{form}") and case.batch_key
    ]
    return cases, carry_out_in_one_model(cases, Subject(target=backend))


@pytest.mark.parametrize("form", VARIANTS)
@pytest.mark.parametrize("operator", ["Slice", "Gather"])
def test_cases_in_one_model_are_right_if_each_is(operator: str, form: str) -> None:
    cases, findings = jointly(operator, form, "subgraphkit.testing.foreign:LoopbackBackend")
    assert findings is not None
    assert len(cases) > 2
    assert [one.case for one in findings] == [case.id for case in cases]
    assert {(one.outcome, one.taken, one.operator) for one in findings} == {
        (Outcome.RIGHT, (operator,), operator)
    }


def test_of_cases_in_one_model_those_that_are_not_taken_are_so_alone() -> None:
    _, findings = jointly("Clip", "sandwiched", "tests.faulty:ClaimsNothing")
    assert findings is not None
    assert {(one.outcome, one.taken) for one in findings} == {(Outcome.UNCLAIMED, ())}


@pytest.mark.parametrize("fault", ["WrongValue", "WrongDtype", "ReturnsInput", "WritesInputs"])
def test_nothing_is_said_of_cases_in_one_model_in_which_something_is_wrong(fault: str) -> None:
    operator = "Identity" if fault == "ReturnsInput" else "Clip"
    _, findings = jointly(operator, "alone", f"tests.faulty:{fault}")
    assert findings is None


def test_every_group_has_its_turn_and_the_same_seed_draws_the_same_order() -> None:
    tasks = [
        Task(Finding(Outcome.SKIP, case=case.id, level=3), 1.0, case.batch_key)
        for case in CASES.values()
    ]
    batches = drawn_batches(tasks, 3)
    assert batches == drawn_batches(tasks, 3) != drawn_batches(tasks, 4)
    assert sorted(task.case.case for batch in batches for task in batch) == sorted(CASES)
    groups = {name.split("/")[1] for name in CASES}
    first = [task.case.case.split("/")[1] for batch in batches[: len(groups)] for task in batch]
    assert sorted(first) == sorted(groups)
    assert len(batches) < len(tasks) / 2
    for batch in batches:
        assert len({task.batch_key for task in batch}) == 1
        assert len(batch) == 1 or batch[0].batch_key
