"""The conformance kit on the NumPy backend: operators, models and run-time, every case counted."""

import warnings

import onnx
import pytest

from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.backend import Unsupported
from subgraphkit.testing import Outcome, Subject, run_checks, sweep_cases
from subgraphkit.testing.cases import batches
from subgraphkit.testing.execution import carry_out, carry_out_in_one_model
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.official_cases import KINDS, official_cases

NUMPY = Subject("numpy")
# Networks with seeded weights are held against this backend; tests/road compares it with others.
CASES = {
    case.id: case
    for level in (3, 4, 5)
    for case in cases_of_level(level, NUMPY).values()
    if not case.id.startswith("L4/seeded/")
}
OPERATORS = [case for case in CASES.values() if case.level == 3]
"""Those that may be in one model are, as the kit has them; what is wrong there is tried alone."""

BATCHES = {f"{it[0].id}+{len(it) - 1}": it for it in batches(OPERATORS, lambda it: it.batch_key)}
COUNTS = {"node": 1884, "simple": 23, "pytorch-converted": 82, "pytorch-operator": 35}
GRADIENTS = ("test_gradient_of_add", "test_gradient_of_add_and_mul")
NOT_OFFERED = {
    "L3/Constant/test_constant/alone": Outcome.PASSED,
    "L3/Constant/test_constant/sandwiched": Outcome.PASSED,
    # all of them are taken with open sizes
    **{f"L5/sizes/fixed/{one}": Outcome.PASSED for one in ("attention", "windows")},
    **{f"L4/simple/{name}": Outcome.SKIP for name in GRADIENTS},
}


def test_every_case_of_every_kind_is_here():
    counts = {kind: len(official_cases(kind)) for kind in KINDS}
    if onnx.__version__.startswith("1.23."):
        assert counts == COUNTS
    assert all(counts[kind] >= count for kind, count in COUNTS.items())
    named = {name.split("/")[2] for name in CASES if name.startswith("L3/")}
    assert named == {case.name for case in official_cases("node")}


@pytest.mark.filterwarnings("ignore")  # onnx's cases are made with what NumPy has deprecated
@pytest.mark.parametrize("name", BATCHES)
def test_operators(name, pytestconfig):
    alone = pytestconfig.getoption("--all-cases") or len(BATCHES[name]) == 1
    jointly = None if alone else carry_out_in_one_model(BATCHES[name], NUMPY)
    found = jointly or [carry_out(case, NUMPY) for case in BATCHES[name]]
    assert [one.case for one in found] == [case.id for case in BATCHES[name]]
    wrong = [one for one in found if one.outcome is not NOT_OFFERED.get(one.case, Outcome.RIGHT)]
    assert wrong == []


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.level > 3])
def test_conformance(name, pytestconfig, monkeypatch):
    if not pytestconfig.getoption("--all-cases"):
        monkeypatch.setattr(sweep_cases, "_WIDTHS", sweep_cases._WIDTHS[::3])
        monkeypatch.setattr(sweep_cases, "_SECONDS", 3.0)
        monkeypatch.setattr(run_checks, "_MANY_RUNS", 10)
    with warnings.catch_warnings():
        # onnx's own implementations convert NaN to integers and use what NumPy has deprecated
        warnings.simplefilter("ignore")
        found = carry_out(CASES[name], NUMPY)
    assert found.outcome is NOT_OFFERED.get(name, Outcome.RIGHT), found.detail


@pytest.mark.parametrize("name", GRADIENTS)
def test_what_is_for_training_is_refused_by_name(name):
    case = next(case for case in official_cases("simple") if case.name == name)
    with pytest.raises(Unsupported, match=r"Gradient.*no implementation"):
        compile_model(case.model)
