"""How far a rewritten model is from the original."""

import math

import numpy as np
import pytest

from subgraphkit.comparing.accuracy import measure_accuracy
from subgraphkit.errors import CallerError
from subgraphkit.onnx_io.precision import rewrite
from tests.models import CHAIN, parsed

ONE = {"x": np.array([[1, -1, 3, 0]], np.float32)}
TWO = {"x": np.array([[2, 2, 2, 2]], np.float32)}


def adds(number: float) -> str:
    weight = f"<float w = {{{number}}}>"
    return f"g (float[N,4] x) => (float[N,4] y) {weight} {{ a = Relu(x) y = Add(a, w) }}"


def test_figures_are_those_of_all_batches_together() -> None:
    report = measure_accuracy(parsed(adds(1.0)), parsed(adds(1.5)), [ONE, TWO])
    (y,) = report.outputs
    right = np.array([2, 1, 4, 1, 3, 3, 3, 3.0])
    assert (y.elements, y.max_abs, y.mean_abs, y.largest) == (8, 0.5, 0.5, 4.0)
    assert y.snr_db == pytest.approx(10 * math.log10((right**2).sum() / (8 * 0.25)))
    other = right + 0.5
    assert y.cosine == pytest.approx(right @ other / np.linalg.norm(right) / np.linalg.norm(other))
    assert report.batches == 2
    assert "y" in report.to_text()


def test_inner_values_are_compared_where_both_models_have_them() -> None:
    report = measure_accuracy(parsed(adds(1.0)), parsed(adds(1.0)), [ONE], values=True)
    assert [one.name for one in report.values] == ["a"]
    assert report.outputs[0].snr_db == math.inf
    lowered = rewrite(parsed(CHAIN), "fp16").model
    compared = measure_accuracy(parsed(CHAIN), lowered, [ONE], values=True)
    assert [one.name for one in compared.values] == ["a", "b"]


def test_nan_on_one_side_is_an_infinite_error() -> None:
    body = "g (float[N,4] x) => (float[N,4] y) { z = Sub(x, x) y = Div(z, z) }"
    with np.errstate(all="ignore"):
        report = measure_accuracy(parsed(adds(0.0)), parsed(body), [ONE])
    assert report.max_error == math.inf
    with pytest.raises(CallerError, match="SGK236"):
        report.check(1e9)


def test_a_bound_that_is_missed_is_an_error() -> None:
    report = measure_accuracy(parsed(adds(1.0)), parsed(adds(1.5)), [ONE])
    report.check(0.5)
    with pytest.raises(
        CallerError, match=r"SGK236.*output 'y' is off by 0.5, expected 0.4 at most"
    ):
        report.check(0.4)


def test_no_batch_is_refused() -> None:
    with pytest.raises(CallerError, match="SGK234"):
        measure_accuracy(parsed(CHAIN), parsed(CHAIN), [])
