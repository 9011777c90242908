"""Level 5: what goes wrong from run to run, in threads, in buffers and in odd feeds is caught."""

from typing import Any

import numpy as np
import onnx
import pytest

from subgraphkit.errors import InternalError
from subgraphkit.running import Session
from subgraphkit.testing import Finding, Outcome, Subject
from subgraphkit.testing.checking import drawn_batches
from subgraphkit.testing.children import Task
from subgraphkit.testing.execution import carry_out
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.operator_variants import OperatorVariant, older_operations
from subgraphkit.testing.small_models import random_graph
from subgraphkit.testing.sweeps import Sweep
from subgraphkit.testing.variants import LAYOUTS, without_foreign

CASES = cases_of_level(5, Subject("numpy"))


def found(case, backend):
    """Carry a case out on a backend of the kit."""
    return carry_out(CASES[f"L5/{case}"], Subject(target=backend))


@pytest.mark.parametrize(("fault", "case", "outcome", "text"), [
    ("ReturnsOwnBuffer", "runs/results_stay", Outcome.FAIL_ALIAS, "earlier run"),
    ("ReturnsOwnBuffer", "sessions/two_in_turn", Outcome.FAIL_ALIAS, "earlier run"),
    ("ReturnsOwnBuffer", "io_binding/new_outputs", Outcome.FAIL_VALUE, "differ"),
    ("CachesFirstResult", "threads/one_session", Outcome.FAIL_VALUE, "in thread"),
    ("CachesFirstResult", "io_binding/buffers", Outcome.FAIL_VALUE, "in the buffer"),
    ("CachesFirstResult", "runs/repeated", Outcome.FAIL_VALUE, "differ"),
    ("IgnoresStrides", "feeds/not_contiguous", Outcome.FAIL_VALUE, "differ"),
    ("IgnoresStrides", "feeds/columns_first", Outcome.FAIL_VALUE, "differ"),
    ("IgnoresStrides", "feeds/stride_zero", Outcome.FAIL_VALUE, "differ"),
    ("WritesInputs", "runs/repeated", Outcome.FAIL_ALIAS, "was written to"),
    ("RaisesInRun", "threads/one_session", Outcome.FAIL_RUN, "device lost"),
    ("WrongValue", "random_graphs/3", Outcome.FAIL_VALUE, "differ"),
    ("WrongValue", "values/not_finite", Outcome.FAIL_VALUE, "differ"),
    ("WrongShape", "shapes/scalar", Outcome.FAIL_SHAPE, "shape"),
])  # fmt: skip
def test_a_fault_is_caught_at_its_stage(fault, case, outcome, text):
    finding = found(case, f"tests.faulty:{fault}")
    assert finding.outcome is outcome
    assert text in finding.detail


def test_an_error_that_is_not_of_a_run_is_no_failed_run(monkeypatch):
    run = Session.run

    def confused(session, outputs, feeds):
        if "i" in feeds and feeds["i"].max() > len(feeds["i"]):
            raise InternalError("the plan is confused")
        return run(session, outputs, feeds)

    monkeypatch.setattr(Session, "run", confused)
    finding = found("errors/travel", "subgraphkit.testing.foreign:LoopbackBackend")
    assert finding.is_wrong
    assert "the plan is confused" in finding.detail


@pytest.mark.parametrize("form", LAYOUTS)
def test_a_form_has_the_layout_it_is_named_after_and_keeps_the_values(form):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    made = LAYOUTS[form](array)
    flags: dict[str, Any] = {
        "read_only": not made.flags.writeable,
        "not_contiguous": not made.flags.contiguous,
        "backwards": min(made.strides) < 0,
        "columns_first": made.flags.f_contiguous and not made.flags.c_contiguous,
        "stride_zero": made.strides[0] == 0,
        "big_endian": made.dtype.byteorder == ">",
        "not_aligned": not made.flags.aligned,
    }
    assert flags[form]
    assert made.shape == array.shape
    if form != "stride_zero":
        np.testing.assert_array_equal(made, array)


def test_random_graphs_are_cut_by_foreign_nodes_and_their_numbers_stay_small():
    for seed in range(8):
        graph = random_graph(seed)
        assert any(node.domain for node in graph.proto.graph.node)
        onnx.checker.check_model(without_foreign(graph.proto), full_check=True)
        results = graph.expected_outputs(graph.feeds())
        for value, result in zip(graph.proto.graph.output, results, strict=True):
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            assert list(result.shape) == shape
            assert np.abs(result).max() < 100


def test_operators_that_lose_nan_are_fed_infinities_of_which_they_make_none():
    texts = "Max(x[N], z[N])", "HardSwish(x[N])", "Abs(x[N])"
    rows = [(OperatorVariant("arithmetic", "equal", "float16", text), 500) for text in texts]
    fed = Sweep(rows).special(0, frozenset({"HardSwish", "Max"}))
    met = {name: (np.isinf(one).any(), np.isnan(one).any()) for name, one in fed.items()}
    wanted = {"x_0": (True, False), "x_1": (False, False), "x_2": (True, True)}
    assert met == {**wanted, "z_0": (True, False)}


def test_what_operators_compute_comes_before_all_else():
    tasks = [Task(Finding(Outcome.SKIP, case=name, level=5), 1.0) for name in CASES]
    groups = [task.case.case.split("/")[1] for (task,) in drawn_batches(tasks, 3)]
    operators, versions = groups.count("operators"), groups.count("versions")
    first = ["operators"] * operators + ["versions"] * versions
    assert groups[: len(first)] == first


@pytest.mark.parametrize(("family", "derived"), [
    ("arithmetic", {("Clip", 10), ("Dropout", 11)}),
    ("movement", {("Pad", 10), ("Slice", 9), ("Split", 12), ("Squeeze", 12), ("Pad", 17)}),
    ("reductions", {("Softmax", 12), ("ReduceSum", 12), ("ReduceMean", 17), ("TopK", 9)}),
    ("windows", {("BatchNormalization", 13), ("AveragePool", 18), ("MaxPool", 9)}),
    ("normalisations", {("Upsample", 9), ("Resize", 10), ("LSTM", 13)}),
    ("quantised", {("QuantizeLinear", 12), ("DequantizeLinear", 20)}),
])  # fmt: skip
def test_lines_come_for_each_operator_set_in_which_an_operator_was_another(family, derived):
    older = older_operations(family)
    assert derived <= {(name, one.opset) for one in older for name in one.operators}
    assert len(older) == len(set(older))


def test_softmax_of_an_older_operator_set_goes_over_all_axes_behind_its_own():
    (older,) = (
        one
        for one in older_operations("reductions")
        if (one.operators, one.opset) == (("Softmax",), 12) and "axis=1" in one.text
    )
    model = Sweep([(older, 5)])
    (wanted,) = model.expected_outputs(model.feeds())
    assert np.allclose(wanted.array.sum(axis=(1, 2)), 1.0)
