"""Filters that name nothing: operators that do not exist, and patterns that match no node."""

import logging
from typing import Any

import pytest

from backends.tensorrt.tests.tensorrt_claims import divided, homes, parsed
from backends.tensorrt.tests.tensorrt_models import needs_rtx
from subgraphkit.errors import OptionError

pytestmark = needs_rtx
CHAIN = "g (float[4] x) => (float[4] z) { a = Relu(x) b = Exp(a) c = Tanh(b) z = Neg(c) }"


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    return [text for text in found if "filters of backend" in text]


@pytest.mark.parametrize("option", ["exclude_ops", "only_ops"])
def test_an_operator_that_there_is_not_is_refused_with_the_one_meant(option: str) -> None:
    with pytest.raises(OptionError) as caught:
        divided(CHAIN, **{option: ["Sofmax"]})
    assert caught.value.code == "SGK112"
    assert f"option {option!r} of backend 'tensorrt' names 'Sofmax'" in caught.value.message
    assert "did you mean 'Softmax'?" in caught.value.message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"exclude_ops": ["Softmax"]}, "exclude_ops=Softmax"),
        ({"exclude_ops": ["com.acme::Twist"]}, "exclude_ops=com.acme::Twist"),
        ({"exclude_nodes": ["nosuch"]}, "exclude_nodes=nosuch"),
        ({"exclude_nodes": ["mid/ex"]}, "exclude_nodes=mid/ex; did you mean 'mid/exp'?"),
        ({"keep_fp32": ["Tahn"]}, "keep_fp32=Tahn; did you mean 'Tanh'?"),
    ],
)
def test_a_filter_that_matches_no_node_is_told_once(
    given: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = parsed(CHAIN)
    model.graph.node[1].name = "mid/exp"
    assert homes(divided(model, **given)) == {0, 1, 2, 3}
    assert _told(caplog) == [
        f"filters of backend 'tensorrt' that match no node of this model: {said}"
    ]


def test_nothing_is_told_of_filters_that_match(caplog: pytest.LogCaptureFixture) -> None:
    model = parsed(CHAIN)
    model.graph.node[1].name = "mid.exp"
    kept = ["mid\\.exp", "Ta.*", "a"]
    divided(model, exclude_ops=["Neg"], exclude_nodes=["mid.*"], keep_fp32=kept)
    assert _told(caplog) == []
