"""Operators in combination, as libraries fuse them, held against the reference implementation."""

from typing import Final

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import subgraphkit as sk
from subgraphkit.testing.combinations import PRODUCERS, combinations
from subgraphkit.testing.subject import Subject
from subgraphkit.testing.sweeps import Sweep
from tests.road.combinations import Chain, model_of

_AT_ONCE: Final = 40
_PAIRS: Final = [one for kind in PRODUCERS for one in combinations(kind, in_full=True)]
_SEED: Final = 17


@pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "onednn"])
def test_what_a_library_fuses_is_what_the_operators_compute(
    backend: str, *, is_open: bool, pytestconfig: pytest.Config
) -> None:
    pytest.importorskip(f"subgraphkit_{backend}")
    count: int = pytestconfig.getoption("--fused-combinations")
    for first in range(0, count, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, count))
        chains = [Chain(_SEED + is_open, number) for number in numbers]
        model = model_of(chains, is_open=is_open)
        feeds = {name: array for one in chains for name, array in one.feeds.items()}
        with (
            np.errstate(all="ignore"),
            sk.InferenceSession(model, f"{backend},numpy", on_fallback="ok") as opened,
        ):
            made = opened.run(None, feeds)
            wanted = ReferenceEvaluator(model).run(None, feeds)
        wrong = [
            chain.text
            for chain, got, want in zip(chains, made, wanted, strict=True)
            if got.shape != want.shape
            or not np.allclose(got, want, rtol=2e-3, atol=2e-4, equal_nan=True)
        ]
        assert wrong == []


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "onednn"])
def test_each_form_of_an_operand_behind_each_producer_is_what_the_operators_compute(
    backend: str, pytestconfig: pytest.Config
) -> None:
    pytest.importorskip(f"subgraphkit_{backend}")
    count: int = pytestconfig.getoption("--fused-combinations")
    judge = Subject(backend).judge
    chosen = [(one, 1) for one in _PAIRS[:: max(1, len(_PAIRS) // count)]]
    for first in range(0, len(chosen), 10 * _AT_ONCE):
        model = Sweep(chosen[first : first + 10 * _AT_ONCE])
        feeds = dict(model.feeds())
        with (
            np.errstate(all="ignore"),
            sk.InferenceSession(model.proto, f"{backend},numpy", on_fallback="ok") as opened,
        ):
            assert judge.difference(model.expected(feeds), opened.run(None, feeds)) is None
