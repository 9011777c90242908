"""Level 4: the models ONNX ships, the nine networks, and a directory of the user's own."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from subgraphkit.testing import Outcome, Subject, check_backend
from subgraphkit.testing.execution import carry_out
from subgraphkit.testing.levels import cases_of_level
from tests.models import CHAIN, parsed

pytestmark = pytest.mark.usefixtures("ready_children")

LOOPBACK = "subgraphkit.testing.foreign:LoopbackBackend"
WRONG = "tests.faulty:WrongValue"
STRINGS = "g (string[2] x) => (string[2] y) { y = Identity(x) }"


def test_every_kind_of_model_is_there_and_each_network() -> None:
    names = list(cases_of_level(4, Subject(target=LOOPBACK)))
    kinds = ("simple", "pytorch-converted", "pytorch-operator", "seeded", "own")
    counts = {kind: sum(name.startswith(f"L4/{kind}/") for name in names) for kind in kinds}
    assert counts["simple"] >= 23
    assert counts["pytorch-converted"] >= 82
    assert counts["pytorch-operator"] >= 35
    assert (counts["seeded"], counts["own"]) == (9, 0)


@pytest.mark.parametrize(
    "case",
    [
        "simple/test_sequence_model1",
        "simple/test_strnorm_model_monday_casesensintive_upper",
        "pytorch-converted/test_Conv2d",
        "pytorch-operator/test_operator_reduced_mean",
        "seeded/squeezenet",
    ],
)
def test_a_model_is_right_on_a_right_backend_and_wrong_on_a_wrong_one(case: str) -> None:
    for target, outcome in ((LOOPBACK, Outcome.RIGHT), (WRONG, Outcome.FAIL_VALUE)):
        subject = Subject(target=target)
        if target is WRONG and "strnorm" in case:
            continue  # there is nothing to add to a string
        finding = carry_out(cases_of_level(4, subject)[f"L4/{case}"], subject)
        assert finding.outcome is outcome, finding.detail


def test_what_nobody_runs_is_skipped_with_the_reason() -> None:
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


def _write_models(folder: Path) -> None:
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


def test_models_of_ones_own_are_compared_with_what_is_stored_or_with_the_numpy_backend(
    tmp_path: Path,
) -> None:
    _write_models(tmp_path)
    subject = Subject(target=LOOPBACK, models=str(tmp_path))
    cases = [case for name, case in cases_of_level(4, subject).items() if "/own/" in name]
    ends = {case.id: carry_out(case, subject) for case in cases}
    assert {name: finding.outcome for name, finding in ends.items()} == OWN
    assert "cannot be made up" in ends["L4/own/strings"].detail


def test_the_directory_goes_with_the_backend_into_the_process_that_tests_it(tmp_path: Path) -> None:
    _write_models(tmp_path)
    found = check_backend("numpy", 4, only="L4/own/*", models=str(tmp_path))
    assert {finding.case: finding.outcome for finding in found} == OWN
