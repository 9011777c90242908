"""The conformance kit on ONNX Runtime, a sample of it, and real models with NumPy beside it."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.partitioning import Constraints
from subgraphkit.testing import Outcome, Subject
from subgraphkit.testing.execution import carry_out
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.light_models import seeded_feeds, seeded_model

ORT = Subject("onnxruntime")
SAMPLE = list(cases_of_level(3, ORT).values())[::16]
FINE = {Outcome.RIGHT, Outcome.UNCLAIMED, Outcome.REFUSED, Outcome.XFAIL, Outcome.PASSED}


@pytest.mark.filterwarnings("ignore")  # onnx's cases are made with what NumPy has deprecated
@pytest.mark.parametrize("part", range(3))
def test_a_sample_of_the_operators_is_right(part):
    findings = [carry_out(case, ORT) for case in SAMPLE[part::3]]
    assert [one for one in findings if one.outcome not in FINE] == []
    assert sum(one.outcome is Outcome.RIGHT for one in findings) > 60


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_real_model_is_right_with_some_operators_elsewhere(name):
    model = seeded_model(name)
    feeds = seeded_feeds(model)
    bound = sk.bind(sk.load(model.SerializeToString()), backend="onnxruntime,numpy")
    results = []
    for excluded in ((), ("MaxPool", "Concat")):
        constraints = Constraints(exclusions={"onnxruntime": excluded})
        partitioning = sk.partition(bound, constraints=constraints)
        backends = {one.backend for one in partitioning.subgraphs}
        assert backends == ({"onnxruntime", "numpy"} if excluded else {"onnxruntime"})
        operators = sk.compile_subgraphs(partitioning)
        with sk.Session(sk.plan(partitioning, operators)) as session:
            results.append(session.run(None, feeds)[0])
    whole, mixed = results
    np.testing.assert_allclose(mixed, whole, rtol=1e-3, atol=1e-5 * np.abs(whole).max())
