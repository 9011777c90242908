"""The official cases and the real architectures on oneDNN, NumPy taking what it refuses."""

import warnings
from collections import defaultdict

import numpy as np
import onnxruntime
import pytest
from onnx.backend.test.runner import Runner

from subgraphkit import InferenceSession
from subgraphkit.testing.light_models import LIGHT_MODELS, seeded_feeds, seeded_model
from subgraphkit.testing.official_cases import OfficialCase, official_cases
from subgraphkit_onednn.lowering import LOWERINGS
from tests.models import skip_if_large

FED = {"Pow", "ReduceMean", "ReduceSum", "Reshape", "Resize", "Squeeze", "Unsqueeze", "Upsample"}
"""Operators whose official cases feed what must be constant here, such as axes or scales."""
CASES: dict[str, list[OfficialCase]] = defaultdict(list)
for _case in official_cases("node"):
    if _case.operator in LOWERINGS or _case.operator in {"Attention", "GroupNormalization"}:
        CASES[_case.operator].append(_case)

MODELS = ("squeezenet", "shufflenet", "resnet50")
MODELS = (*MODELS, *sorted({*LIGHT_MODELS} - {*MODELS}))
"""One of each kind first: concatenations, groups, and branches that are added up."""


@pytest.mark.parametrize("operator", sorted(CASES))
def test_whatever_is_claimed_of_the_official_cases_is_right(operator: str) -> None:
    claimed = 0
    for case in CASES[operator]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # onnx's own generators warn
            session = InferenceSession(case.model, backend="onednn,numpy")
            backends = [subgraph.backend for subgraph in session.partitioning.subgraphs]
            if "onednn" not in backends:
                continue
            claimed += 1
            for inputs, outputs in case.data_sets():
                found = list(session.run(None, case.feeds(inputs)))
                Runner.assert_similar_outputs(outputs, found, rtol=case.rtol, atol=case.atol)
    assert claimed or operator in FED, (
        f"none of {len(CASES[operator])} cases of {operator} was claimed"
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_agrees_with_onnxruntime(name: str, pytestconfig: pytest.Config) -> None:
    skip_if_large(name, pytestconfig)
    if MODELS.index(name) > pytestconfig.getoption("--mixed-models"):
        pytest.skip("a long check: --mixed-models 9")
    model = seeded_model(name)
    feeds = seeded_feeds(model, seed=1)
    runtime = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = runtime.run(None, feeds)
    session = InferenceSession(model, backend="onednn,numpy")
    taken = sum(len(g.members) for g in session.partitioning.subgraphs if g.backend == "onednn")
    assert taken > 0.8 * sum(len(g.members) for g in session.partitioning.subgraphs)
    for _ in range(2):
        (actual,) = session.run(None, feeds)
        scale = float(np.abs(expected).max())
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=2e-5 * scale)
    session.close()
