"""The conformance kit on OpenVINO: a sample of the operators, real models, and most of the rest."""

import warnings

import pytest

import subgraphkit as sk
from backends.openvino.tests.openvino_road import SELECTION
from subgraphkit.testing import Outcome, Subject
from subgraphkit.testing.execution import carry_out
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.light_models import LIGHT_MODELS, seeded_model

OPENVINO = Subject("openvino")
LEVELS = {level: dict(cases_of_level(level, OPENVINO)) for level in range(1, 7)}
OPERATORS = list(LEVELS[3].values())[::16]
RUNNING = ("runs", "threads/one_session", "io_binding", "feeds", "shapes", "errors")
SAMPLE = LEVELS[1] | LEVELS[2] | LEVELS[6]
SAMPLE |= {n: c for n, c in LEVELS[5].items() if n.removeprefix("L5/").startswith(RUNNING)}
del SAMPLE["L2/chain_of_a_thousand"]
"""``author test openvino`` tries all. OpenVINO takes seconds to compile a chain like that."""

FINE = {Outcome.RIGHT, Outcome.UNCLAIMED, Outcome.REFUSED, Outcome.PASSED, Outcome.SKIP}
MODELS = ("squeezenet", "shufflenet", *sorted({*LIGHT_MODELS} - {"squeezenet", "shufflenet"}))
"""The quick ones first."""


@pytest.mark.parametrize("name", SAMPLE)
def test_conformance(name):
    with warnings.catch_warnings():
        # onnx's own test cases are made with what NumPy has deprecated
        warnings.simplefilter("ignore")
        found = carry_out(SAMPLE[name], OPENVINO)
    assert found.outcome in FINE, found.detail


@pytest.mark.filterwarnings("ignore")  # onnx's cases are made with what NumPy has deprecated
@pytest.mark.parametrize("part", range(3))
def test_a_sample_of_the_operators_is_right(part):
    findings = [carry_out(case, OPENVINO) for case in OPERATORS[part::3]]
    assert [one for one in findings if one.outcome not in FINE] == []
    assert sum(one.outcome is Outcome.RIGHT for one in findings) > 33


@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_is_right_and_in_one_region(name, pytestconfig):
    if MODELS.index(name) >= pytestconfig.getoption("--mixed-models"):
        pytest.skip("a long check: --mixed-models 9")
    found = carry_out(LEVELS[4][f"L4/seeded/{name}"], OPENVINO)
    assert found.outcome is Outcome.RIGHT, found.detail
    with sk.InferenceSession(seeded_model(name), backend=SELECTION) as opened:
        assert [one.backend for one in opened.partitioning.subgraphs] == ["openvino"]
