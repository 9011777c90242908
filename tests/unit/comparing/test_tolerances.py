"""One table says how far results may be off, and everybody who compares results reads it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import onnx
import pytest

from subgraphkit.backend import Conformance
from subgraphkit.comparing import Schedule, bench, first_difference, tolerance_for, verify
from subgraphkit.errors import BackendLoadError
from subgraphkit.finding.registry import registered
from subgraphkit.precision import measure_accuracy
from subgraphkit.testing import Outcome, Subject
from subgraphkit.types import DataType
from tests.fakes import claiming
from tests.models import parsed

pytestmark = pytest.mark.usefixtures("ready_children")

_FEEDS: Final = {"x": np.array([1, -2, 3, 4])}
ONE: Final = np.ones(3, np.float32)
_SHORT: Final = Schedule(rounds=1, warmup=0, timeout_seconds=60)


def _model(dtype, factor=1.0):
    name = dtype.onnx_name
    model = parsed(f"g ({name}[4] x) => ({name}[4] y) <{name} c> {{ a = Relu(x)  y = Mul(a, c) }}")
    value = np.full((), factor).astype(dtype.numpy)
    del model.graph.initializer[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(value, "c"))
    return model


def _feeds(dtype):
    return {"x": _FEEDS["x"].astype(dtype.numpy)}


def _by_verify(backend, dtype, factor):
    del factor
    return verify(_model(dtype), _feeds(dtype), backend).agrees


def _by_bench(backend, dtype, factor):
    del factor
    found = bench(_model(dtype), _feeds(dtype), ["numpy", backend], schedule=_SHORT)
    assert all(one.ran for one in found.measured), found
    return found.agrees


def _by_the_kit(backend, dtype, factor):
    del factor
    expected = np.maximum(_feeds(dtype)["x"], 0).astype(dtype.numpy)
    found = Subject(backend).check_model(_model(dtype), [(_feeds(dtype), [expected])])
    assert found.outcome in {Outcome.RIGHT, Outcome.FAIL_VALUE}, found
    return not found.is_wrong


def _by_a_report(backend, dtype, factor):
    # the other model is off, not the backend, which runs both
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OFF_BY_FACTOR")
        return measure_accuracy(
            _model(dtype), _model(dtype, factor), [_feeds(dtype)], backend=backend
        ).agrees


READERS: Final[dict[str, Callable[[str, DataType, float], bool]]] = {
    "verify": _by_verify,
    "bench": _by_bench,
    "kit": _by_the_kit,
    "report": _by_a_report,
}


ROWS: Final = (
    ("off", DataType.FLOAT16, 1.2e-2, False),
    ("off", DataType.FLOAT16, 3e-3, True),
    ("off", DataType.DOUBLE, 5e-8, False),
    ("off", DataType.DOUBLE, 5e-10, True),
    ("off", DataType.FLOAT, 5e-3, False),
    ("off", DataType.FLOAT, 5e-4, True),
    # what a backend declares widens the table, and never narrows it
    ("generous", DataType.FLOAT16, 1.2e-2, True),
    ("generous", DataType.FLOAT16, 5e-2, False),
    ("generous", DataType.DOUBLE, 5e-10, True),
)
# The table is one: whoever reads a part of it reads it.
READ: Final = [(n, *row) for n in READERS for row in (ROWS if n == "verify" else ROWS[::3])]


@pytest.mark.usefixtures("misbehaving")
@pytest.mark.parametrize(("reader", "backend", "dtype", "off", "agrees"), READ)
def test_all_who_compare_give_the_same_answer(reader, backend, dtype, off, *, agrees, monkeypatch):
    monkeypatch.setenv("OFF_BY_FACTOR", str(1 + off))
    assert READERS[reader](backend, dtype, 1 + off) is agrees


@pytest.mark.usefixtures("misbehaving")
@pytest.mark.parametrize(("dtype", "off", "agrees"), [
    (DataType.FLOAT16, 3e-3, True),
    (DataType.FLOAT16, 1.2e-2, False),
    (DataType.FLOAT, 5e-4, True),
    (DataType.FLOAT, 3e-3, False),
])  # fmt: skip
def test_a_result_is_as_exact_as_the_floats_it_was_computed_in(dtype, off, *, agrees, monkeypatch):
    monkeypatch.setenv("OFF_BY_FACTOR", str(1 + off))
    text = f"g ({dtype.onnx_name}[4] x) => (double[4] y) {{ a = Relu(x) y = Cast<to = 11>(a) }}"
    model, feeds = parsed(text), _feeds(dtype)
    assert verify(model, feeds, "off").agrees is agrees
    assert bench(model, feeds, ["numpy", "off"], schedule=_SHORT).agrees is agrees


def test_a_declaration_that_cannot_be_read_is_an_error_and_not_a_tolerance():
    made = claiming(["Relu"], "speechless")

    def conformance(suite):
        raise RuntimeError("no words")

    made.conformance = conformance  # type: ignore[assignment, method-assign]  # as a plugin may
    with registered(made), pytest.raises(BackendLoadError, match=r"SGK115.*no words"):
        verify(_model(DataType.FLOAT), _feeds(DataType.FLOAT), "speechless")


def test_a_declared_tolerance_widens_what_is_exact_by_a_plain_number():
    suite = Conformance()
    suite.tolerance("uint8", rtol=0.0, atol=1.0)
    numbers = np.array([10, 255], np.uint8)
    assert first_difference(numbers - 1, numbers) is not None
    assert first_difference(numbers - 1, numbers, suite.tolerance_for) is None
    assert first_difference(numbers - 2, numbers, suite.tolerance_for) is not None


def test_the_tolerance_of_an_element_type_is_the_callers_where_given():
    usual = tolerance_for(DataType.FLOAT)
    assert tolerance_for(DataType.FLOAT, 0.5).relative == 0.5
    assert tolerance_for(DataType.FLOAT, 0.5).limit(0, 1000) == usual.limit(0, 1000)
    assert tolerance_for(DataType.FLOAT, absolute=0.25).limit(0, 1000) == 0.25
    assert tolerance_for(DataType.INT64, 0.5, 0.5).limit(0, 1000) == 0


def test_a_widened_tolerance_is_nowhere_less_than_it_was():
    usual = tolerance_for(DataType.FLOAT16)
    assert usual.widened(0.0, 0.0) == usual
    assert usual.widened(0.1, 0.2).relative == 0.1
    assert usual.widened(0.1, 0.2).limit(0, 1) == 0.2
    assert usual.widened(0.1, 0.2).limit(0, 1000) == usual.limit(0, 1000)


@pytest.mark.parametrize(("actual", "stage", "text"), [
    (np.ones((3, 1), np.float32), "shape", "shape [3, 1], expected [3]"),
    (np.ones(3), "dtype", "dtype float64, expected float32"),
    ([ONE], "dtype", "a sequence, expected an array"),
    (None, "dtype", "nothing, expected an array"),
    (np.float32([1, 1, 2]), "value", "1 of 3 elements differ; at [2] expected 1, got 2"),
    (np.float32([1, np.nan, 2]), "value", "2 of 3 elements differ; at [1]"),
    (np.float32([1, np.inf, 2]), "value", "2 of 3 elements differ; at [1] expected 1, got inf"),
])  # fmt: skip
def test_what_differs_is_told_with_its_stage(actual, stage, text):
    got = first_difference(actual, ONE)
    assert got is not None
    assert got.stage == stage
    assert got.text.startswith(text)


def test_what_differs_in_a_list_is_told_with_its_place():
    assert first_difference([ONE, None], [ONE, None]) is None
    got = first_difference([[ONE * 2]], [[ONE]])
    assert got is not None
    assert (got.stage, got.text[:10]) == ("value", "[0][0]: 3 ")


def test_what_a_case_grants_widens_floats_and_leaves_integers_exact():
    judge = Subject("numpy").judge
    granting = replace(judge, least=(0.2, 5.0))
    assert judge.difference([ONE], [ONE * np.float32(1.1)]) is not None
    assert granting.difference([ONE], [ONE * np.float32(1.1)]) is None
    assert granting.difference([np.array([10])], [np.array([11])]) is not None
