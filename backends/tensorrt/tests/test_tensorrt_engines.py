"""Engines over time on the double of TensorRT: graphs, weights, storing, failures, telling."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from backends.tensorrt.tests.double_road import GROWING, PICKED, SUM, Opened, X, parsed, summed
from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit.backend import ON_DEVICE, InnerTime
from subgraphkit.errors import CompileError, ExecutionError
from subgraphkit_tensorrt.running.regions import restore


def weighted(weight: Any) -> onnx.ModelProto:
    """Return a model with one weight of shape 3 by 3."""
    model = parsed("agraph (float[2,3] x) => (float[2,3] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.float32(weight), "w"))
    return model


# -- CUDA graphs ---------------------------------------------------------------------------------


def test_runs_of_equal_shapes_are_recorded_and_launched(double: Double) -> None:
    opened = Opened(GROWING, double, cuda_graphs="auto", dims={"n": (1, 4, 8)})
    for n in (2, 4, 2, 4, 2, 4):
        x = np.full((n, 3), n, np.float32)
        np.testing.assert_array_equal(opened(x)[0], summed(x))
    # two are recorded; that of the smaller shape once more, for scratch memory has grown
    assert double.cuda.launches == 3
    (between,) = opened(X, outputs=[ON_DEVICE])
    kept = np.asarray(between)
    opened(X * 3)
    np.testing.assert_array_equal(np.asarray(between), kept)
    np.testing.assert_array_equal(opened(between)[0], summed(summed(X)))


# -- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("double", ["10.3.0", "11.4.0"], indirect=True)
def test_a_refittable_engine_takes_new_weights(double: Double) -> None:
    opened = Opened(weighted(np.eye(3)), double, refittable=True)
    np.testing.assert_array_equal(opened(X)[0], X)
    assert opened.operator.update_weights({"w": np.float32(np.eye(3) * 2)})
    np.testing.assert_array_equal(opened(X)[0], X * 2)
    assert opened.operator.info()["builds_at_run_time"] == 0


def test_an_engine_that_is_not_refittable_says_so(double: Double) -> None:
    opened = Opened(weighted(np.eye(3)), double)
    assert not opened.operator.update_weights({"w": np.float32(np.eye(3) * 2)})
    np.testing.assert_array_equal(opened(X)[0], X)


def test_an_engine_that_does_not_take_new_weights_keeps_the_old(double: Double) -> None:
    opened = Opened(weighted(np.eye(3)), double, refittable=True)
    double.refuses_refits = True
    assert not opened.operator.update_weights({"w": np.float32(np.eye(3) * 2)})
    double.refuses_refits = False
    np.testing.assert_array_equal(opened(X)[0], X)


def test_weights_that_are_streamed_get_the_budget_asked_for(double: Double) -> None:
    opened = Opened(weighted(np.eye(3)), double, weight_streaming=True, weight_streaming_budget=20)
    np.testing.assert_array_equal(opened(X)[0], X)
    assert opened.operator.info()["engines"][0]["memory"]["weight_budget_bytes"] == 20


# -- storing -------------------------------------------------------------------------------------


def test_plans_are_restored_for_a_subgraph_of_other_names(double: Double) -> None:
    stored = Opened(SUM, double).operator.serialize()
    assert stored is not None
    other = Opened(SUM.replace("x", "b").replace("y", "a"), double)
    restored = restore(stored, other.subgraph, double.library, other.context)
    np.testing.assert_array_equal(restored.run([X])[0], summed(X))


@pytest.mark.parametrize("damage", ["short", "longer", "version", "magic", "other"])
def test_a_stored_plan_that_does_not_fit_is_refused(double: Double, damage: str) -> None:
    opened = Opened(SUM, double)
    stored = opened.operator.serialize()
    assert stored is not None
    place = stored.index(b"ftrt")
    wrong = {
        "short": stored[:-1],
        "longer": stored + b"x",
        "version": stored[: place + 24] + b"\x01" + stored[place + 25 :],
        "magic": stored.replace(b"ftrt", b"xxxx"),
        "other": stored,
    }[damage]
    of = Opened(PICKED, double, dims={"n": (0, 4, 64)}) if damage == "other" else opened
    with pytest.raises(CompileError, match=r"SGK1(62|72|79)"):
        restore(wrong, of.subgraph, double.library, of.context)


# -- failures ------------------------------------------------------------------------------------


def test_a_run_that_fails_quotes_what_tensorrt_said_and_the_next_one_works(double: Double) -> None:
    opened = Opened(SUM, double)
    opened(X)
    double.refuses_runs = True
    with pytest.raises(ExecutionError, match="SGK163") as caught:
        opened(X)
    assert "an illegal memory access" in str(caught.value)
    double.refuses_runs = False
    np.testing.assert_array_equal(opened(X)[0], summed(X))


def test_a_context_that_cannot_be_made_is_told(double: Double) -> None:
    opened = Opened(SUM, double)
    double.refuses_contexts = True
    with pytest.raises(ExecutionError, match="execution context"):
        opened(X)


@pytest.mark.parametrize("model", [SUM, PICKED.replace("[n]", "[6]")])
def test_a_device_without_memory_is_told_with_its_numbers(double: Double, model: str) -> None:
    opened = Opened(model, double)
    free, double.cuda.free_bytes = double.cuda.free_bytes, 0
    with pytest.raises(ExecutionError, match=r"SGK176.*GPU 0 has no"):
        opened(X if model is SUM else X.reshape(6))
    double.cuda.free_bytes = free
    opened(X if model is SUM else X.reshape(6))


def test_memory_that_is_kept_is_given_up_before_a_run_fails_for_want_of_it(double: Double) -> None:
    double.cuda.pools = True
    opened = Opened(GROWING, double, dims={"n": (1, 4, 4000)})
    kept = [opened(np.zeros((4000, 3), np.float32), outputs=[ON_DEVICE])[0] for _ in range(3)]
    memory = opened.operator._device.memory
    with opened.operator._device.slot() as slot:
        kept.clear()
        slot.wait()
        double.cuda.free_bytes = 0
        block = memory.take(2 * 48_000, slot.stream)  # more than any that is kept
        memory.give_back(block)


@pytest.mark.parametrize(("status", "hint"), [(719, "earlier kernel"), (3, "spawn")])
def test_a_cuda_call_that_fails_is_told_by_name(double: Double, status: int, hint: str) -> None:
    opened = Opened(SUM, double)
    opened(X)
    double.cuda.failing["cudaMemcpyAsync"] = status
    with pytest.raises(ExecutionError, match=f"SGK174.*MemcpyAsync returned {status}") as caught:
        opened(X)
    assert hint in caught.value.hint
    double.cuda.failing.clear()
    np.testing.assert_array_equal(opened(X)[0], summed(X))


def test_an_engine_that_finds_no_memory_is_a_coded_error(double: Double) -> None:
    whole, double.cuda.free_bytes = double.cuda.free_bytes, 100
    with pytest.raises(CompileError, match=r"SGK162.*load an engine"):
        Opened(SUM, double)
    double.cuda.free_bytes = whole
    np.testing.assert_array_equal(Opened(SUM, double)(X)[0], summed(X))


@pytest.mark.parametrize(
    ("leaves_out", "refused"), [(True, ""), (False, "EXCLUDE_LEAN_RUNTIME leaves it out")]
)
def test_a_plan_that_carries_code_for_the_host_is_not_loaded(
    double: Double, refused: str, *, leaves_out: bool
) -> None:
    given = {"VERSION_COMPATIBLE": True, "EXCLUDE_LEAN_RUNTIME": leaves_out}
    if not refused:
        np.testing.assert_array_equal(Opened(SUM, double, builder=given)(X)[0], summed(X))
        return
    with pytest.raises(CompileError, match="SGK162") as caught:
        Opened(SUM, double, builder=given)
    assert refused in caught.value.hint


# -- telling -------------------------------------------------------------------------------------


def test_the_memory_of_an_engine_is_what_tensorrt_says(double: Double) -> None:
    opened = Opened(weighted(np.eye(3)), double)
    memory = opened.operator.info()["engines"][0]["memory"]
    assert memory["weight_bytes"] == 36
    assert memory["scratch_bytes"] == 3 * 512
    assert memory["plan_bytes"] > 36
    (again,) = restore(
        opened.operator.serialize(), opened.subgraph, double.library, opened.context
    ).info()["engines"]
    assert again["memory"] == memory  # a stored plan knows it as well


def test_a_profile_has_the_times_of_layers_and_leaves_the_operator_as_it_is(double: Double) -> None:
    opened = Opened(SUM, double)
    told: list[InnerTime] = []
    twin = opened.operator.profiled(told.append)
    assert twin is not None
    np.testing.assert_array_equal(twin.run([X])[0], summed(X))
    np.testing.assert_array_equal(twin.run([X])[0], summed(X))
    assert [(one.seconds, one.nodes, one.start) for one in told] == [
        (0.0005, (0,), None),
        (0.0005, (1,), None),
    ] * 2
    opened(X)
    assert len(told) == 4
    twin.close()
    np.testing.assert_array_equal(opened(X)[0], summed(X))


def test_a_profile_has_the_weights_of_today(double: Double) -> None:
    opened = Opened(weighted(np.eye(3)), double, refittable=True)
    opened(X)
    assert opened.operator.update_weights({"w": np.float32(2 * np.eye(3))})
    twin = opened.operator.profiled(lambda _: None)
    assert twin is not None
    np.testing.assert_array_equal(twin.run([X])[0], 2 * X)
    twin.close()
