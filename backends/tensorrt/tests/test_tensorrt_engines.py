"""Engines over time on the double of TensorRT: graphs, weights, storing, failures, telling."""

import numpy as np
import pytest

from backends.tensorrt.tests.double_road import GROWING, PICKED, SUM, Opened, X, summed, weighted
from subgraphkit.backend import ON_DEVICE, InnerTime
from subgraphkit.errors import CompileError, ExecutionError
from subgraphkit_tensorrt.running.regions import restore

# -- CUDA graphs ---------------------------------------------------------------------------------


def test_runs_of_equal_shapes_are_recorded_and_launched(double):
    opened = Opened(GROWING, double, cuda_graphs="auto", dims={"n": (1, 4, 8)})
    opened.check(2, 4, 2, 4, 2, 4)
    # two are recorded; that of the smaller shape once more, for scratch memory has grown
    assert double.cuda.launches == 3
    (between,) = opened(X, outputs=[ON_DEVICE])
    kept = np.asarray(between)
    opened(X * 3)
    np.testing.assert_array_equal(np.asarray(between), kept)
    np.testing.assert_array_equal(opened(between)[0], summed(summed(X)))


# -- weights -------------------------------------------------------------------------------------


def test_an_engine_that_is_not_refittable_says_so(double):
    opened = Opened(weighted(np.eye(3)), double)
    assert not opened.operator.update_weights({"w": np.float32(np.eye(3) * 2)})
    np.testing.assert_array_equal(opened(X)[0], X)


@pytest.mark.parametrize("refused", [1, 2])
@pytest.mark.parametrize("how", ["refuses_refits", "refuses_refitters"])
def test_engines_of_which_one_does_not_take_new_weights_keep_the_old(double, how, refused):
    model = weighted(np.eye(3))
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    opened, asked = Opened(model, double, refittable=True, dynamic="exact"), []
    inputs = (X, X[:1])
    before = [opened(one)[0] for one in inputs]

    def refuse(*_):
        asked.append(None)
        setattr(double, how, len(asked) == refused)

    double.meanwhile("Refitter.__init__", refuse)
    assert not opened.operator.update_weights({"w": np.float32(np.eye(3) * 2)})
    for one, kept in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(opened(one)[0], kept)


def test_weights_that_are_streamed_get_the_budget_asked_for_and_no_graph(double):
    given = {"weight_streaming": True, "weight_streaming_budget": 20, "cuda_graphs": "auto"}
    opened = Opened(weighted(np.eye(3)), double, **given)
    for _ in range(3):
        np.testing.assert_array_equal(opened(X)[0], X)
    (engine,) = opened.operator.info()["engines"]
    assert (engine["memory"]["weight_budget_bytes"], engine["graph_launches"]) == (20, 0)


# -- storing -------------------------------------------------------------------------------------


def test_plans_are_restored_for_a_subgraph_of_other_names(double):
    stored = Opened(SUM, double).operator.serialize()
    assert stored is not None
    other = Opened(SUM.replace("x", "b").replace("y", "a"), double)
    restored = restore(stored, other.subgraph, double.library, other.context)
    np.testing.assert_array_equal(restored.run([X])[0], summed(X))


@pytest.mark.parametrize("damage", ["short", "longer", "version", "magic", "other"])
def test_a_stored_plan_that_does_not_fit_is_refused(double, damage):
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


def test_a_run_that_fails_quotes_what_tensorrt_said_and_the_next_one_works(double):
    opened = Opened(SUM, double)
    opened(X)
    double.refuses_runs = True
    with pytest.raises(ExecutionError, match=r"(?s)SGK163.*an illegal memory access"):
        opened(X)
    double.refuses_runs = False
    np.testing.assert_array_equal(opened(X)[0], summed(X))


def test_a_context_that_cannot_be_made_is_told(double):
    opened = Opened(SUM, double)
    double.refuses_contexts = True
    with pytest.raises(ExecutionError, match="execution context"):
        opened(X)


@pytest.mark.parametrize("model", [SUM, PICKED.replace("[n]", "[6]")])
def test_a_device_without_memory_is_told_with_its_numbers(double, model):
    opened = Opened(model, double)
    free, double.cuda.free_bytes = double.cuda.free_bytes, 0
    with pytest.raises(ExecutionError, match=r"SGK176.*GPU 0 has no"):
        opened(X if model is SUM else X.reshape(6))
    double.cuda.free_bytes = free
    opened(X if model is SUM else X.reshape(6))


def test_memory_that_is_kept_is_given_up_before_a_run_fails_for_want_of_it(double):
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
def test_a_cuda_call_that_fails_is_told_by_name(double, status, hint):
    opened = Opened(SUM, double)
    opened(X)
    double.cuda.failing["cudaMemcpyAsync"] = status
    with pytest.raises(ExecutionError, match=f"SGK174.*MemcpyAsync returned {status}") as caught:
        opened(X)
    assert hint in caught.value.hint
    double.cuda.failing.clear()
    np.testing.assert_array_equal(opened(X)[0], summed(X))


def test_an_engine_that_finds_no_memory_is_a_coded_error(double):
    whole, double.cuda.free_bytes = double.cuda.free_bytes, 100
    with pytest.raises(CompileError, match=r"SGK162.*load an engine"):
        Opened(SUM, double)
    double.cuda.free_bytes = whole
    np.testing.assert_array_equal(Opened(SUM, double)(X)[0], summed(X))


def test_a_plan_that_carries_code_for_the_host_is_not_loaded(double):
    given = {"VERSION_COMPATIBLE": True}
    with pytest.raises(CompileError, match=r"(?s)SGK162.*EXCLUDE_LEAN_RUNTIME leaves it out"):
        Opened(SUM, double, builder=given)
    without = Opened(SUM, double, builder={**given, "EXCLUDE_LEAN_RUNTIME": True})
    np.testing.assert_array_equal(without(X)[0], summed(X))


# -- telling -------------------------------------------------------------------------------------


def test_the_memory_of_an_engine_is_what_tensorrt_says(double):
    opened = Opened(weighted(np.eye(3)), double)
    memory = opened.operator.info()["engines"][0]["memory"]
    assert memory["weight_bytes"] == 36
    assert memory["scratch_bytes"] == 3 * 512
    assert memory["plan_bytes"] > 36
    (again,) = restore(
        opened.operator.serialize(), opened.subgraph, double.library, opened.context
    ).info()["engines"]
    assert again["memory"] == memory  # a stored plan knows it as well


def test_a_profile_has_the_times_of_layers_and_leaves_the_operator_as_it_is(double):
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
