"""How much accuracy a rewriting costs, and the search for what to keep."""

import math
from dataclasses import replace

import numpy as np
import pytest

from subgraphkit.errors import CallerError
from subgraphkit.precision import Precision, calibrate, measure_accuracy, precision_search, rewrite
from tests.models import CHAIN, parsed

ONE = {"x": np.array([[1, -1, 3, 0]], np.float32)}
TWO = {"x": np.array([[2, 2, 2, 2]], np.float32)}


def adds(number):
    weight = f"<float w = {{{number}}}>"
    return f"g (float[N,4] x) => (float[N,4] y) {weight} {{ a = Relu(x) y = Add(a, w) }}"


def test_figures_are_those_of_all_batches_together():
    report = measure_accuracy(parsed(adds(1.0)), parsed(adds(1.5)), [ONE, TWO])
    (y,) = report.outputs
    right = np.array([2, 1, 4, 1, 3, 3, 3, 3.0])
    assert (y.elements, y.max_abs, y.mean_abs, y.largest) == (8, 0.5, 0.5, 4.0)
    assert y.snr_db == pytest.approx(10 * math.log10((right**2).sum() / (8 * 0.25)))
    other = right + 0.5
    assert y.cosine == pytest.approx(right @ other / np.linalg.norm(right) / np.linalg.norm(other))
    assert report.batches == 2
    assert "y" in report.to_text()


def test_inner_values_are_compared_where_both_models_have_them():
    report = measure_accuracy(parsed(adds(1.0)), parsed(adds(1.0)), [ONE], values=True)
    assert [one.name for one in report.values] == ["a"]
    assert report.outputs[0].snr_db == math.inf
    lowered = rewrite(parsed(CHAIN), "fp16").model
    compared = measure_accuracy(parsed(CHAIN), lowered, [ONE], values=True)
    assert [one.name for one in compared.values] == ["a", "b"]


def test_what_is_not_finite_any_more_is_counted_and_outweighs_all_that_is():
    body = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) z = Sub(x, x) y = Div(a, z) }"
    with np.errstate(all="ignore"):
        report = measure_accuracy(parsed(adds(0.0)), parsed(body), [TWO, ONE], values=True)
    (y,) = report.outputs
    assert (y.elements, y.not_finite, y.largest) == (8, 8, 3.0)
    assert (y.max_abs, y.mean_abs, y.snr_db) == (math.inf, math.inf, -math.inf)
    assert math.isnan(y.cosine)
    assert report.min_snr == -math.inf
    assert not report.meets(min_snr=-1000)
    assert report.not_finite == "8 of 8 values of output 'y' are not finite, first in Add 'y'"
    told = r"SGK236.*8 of 8 values of output 'y' are not finite, .*\(it reaches 3\)"
    for bounds in ({"min_snr": 40}, {"max_error": 1e9}):
        with pytest.raises(CallerError, match=told):
            report.check(**bounds)


def test_what_is_infinite_in_the_original_as_well_is_no_error():
    body = "g (float[N,4] x) => (float[N,4] y) { z = Sub(x, x) y = Div(x, z) }"
    with np.errstate(all="ignore"):
        report = measure_accuracy(parsed(body), parsed(body), [ONE])
    assert (report.max_error, report.min_snr, report.not_finite) == (0.0, math.inf, "")


def test_a_bound_that_is_missed_is_an_error():
    report = measure_accuracy(parsed(adds(1.0)), parsed(adds(1.5)), [ONE])
    assert report.min_snr == report.outputs[0].snr_db
    report.check(0.5, min_snr=report.min_snr - 0.1)
    for bounds, told in (({"max_error": 0.4}, "0.4 at most"), ({"min_snr": 40}, "40 dB at least")):
        with pytest.raises(CallerError, match=rf"SGK236.*'y' is off by 0.5, expected {told}"):
            report.check(**bounds)


def test_the_report_says_in_which_node_error_is_born():
    body = """g (float[N,4] x) => (float[N,4] y) <float t = {1000}>
    { a = Relu(x) b = Add(a, t) c = Sub(b, t) y = Neg(c) }"""
    lowered = rewrite(parsed(body), "fp16").model
    feeds = {"x": np.linspace(0.1, 1.3, 40, dtype=np.float32).reshape(-1, 4)}
    worst, *rest = measure_accuracy(parsed(body), lowered, [feeds], values=True).layers
    assert (worst.node, worst.op_type, worst.output) == ("c", "Sub", "c")
    assert worst.input_snr_db - worst.snr_db > 40
    assert "y" not in {one.node for one in rest}  # it only passes error on


def test_what_ceases_to_be_finite_is_told_where_it_does_and_does_not_hide_the_rest():
    body = """g (float[N,4] x) => (float[N,4] y) <float big = {300}, float t = {1000}>
    { b = Mul(x, big) c = Mul(b, b) d = Add(c, c) e = Add(x, t) f = Sub(e, t) y = Add(d, f) }"""
    lowered = rewrite(parsed(body), "fp16").model
    feeds = {"x": np.array([[0.1, 0.3, 0.2, 2]], np.float32)}
    first, second, *rest = measure_accuracy(parsed(body), lowered, [feeds], values=True).layers
    assert (first.node, first.born, first.snr_db) == ("c", math.inf, -math.inf)
    assert first.to_text() == "what is finite is not any more"
    assert second.node == "f"
    assert not [one for one in rest if math.isinf(one.born)]


def test_no_batch_is_refused():
    with pytest.raises(CallerError, match="SGK234"):
        measure_accuracy(parsed(CHAIN), parsed(CHAIN), [])


def test_results_of_different_shapes_are_an_infinite_error():
    body = """g (float[N,4] x) => (float[M] y) <float w = {LIMIT}, int64[1] all = {-1}>
    { b = Greater(x, w) c = Reshape(b, all) y = Compress(x, c) }"""
    few, many = (parsed(body.replace("LIMIT", limit)) for limit in ("2", "-9"))
    report = measure_accuracy(many, few, [ONE, TWO])
    assert report.max_error == math.inf
    assert report.min_snr == -math.inf
    assert not report.meets(max_error=1e9)


def test_a_model_without_floating_point_outputs_cannot_be_measured():
    model = parsed("g (float[N,4] x) => (int64[N,1] y) { a = Relu(x) y = ArgMax <axis = 1> (a) }")
    with pytest.raises(CallerError, match=r"SGK234.*no output of the model is floating point"):
        measure_accuracy(model, model, [ONE])


FP16 = Precision("fp16")
OVERFLOWING = """g (float[N,8] x) => (float[N,8] y) <float big = {300}, float small = {0.00001}>
{ a = Relu(x) b = Mul(a, big) c = Mul(b, b) d = Mul(c, small) e = Add(d, x) y = Tanh(e) }"""
CANCELLING = """g (float[N,8] x) => (float[N,8] y) <float t = {1000}>
{ a = Relu(x) b = Neg(a) f = Add(b, t) g = Sub(f, t) h = Neg(g) y = Tanh(h) }"""


def batches(count=2, width=8):
    rng = np.random.default_rng(3)
    return [{"x": rng.standard_normal((16, width)).astype(np.float32)} for _ in range(count)]


def test_a_product_that_overflows_is_kept_with_the_node_that_reads_it():
    found = precision_search(parsed(OVERFLOWING), FP16, batches(), min_snr=60)
    assert list(found.kept) == ["c", "d"]
    assert found.accuracy.min_snr >= 60
    assert found.kept["c"] == "Mul c: what is finite is not any more"
    assert "2 of 6 nodes stay" in found.to_text()


def test_where_large_numbers_cancel_what_made_them_is_kept_too():
    found = precision_search(parsed(CANCELLING), FP16, batches(), max_error=1e-3)
    assert found.kept.keys() == {"f", "g", "y"}  # the worst of a ranking
    assert found.accuracy.max_error <= 1e-3
    assert "dB come in" in found.kept["g"]


def test_a_rewriting_within_the_bound_is_taken_as_it_is():
    found = precision_search(parsed(CANCELLING), FP16, batches(), min_snr=10)
    assert (found.kept, found.trials) == ({}, 1)
    assert found.rewriting.model == rewrite(parsed(CANCELLING), FP16).model


def test_what_was_found_is_a_precision_that_makes_the_same_model():
    asked = replace(FP16, keep=("Tanh",))
    found = precision_search(parsed(OVERFLOWING), asked, batches(), min_snr=60)
    assert found.precision.keep[0] == "Tanh"
    done = rewrite(parsed(OVERFLOWING), found.precision)
    assert done.model == found.rewriting.model
    report = measure_accuracy(parsed(OVERFLOWING), done.model, batches())
    assert report.outputs == found.accuracy.outputs


def test_a_bound_that_float32_alone_keeps_is_told_with_the_best_that_was_reached():
    with pytest.raises(CallerError, match=r"SGK237.*no node may be rewritten.*the best was") as e:
        precision_search(parsed(CANCELLING), FP16, batches(), max_error=0.0)
    assert "rewritten" in e.value.message


def test_a_search_needs_a_bound_and_batches_that_last():
    with pytest.raises(CallerError, match=r"SGK234.*give max_error or min_snr"):
        precision_search(parsed(OVERFLOWING), FP16, batches())
    with pytest.raises(CallerError, match=r"SGK234.*once per trial"):
        precision_search(parsed(OVERFLOWING), FP16, iter(batches()), min_snr=60)


def test_in_int8_a_product_with_a_few_huge_inputs_is_found():
    rng = np.random.default_rng(5)
    weights = [rng.standard_normal((32, 32)).astype(np.float32) / 6 for _ in range(3)]
    spread = np.ones(32, np.float32)
    spread[7] = 2000
    weights[1][:, 7] /= 2000
    weights[2][7] /= 2000
    text = """g (float[N,32] x) => (float[N,32] y) { a = MatMul(x, w0) b = MatMul(a, w1)
        c = Mul(b, spread) d = Mul(c, spread) y = MatMul(d, w2) }"""
    named = {f"w{at}": weight for at, weight in enumerate(weights)}
    model = parsed(text, spread=spread, **named)
    given = batches(4, 32)
    ranges = calibrate(model, given)
    asked = Precision("int8", min_input_snr=0.0)
    assert rewrite(model, asked, ranges).changed == ("a", "b", "y")
    found = precision_search(model, asked, given, min_snr=25, ranges=ranges)
    assert list(found.kept) == ["y"]
    assert found.rewriting.changed == ("a", "b")


def test_a_search_without_floating_point_outputs_is_refused():
    model = parsed("g (float[N,8] x) => (int64[N,1] y) { a = Relu(x) y = ArgMax <axis = 1> (a) }")
    with pytest.raises(CallerError, match="SGK234"):
        precision_search(model, FP16, batches(), min_snr=60)
