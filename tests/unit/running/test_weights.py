"""Weights that change under a running session."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import WeightUpdateError
from tests.fakes import ReferenceOperator, WeightedOperator, claiming
from tests.models import LINEAR, parsed

X = np.ones((1, 3), np.float32)
BOTH = ("MatMul", "Add")


def value(session: sk.Session) -> list[float]:
    return session.run(None, {"x": X})[0][0].tolist()


def bias(*values: float) -> dict[str, np.ndarray]:
    return {"bias": np.array(values, np.float32)}


@pytest.mark.parametrize(
    ("make", "outcome"), [(WeightedOperator, "refitted"), (ReferenceOperator, "recompiled")]
)
def test_an_operator_refits_or_is_compiled_again_and_says_which(make: Any, outcome: str) -> None:
    session = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH, make=make)])
    assert value(session) == [19, 32]
    assert session.update_weights(bias(0, 0)) == {"fake_0": outcome}
    assert value(session) == [9, 12]
    assert session.weight_versions == {"bias": 1}


def test_only_the_subgraphs_that_use_a_weight_are_touched() -> None:
    session = sk.InferenceSession(
        parsed(LINEAR), [claiming(["MatMul"], "one"), claiming(["Add"], "two")]
    )
    before = session.plan.steps
    assert session.update_weights(bias(1, 1)) == {"two_1": "recompiled"}
    assert session.plan.steps[0].operator is before[0].operator
    assert before[1].operator.closed == 1  # type: ignore[attr-defined]
    assert value(session) == [10, 13]


def test_new_weights_are_copied() -> None:
    session = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH, make=WeightedOperator)])
    changed = bias(0, 0)
    session.update_weights(changed)
    changed["bias"][:] = 100
    assert value(session) == [9, 12]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"nothing": np.zeros(2, np.float32)}, "no weight 'nothing'"),
        ({"bias": np.zeros(3, np.float32)}, "weight 'bias' is float32[2]; the new value is"),
        ({"bias": np.zeros(2)}, "float64"),
    ],
)
def test_weights_that_do_not_fit_are_refused(changed: dict[str, Any], told: str) -> None:
    session = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH)])
    with pytest.raises(WeightUpdateError) as refusal:
        session.update_weights(changed)
    assert refusal.value.code == "SGK133"
    assert told in str(refusal.value)
    assert value(session) == [19, 32]


class Stubborn(ReferenceOperator):
    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        raise MemoryError("no room for two engines")


def test_old_weights_are_put_back_when_a_subgraph_cannot_take_new_ones() -> None:
    session = sk.InferenceSession(
        parsed(LINEAR),
        [
            claiming(["MatMul"], "soft", make=WeightedOperator),
            claiming(["Add"], "hard", make=Stubborn),
        ],
    )
    changed = bias(0, 0) | {"w": np.zeros((3, 2), np.float32)}
    with pytest.raises(WeightUpdateError, match="no room for two engines"):
        session.update_weights(changed)
    assert value(session) == [19, 32]
    assert session.weight_versions == {}


def test_an_output_that_is_a_weight_shows_the_new_value() -> None:
    text = "g (float[2] x) => (float[2] w) <float[2] w = {1, 2}> { y = Relu(x) }"
    session = sk.InferenceSession(parsed(text), [claiming(["Relu"])])
    session.update_weights({"w": np.array([8, 9], np.float32)})
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [8, 9]
