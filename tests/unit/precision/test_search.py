"""Which nodes a search keeps, how it says so, and how it ends."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from subgraphkit.errors import CallerError
from subgraphkit.precision import (
    Precision,
    calibrate,
    measure_accuracy,
    precision_search,
    rewrite,
)
from tests.models import parsed

FP16 = Precision("fp16")
OVERFLOWING = """g (float[N,8] x) => (float[N,8] y) <float big = {300}, float small = {0.00001}>
{ a = Relu(x) b = Mul(a, big) c = Mul(b, b) d = Mul(c, small) e = Add(d, x) y = Tanh(e) }"""
CANCELLING = """g (float[N,8] x) => (float[N,8] y) <float t = {1000}>
{ a = Relu(x) b = Neg(a) f = Add(b, t) g = Sub(f, t) h = Neg(g) y = Tanh(h) }"""


def batches(count: int = 2, width: int = 8) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    return [{"x": rng.standard_normal((16, width)).astype(np.float32)} for _ in range(count)]


def test_a_product_that_overflows_is_kept_with_the_node_that_reads_it() -> None:
    found = precision_search(parsed(OVERFLOWING), FP16, batches(), min_snr=60)
    assert list(found.kept) == ["c", "d"]
    assert found.accuracy.min_snr >= 60
    assert found.kept["c"] == "Mul c: what is finite is not any more"
    assert "2 of 6 nodes stay" in found.to_text()


def test_where_large_numbers_cancel_what_made_them_is_kept_too() -> None:
    found = precision_search(parsed(CANCELLING), FP16, batches(), max_error=1e-3)
    assert found.kept.keys() == {"f", "g", "y"}  # the worst of a ranking
    assert found.accuracy.max_error <= 1e-3
    assert "dB come in" in found.kept["g"]


def test_a_rewriting_within_the_bound_is_taken_as_it_is() -> None:
    found = precision_search(parsed(CANCELLING), FP16, batches(), min_snr=10)
    assert (found.kept, found.trials) == ({}, 1)
    assert found.rewriting.model == rewrite(parsed(CANCELLING), FP16).model


def test_what_was_found_is_a_precision_that_makes_the_same_model() -> None:
    asked = replace(FP16, keep=("Tanh",))
    found = precision_search(parsed(OVERFLOWING), asked, batches(), min_snr=60)
    assert found.precision.keep[0] == "Tanh"
    done = rewrite(parsed(OVERFLOWING), found.precision)
    assert done.model == found.rewriting.model
    report = measure_accuracy(parsed(OVERFLOWING), done.model, batches())
    assert report.outputs == found.accuracy.outputs


def test_a_bound_that_float32_alone_keeps_is_told_with_the_best_that_was_reached() -> None:
    with pytest.raises(CallerError, match=r"SGK237.*no node may be rewritten.*the best was") as e:
        precision_search(parsed(CANCELLING), FP16, batches(), max_error=0.0)
    assert "rewritten" in e.value.message


def test_a_search_needs_a_bound_and_batches_that_last() -> None:
    with pytest.raises(CallerError, match=r"SGK234.*give max_error or min_snr"):
        precision_search(parsed(OVERFLOWING), FP16, batches())
    with pytest.raises(CallerError, match=r"SGK234.*once per trial"):
        precision_search(parsed(OVERFLOWING), FP16, iter(batches()), min_snr=60)


def test_in_int8_a_product_with_a_few_huge_inputs_is_found() -> None:
    rng = np.random.default_rng(5)
    weights = [rng.standard_normal((32, 32)).astype(np.float32) / 6 for _ in range(3)]
    spread = np.ones(32, np.float32)
    spread[7] = 2000
    weights[1][:, 7] /= 2000
    weights[2][7] /= 2000
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w0"], ["a"]),
            helper.make_node("MatMul", ["a", "w1"], ["b"]),
            helper.make_node("Mul", ["b", "spread"], ["c"]),
            helper.make_node("Mul", ["c", "spread"], ["d"]),
            helper.make_node("MatMul", ["d", "w2"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, ["N", 32])],
        [helper.make_tensor_value_info("y", 1, ["N", 32])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
        + [numpy_helper.from_array(spread, "spread")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    given = batches(4, 32)
    ranges = calibrate(model, given)
    asked = Precision("int8", min_input_snr=0.0)
    assert rewrite(model, asked, ranges).changed == ("a", "b", "y")
    found = precision_search(model, asked, given, min_snr=25, ranges=ranges)
    assert list(found.kept) == ["y"]
    assert found.rewriting.changed == ("a", "b")


def test_a_search_without_floating_point_outputs_is_refused() -> None:
    model = parsed("g (float[N,8] x) => (int64[N,1] y) { a = Relu(x) y = ArgMax <axis = 1> (a) }")
    with pytest.raises(CallerError, match="SGK234"):
        precision_search(model, FP16, batches(), min_snr=60)
