"""Cases of operators and models: those of ONNX, and those of ones own."""

from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.test_case import TestCase

from subgraphkit.comparing import tolerance_for
from subgraphkit.testing import Finding, Outcome, Subject, check_backend
from subgraphkit.testing import official_cases as official
from subgraphkit.testing.checking import drawn_batches
from subgraphkit.testing.children import Task
from subgraphkit.testing.comparison import difference_of_draws, draws, repeat_rows
from subgraphkit.testing.execution import carry_out, carry_out_in_one_model
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.official_cases import official_cases
from tests.models import CHAIN, parsed

LOOPBACK = Subject(target="subgraphkit.testing.foreign:LoopbackBackend")
VARIANTS = ("alone", "sandwiched", "folded")


@cache
def all_cases():
    """Return all cases of level 3; onnx takes seconds to compute them."""
    return cases_of_level(3, LOOPBACK)


def found(case, backend="subgraphkit.testing.foreign:LoopbackBackend"):
    """Carry a case out on a backend of the kit."""
    return carry_out(all_cases()[case], Subject(target=backend))


def faulty(case, name):
    """Carry a case out on a backend that computes something wrong."""
    return found(case, f"tests.faulty:{name}")


def test_every_official_case_is_run_alone_and_every_plain_one_sandwiched():
    names = {case.name: case for case in official_cases("node")}
    forms: dict[str, set[str]] = {}
    for case in all_cases():
        _, _, name, form = case.split("/")
        forms.setdefault(name, set()).add(form)
    assert forms.keys() == names.keys()
    for name, case_ in names.items():
        assert forms[name] - {"folded"} == (
            {"alone"} if case_.is_expanded else {"alone", "sandwiched"}
        )


@pytest.mark.parametrize("form", VARIANTS)
@pytest.mark.parametrize("name", [
    "Conv/test_conv_with_strides_padding",
    "Resize/test_resize_upsample_scales_linear",
    "Loop/test_loop13_seq",
    "StringConcat/test_string_concat",
    "QuantizeLinear/test_quantizelinear_e4m3fn",
    "Dropout/test_training_dropout_mask",
    "SequenceInsert/test_sequence_insert_at_back",
])  # fmt: skip
def test_what_is_taken_and_right_is_right_in_every_form(name, form):
    finding = found(f"L3/{name}/{form}")
    assert (finding.outcome, finding.detail) == (Outcome.RIGHT, "")
    assert finding.taken


@pytest.mark.parametrize("form", VARIANTS)
@pytest.mark.parametrize(("fault", "outcome"), [
    ("WrongValue", Outcome.FAIL_VALUE),
    ("WrongDtype", Outcome.FAIL_DTYPE),
    ("WrongShape", Outcome.FAIL_SHAPE),
    ("RaisesInRun", Outcome.FAIL_RUN),
    ("OutputsTooFew", Outcome.FAIL_RUN),
])  # fmt: skip
def test_a_wrong_result_is_caught_at_its_stage_in_every_form(fault, outcome, form):
    assert faulty(f"L3/Add/test_add_bcast/{form}", fault).outcome is outcome


def test_whoever_ignores_strides_is_caught_between_foreign_nodes_only():
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
def test_what_is_drawn_is_checked_by_what_it_must_have_in_common(name):
    case = next(case for case in official_cases("node") if case.name == name)
    ((inputs, _),) = case.data_sets()
    feeds = case.feeds(inputs)
    assert draws(case, feeds)
    model, feeds = repeat_rows(case.model, feeds)
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


def jointly(operator, form, backend):
    """Carry the cases of an operator out in one model."""
    cases = [
        case
        for name, case in all_cases().items()
        if name.startswith(f"L3/{operator}/") and name.endswith(f"/{form}") and case.batch_key
    ]
    return cases, carry_out_in_one_model(cases, Subject(target=backend))


@pytest.mark.parametrize("form", VARIANTS)
@pytest.mark.parametrize("operator", ["Slice", "Gather"])
def test_cases_in_one_model_are_right_if_each_is(operator, form):
    cases, findings = jointly(operator, form, "subgraphkit.testing.foreign:LoopbackBackend")
    assert findings is not None
    assert len(cases) > 2
    assert [one.case for one in findings] == [case.id for case in cases]
    assert {(one.outcome, one.taken, one.operator) for one in findings} == {
        (Outcome.RIGHT, (operator,), operator)
    }


def test_of_cases_in_one_model_those_that_are_not_taken_are_so_alone():
    _, findings = jointly("Clip", "sandwiched", "tests.faulty:ClaimsNothing")
    assert findings is not None
    assert {(one.outcome, one.taken) for one in findings} == {(Outcome.UNCLAIMED, ())}


@pytest.mark.parametrize("fault", ["WrongValue", "WrongDtype", "ReturnsInput", "WritesInputs"])
def test_nothing_is_said_of_cases_in_one_model_in_which_something_is_wrong(fault):
    operator = "Identity" if fault == "ReturnsInput" else "Clip"
    _, findings = jointly(operator, "alone", f"tests.faulty:{fault}")
    assert findings is None


def test_every_group_has_its_turn_and_the_same_seed_draws_the_same_order():
    tasks = [
        Task(Finding(Outcome.SKIP, case=case.id, level=3), 1.0, case.batch_key)
        for case in all_cases().values()
    ]
    batches = drawn_batches(tasks, 3)
    assert batches == drawn_batches(tasks, 3) != drawn_batches(tasks, 4)
    assert sorted(task.case.case for batch in batches for task in batch) == sorted(all_cases())
    groups = {name.split("/")[1] for name in all_cases()}
    first = [task.case.case.split("/")[1] for batch in batches[: len(groups)] for task in batch]
    assert sorted(first) == sorted(groups)
    assert len(batches) < len(tasks) / 2
    for batch in batches:
        assert len({task.batch_key for task in batch}) == 1
        assert len(batch) == 1 or batch[0].batch_key


pytestmark = pytest.mark.usefixtures("ready_children")

TARGET = "subgraphkit.testing.foreign:LoopbackBackend"
WRONG = "tests.faulty:WrongValue"
STRINGS = "g (string[2] x) => (string[2] y) { y = Identity(x) }"


def test_every_kind_of_model_is_there_and_each_network():
    names = list(cases_of_level(4, Subject(target=TARGET)))
    kinds = ("simple", "pytorch-converted", "pytorch-operator", "seeded", "own")
    counts = {kind: sum(name.startswith(f"L4/{kind}/") for name in names) for kind in kinds}
    assert counts["simple"] >= 23
    assert counts["pytorch-converted"] >= 82
    assert counts["pytorch-operator"] >= 35
    assert (counts["seeded"], counts["own"]) == (9, 0)


@pytest.mark.parametrize("case", [
    "simple/test_sequence_model1",
    "simple/test_strnorm_model_monday_casesensintive_upper",
    "pytorch-converted/test_Conv2d",
    "pytorch-operator/test_operator_reduced_mean",
    "seeded/squeezenet",
])  # fmt: skip
def test_a_model_is_right_on_a_right_backend_and_wrong_on_a_wrong_one(case):
    for target, outcome in ((TARGET, Outcome.RIGHT), (WRONG, Outcome.FAIL_VALUE)):
        subject = Subject(target=target)
        if target is WRONG and "strnorm" in case:
            continue  # there is nothing to add to a string
        finding = carry_out(cases_of_level(4, subject)[f"L4/{case}"], subject)
        assert finding.outcome is outcome, finding.detail


def test_what_nobody_runs_is_skipped_with_the_reason():
    subject = Subject("numpy")
    finding = carry_out(cases_of_level(4, subject)["L4/simple/test_gradient_of_add"], subject)
    assert finding.outcome is Outcome.SKIP
    assert "claimed by no backend" in finding.detail


OWN = {
    "L4/own/chain": Outcome.RIGHT,
    "L4/own/deep/bad": Outcome.FAIL_VALUE,
    "L4/own/good": Outcome.RIGHT,
    "L4/own/strings": Outcome.SKIP,
}


def _write_models(folder):
    """Write two models without data, one with data that are right, and one with wrong ones."""
    onnx.save(parsed(CHAIN), folder / "chain.onnx")
    onnx.save(parsed(STRINGS), folder / "strings.onnx")
    negated = parsed("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    for name, output in (("good", [-1, -2]), ("deep/bad", [-1, 2])):
        data = folder / name / "test_data_set_0"
        data.mkdir(parents=True)
        onnx.save(negated, folder / name / "model.onnx")
        for kind, values in (("input", [1, 2]), ("output", output)):
            tensor = numpy_helper.from_array(np.float32(values))
            (data / f"{kind}_0.pb").write_bytes(tensor.SerializeToString())


def test_models_of_ones_own_are_compared_with_what_is_stored_or_with_the_numpy_backend(tmp_path):
    _write_models(tmp_path)
    subject = Subject(target=TARGET, models=str(tmp_path))
    cases = [case for name, case in cases_of_level(4, subject).items() if "/own/" in name]
    ends = {case.id: carry_out(case, subject) for case in cases}
    assert {name: finding.outcome for name, finding in ends.items()} == OWN
    assert "cannot be made up" in ends["L4/own/strings"].detail


def test_the_directory_goes_with_the_backend_into_the_process_that_tests_it(tmp_path):
    _write_models(tmp_path)
    found = check_backend("numpy", 4, only="L4/own/*", models=str(tmp_path))
    assert {finding.case: finding.outcome for finding in found} == OWN


TEXTS = np.array([["a", "ä"]], dtype=object)
INPUTS = [
    np.float32([[1, -0.0, np.nan]]),
    np.float64(2.5),
    None,
    [np.int64([1]), [np.bool_([True, False])], []],
    TEXTS,
    helper.make_tensor("nibbles", TensorProto.INT4, [3], [-8, 0, 7]),
]


@pytest.fixture
def computed(tmp_path, monkeypatch):
    """Return the kinds that onnx was asked to compute, of which there is one case."""
    case = TestCase("test_a", "", None, None, parsed(CHAIN), [(INPUTS, [TEXTS])], "node", 0.25, 0.5)
    asked: list[str] = []

    def collect(operator):
        assert operator is None
        asked.append("node")
        return [case]

    monkeypatch.setattr(official, "collect_testcases", collect)
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return asked


def kept(folder):
    return folder / "cache" / "backends" / "official-cases" / "node"


def written_down(value):
    """Write down types and bits of a value."""
    if value is None or isinstance(value, list):
        return value and [written_down(element) for element in value]
    bits = value.tolist() if value.dtype == object else value.tobytes()
    return type(value), value.dtype, value.shape, bits, value.flags.writeable


def test_what_was_computed_once_is_read_bit_by_bit(computed):
    expected = [written_down(official.as_value(value)) for value in INPUTS]
    for _ in range(2):
        (case,) = official._node_cases()
        assert (case.name, case.rtol, case.atol) == ("test_a", 0.25, 0.5)
        assert case.model == parsed(CHAIN)
        ((inputs, outputs),) = case.data_sets
        assert [written_down(official.as_value(value)) for value in inputs] == expected
        assert official.as_value(outputs[0]).tolist() == TEXTS.tolist()
    assert computed == ["node"]


def test_cases_of_other_versions_and_damaged_are_computed_again(computed, tmp_path, monkeypatch):
    official._node_cases()
    monkeypatch.setattr(official, "_VERSIONS", b"onnx 1.99.0")
    assert len(official._node_cases()) == 1
    assert len(computed) == 2
    kept(tmp_path).write_bytes(kept(tmp_path).read_bytes()[:-1])
    assert len(official._node_cases()) == 1
    assert len(computed) == 3
    assert b"onnx 1.99.0" in kept(tmp_path).read_bytes()
