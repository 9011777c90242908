"""The conformance kit on ONNX Runtime, a sample of it, and real models with NumPy beside it."""

import warnings

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.partitioning import Constraints
from subgraphkit.testing import Outcome, Subject
from subgraphkit.testing.judging import carry_out
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.light_models import seeded_feeds, seeded_model

ORT = Subject("onnxruntime")
SAMPLE = dict(list(cases_of_level(3, ORT).items())[::16]) | {
    name: case for name, case in cases_of_level(4, ORT).items() if name.startswith("L4/real/")
}
"""A sample of the operators, and the nine networks that the onnx wheel ships."""

FINE = {Outcome.RIGHT, Outcome.UNCLAIMED, Outcome.REFUSED, Outcome.XFAIL, Outcome.PASSED}


@pytest.mark.parametrize("name", SAMPLE)
def test_conformance(name: str) -> None:
    with warnings.catch_warnings():
        # onnx's own test cases are made with what NumPy has deprecated
        warnings.simplefilter("ignore")
        found = carry_out(SAMPLE[name], ORT)
    assert found.outcome in FINE, found.detail
    if name.startswith("L4/"):
        assert found.outcome is Outcome.RIGHT


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_real_model_is_right_with_some_operators_elsewhere(name: str) -> None:
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
