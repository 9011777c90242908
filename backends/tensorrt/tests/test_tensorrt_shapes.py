"""Shapes of runs: ranges and the engines for them, those that are met, and those data makes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from backends.tensorrt.tests import double_road as road
from subgraphkit.backend import ON_DEVICE
from subgraphkit.errors import CompileError, ExecutionError
from subgraphkit_tensorrt.running.contexts import Contexts
from subgraphkit_tensorrt.running.engines import PooledEngine
from subgraphkit_tensorrt.running.regions import restore


@pytest.mark.parametrize("double", ["10.3.0", "11.4.0"], indirect=True)
def test_an_output_whose_shape_depends_on_data_is_as_long_as_it_is(double):
    opened = road.Opened(road.PICKED, double, dims={"n": (0, 4, 640)})
    for count in (4, 640, 0, 3):
        x = (np.arange(count) % 3).astype(np.float32)
        y, z = opened(x)
        np.testing.assert_array_equal(y, np.array(np.nonzero(x)))
        np.testing.assert_array_equal(z, -x)


def test_one_engine_serves_the_range_it_was_built_for(double):
    opened = road.Opened(road.GROWING, double, dims={"n": (1, 4, 8)}, allow_runtime_build=False)
    opened.check(1, 8, 3)
    with pytest.raises(ExecutionError, match=r"SGK178.*\(9, 3\)"):
        opened(np.zeros((9, 3), np.float32))


def test_a_shape_that_was_not_taken_is_set_again(double):
    opened, refusals = road.Opened(road.GROWING, double, dims={"n": (1, 4, 8)}), [MemoryError()]
    opened.check(2)

    def refuse(*_):
        if refusals:
            raise refusals.pop()

    double.meanwhile("IExecutionContext.set_input_shape", refuse)
    with pytest.raises(MemoryError):
        opened.check(4)
    opened.check(4)


THREE = {"n": [(1, 1, 1), (2, 4, 8), (1, 16, 64)]}


def test_one_engine_is_tuned_for_several_ranges_and_the_tightest_is_used(double):
    opened = road.Opened(road.GROWING, double, dims=THREE, allow_runtime_build=False)
    chosen: list[int] = []
    double.meanwhile(
        "IExecutionContext.set_optimization_profile_async",
        lambda _, profile, stream: chosen.append(profile),
    )
    opened.check(1, 8, 9, 2, 1, 64, 8)
    (engine,) = opened.operator.info()["engines"]
    assert [one["max"] for (one,) in engine["ranges"]] == [(1, 3), (8, 3), (64, 3)]
    assert engine["contexts"] == 3  # one for each range, which is chosen once
    assert chosen == [1, 2]
    with pytest.raises(ExecutionError, match=r"SGK178.*\(65, 3\).* and for \(2, 3\) to \(8, 3\)"):
        opened(np.zeros((65, 3), np.float32))
    again = restore(opened.operator.serialize(), opened.subgraph, double.library, opened.context)
    np.testing.assert_array_equal(again.run([road.X])[0], road.summed(road.X))
    assert again.info()["engines"][0]["ranges"] == engine["ranges"]


def test_a_shape_outside_every_range_gets_an_engine_of_its_own(double):
    opened = road.Opened(road.GROWING, double, max_engines=2, dims={"n": (2, 4, 8)})
    opened.check(8, 9)
    info = opened.operator.info()
    assert info["builds_at_run_time"] == 1
    assert [one["ranges"][0][0]["max"] for one in info["engines"]] == [(8, 3), (9, 3)]


def test_the_range_grows_with_the_shapes_that_are_met(double):
    opened = road.Opened(road.GROWING, double)
    opened.check(2, 4, 3, 2, 4)
    info = opened.operator.info()
    assert info["builds_at_run_time"] == 2
    assert [one["ranges"][0][0]["max"] for one in info["engines"]] == [(4, 3)]
    assert info["engines"][0]["ranges"][0][0]["min"] == (1, 3)


@pytest.mark.parametrize(("largest", "most"), [(50, 5), (300, 8)])
def test_few_of_many_lengths_build_an_engine(double, largest, most):
    opened = road.Opened(road.GROWING, double)
    opened.check(*np.random.default_rng(largest).integers(0, largest + 1, 300))
    assert opened.operator.info()["builds_at_run_time"] <= most


def test_a_range_grows_no_further_than_it_has_to_where_the_model_takes_no_more(double, monkeypatch):
    opened = road.Opened(road.GROWING, double)
    build = double.trt.Builder.build_serialized_network

    def limited(builder, network, config):
        largest = config.profiles[0].shapes["x"][2][0]
        return build(builder, network, config) if largest <= 50 else None

    monkeypatch.setattr(double.trt.Builder, "build_serialized_network", limited)
    opened.check(40, 50, 45, 40)
    info = opened.operator.info()
    assert info["builds_at_run_time"] == 2
    assert [one["ranges"][0][0]["max"] for one in info["engines"]] == [(50, 3)]


def test_the_fallback_answers_while_a_wider_engine_is_built(double, monkeypatch):
    with road.session(road.parsed(road.GROWING), double, build_behind=True) as opened:
        (step,) = opened.plan.steps

        def run(n):
            x = np.full((n, 3), n, np.float32)
            np.testing.assert_array_equal(opened.run(None, {"x": x})[0], 2 * x)

        run(2)  # waits: nothing is there yet
        may_build, build = threading.Event(), double.trt.Builder.build_serialized_network

        def slowly(*given):
            assert may_build.wait(20)
            return build(*given)

        monkeypatch.setattr(double.trt.Builder, "build_serialized_network", slowly)
        for n in (5, 2, 6, 2):
            run(n)
        info = step.operator.info()
        assert (info["runs_on_the_fallback"], info["builds_at_run_time"]) == (2, 1)
        may_build.set()
        step.operator._engines._behind.join(20)
        run(6)
        info = step.operator.info()
        assert (info["runs_on_the_fallback"], info["builds_at_run_time"]) == (2, 2)
        monkeypatch.setattr(double.trt.Builder, "build_serialized_network", lambda *_: None)
        run(20)
        step.operator._engines._behind.join(20)
        with pytest.raises(CompileError, match="SGK172"):
            run(20)  # after one that nobody waited for, somebody is told


@pytest.mark.parametrize(
    "when", ["Builder.build_serialized_network", "Runtime.deserialize_cuda_engine"]
)
def test_an_engine_that_is_built_when_all_is_closed_is_let_go_of(double, when):
    opened = road.Opened(road.GROWING, double, build_behind=True)
    opened.check(2)
    engines = opened.operator._engines
    double.meanwhile(when, lambda *_: opened.operator.close())
    assert engines.build_behind([np.ones((5, 3), np.float32)])
    engines._behind.join(20)
    assert double.live["engines"] == 0


def test_the_engine_used_longest_ago_makes_room(double):
    opened = road.Opened(road.GROWING, double, dynamic="exact", max_engines=2)
    opened.check(1, 2, 1, 3, 1, 2)
    info = opened.operator.info()
    assert info["builds_at_run_time"] == 4  # 1, 2, 3 for which 2 goes, and 2 again
    assert sorted(one["ranges"][0][0]["max"][0] for one in info["engines"]) == [1, 2]


def test_threads_that_meet_a_new_shape_build_once(double):
    opened = road.Opened(road.GROWING, double, max_contexts=4)
    barrier = threading.Barrier(6)

    def run(_):
        barrier.wait()
        return opened(np.ones((5, 3), np.float32))[0]

    with ThreadPoolExecutor(6) as pool:
        for y in pool.map(run, range(6)):
            np.testing.assert_array_equal(y, np.full((5, 3), 2))
    assert opened.operator.info()["builds_at_run_time"] == 1


def test_memory_that_is_kept_is_given_up_before_a_build(double):
    double.cuda.pools = True
    opened = road.Opened(road.GROWING, double)
    for n in (100, 50):
        opened(np.ones((n, 3), np.float32), outputs=[ON_DEVICE])
    memory, kept = opened.operator._device.memory, []
    assert memory.kept_bytes
    double.meanwhile("Builder.build_serialized_network", lambda *_: kept.append(memory.kept_bytes))
    opened(np.ones((300, 3), np.float32))
    assert kept == [0]


@pytest.mark.parametrize("fails", [False, True])
def test_an_engine_that_is_let_go_of_ends_after_its_last_run(double, *, fails):
    opened = road.Opened(road.GROWING, double, dynamic="exact", max_engines=1)
    opened(road.X)
    nested: list[Any] = []

    def executing(*_):
        if not nested:  # another length evicts the engine while its run is under way
            nested.append(None)
            road.in_thread(lambda: opened.check(5))
            nested.append(double.live["engines"])
            double.refuses_runs = fails

    double.meanwhile("IExecutionContext.execute_async_v3", executing)
    with pytest.raises(ExecutionError) if fails else nullcontext() as caught:  # whose frames stay
        np.testing.assert_array_equal(opened(road.X * 2)[0], road.summed(road.X * 2))
    assert (nested, double.live["engines"], caught is None) == ([None, 2], 1, not fails)


def test_an_engine_that_is_let_go_of_while_it_is_looked_at_is_not_run(double, monkeypatch):
    opened = road.Opened(road.GROWING, double, dynamic="exact", max_engines=1)
    opened(road.X)
    tightest, begun = PooledEngine.tightest, []

    def looking(*given):
        begun.append(None)
        found = tightest(*given)
        if len(begun) == 1:
            road.in_thread(lambda: opened.check(5))
        return found

    opened.operator._engines._chosen.clear()
    monkeypatch.setattr(PooledEngine, "tightest", looking)
    np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))


def test_an_engine_that_others_let_go_of_ends_after_all_that_found_it(double, monkeypatch):
    opened = road.Opened(road.GROWING, double, dynamic="exact", max_engines=1, max_contexts=2)
    opened(road.X)
    take, begun, found = Contexts.take, [], []

    def taking(contexts, *given, **how):
        begun.append(len(begun))
        if len(begun) < 3:  # another run of the engine, in which a third length evicts it
            x = road.X if len(begun) == 1 else np.ones((5, 3), np.float32)
            road.in_thread(lambda: found.append(opened(x)[0]))
        return take(contexts, *given, **how)

    monkeypatch.setattr(Contexts, "take", taking)
    np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))
    assert [one.shape for one in found] == [(5, 3), (2, 3)]
    assert double.live["engines"] == 1
