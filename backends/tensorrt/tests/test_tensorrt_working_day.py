"""A session over a working day: lengths that vary, graphs, streams that come and go, refusals."""

import gc
import itertools
import threading

import numpy as np
import pytest

import subgraphkit as sk
from backends.tensorrt.tests import double_road as road
from backends.tensorrt.tests.tensorrt_models import context_of
from subgraphkit.backend import ON_DEVICE
from subgraphkit.errors import ExecutionError, InputError
from subgraphkit_tensorrt import on_stream
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.claiming.filters import Filters
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running.regions import restore

SIZES = itertools.count(100)
PORTABLE = {"VERSION_COMPATIBLE": True, "EXCLUDE_LEAN_RUNTIME": True}
_ASKED = (
    "set_input_shape",
    "infer_shapes",
    "set_tensor_address",
    "update_device_memory_size_for_shapes",
    "set_device_memory",
    "execute_async_v3",
)


def contexts(opened):
    return int(opened.operator.info()["engines"][0]["contexts"])


# -- CUDA graphs ---------------------------------------------------------------------------------


def test_a_graph_is_launched_from_a_context_that_ran_no_other_shape(double):
    opened = road.Opened(road.GROWING, double, cuda_graphs="auto", dims={"n": (1, 4, 64)})
    opened.check(2, 4, 2, 4, 2)
    assert double.cuda.launches == 2  # the smaller was recorded again when scratch memory had grown
    opened.check(*range(1, 30), 40, 40, 41, 41, 2, 30, 2, 31, 2)
    assert contexts(opened) <= 9  # eight that were recorded, and one for the rest
    np.testing.assert_array_equal(opened(road.X, outputs=[ON_DEVICE])[0], road.summed(road.X))


def test_graphs_share_the_memory_of_the_lane_and_are_recorded_again_when_that_moves(double):
    opened = road.Opened(road.GROWING, double, cuda_graphs="auto", dims={"n": (1, 4, 4096)})
    opened.check(2, 4096, 2, 2, 4096, 4096)
    assert double.cuda.launches == 3  # all but the first of each, and the first after it moved
    assert double.cuda.live_bytes < 3 * 4096 * 3 * 4 + 4097 * 512 * 5 // 4


@pytest.mark.parametrize("sizes", [(2048, 1, 1, 1024), (1, 2048, 1024, 1)])
def test_a_graph_is_recorded_again_when_memory_of_the_host_has_moved(double, sizes):
    recorded, other = (
        road.Opened(
            f"agraph (float[1,{read}] x) => (float[1,{made}] y) <int64[2] s = {{1, {made}}}> "
            "{ m = ReduceMax<keepdims = 1>(x) y = Expand(m, s) }",
            double,
            cuda_graphs="auto",
        )
        for read, made in (sizes[:2], sizes[2:])
    )
    for opened, of in ((recorded, sizes),) * 3 + ((other, sizes[2:]), (recorded, sizes)):
        (y,) = opened(np.full((1, of[0]), 7, np.float32))
        np.testing.assert_array_equal(y, np.full((1, of[1]), 7))


def test_garbage_is_not_collected_while_its_thread_records(double):
    opened = road.Opened(road.SUM, double, cuda_graphs="auto")
    before = gc.get_threshold()
    other = road.Opened(road.SUM, double)
    waste = [[other, other(road.X, outputs=[ON_DEVICE])]]
    waste[0].append(waste[0])  # which only a collection ends
    del other

    def end(_, stream):
        if double.cuda.is_recording(stream):
            waste.clear()
            gc.set_threshold(1)
            _ = [[] for _ in range(100)]

    double.meanwhile("IExecutionContext.execute_async_v3", end)
    try:
        for _ in range(3):
            np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()
    assert double.cuda.launches == 2


# -- memory --------------------------------------------------------------------------------------


def test_lengths_that_vary_take_a_few_times_what_the_largest_needs(double):
    opened = road.Opened(road.WIDE, double, dims={"n": (1, 128, road.WIDEST)})
    for n in (*range(1, road.WIDEST + 1, 23), road.WIDEST, *range(road.WIDEST, 1, -61)):
        (y,) = opened(road.wide(n))
        assert y[-1, -1] == 2 * n
        opened(road.wide(n), outputs=[ON_DEVICE])
    assert double.cuda.live_bytes <= 4 * road.NEEDED
    opened.operator._device.trim()
    assert double.cuda.live_bytes == 0
    assert opened.operator.info()["memory"]["pinned_bytes"] == 0
    np.testing.assert_array_equal(opened(road.wide(3))[0], 2 * road.wide(3))


@pytest.mark.parametrize("schedule", range(6))
def test_streams_of_users_hold_memory_until_it_is_trimmed(double, schedule):
    double.cuda.pools = schedule > 0
    opened, cuda = (
        road.Opened(road.WIDE, double, dims={"n": (1, 128, road.WIDEST)}),
        Cuda(double.cuda),
    )
    streams = [cuda.create_stream() for _ in range(2)]
    for stream in streams:
        with on_stream(stream):
            opened(road.wide(road.WIDEST))
    assert opened.operator.info()["memory"]["streams"] == 2
    with on_stream(stream):
        (kept,) = opened(road.wide(road.WIDEST), outputs=[ON_DEVICE])
    opened.operator._device.trim()
    assert opened.operator.info()["memory"]["streams"] == 0
    np.testing.assert_array_equal(
        np.asarray(kept), 2 * road.wide(road.WIDEST)
    )  # of what was not let go
    del kept
    opened.operator._device.trim()
    assert double.cuda.live_bytes == 0
    np.testing.assert_array_equal(opened(road.wide(2))[0], 2 * road.wide(2))


# -- what is let go, and what is kept ------------------------------------------------------------


def test_a_builder_ends_when_the_questions_are_answered(double):
    # A question that was not asked before in this process, whose answer is not remembered.
    graph = sk.bind(sk.load(road.parsed(road.SUM.replace("2", str(next(SIZES))))))
    options = Options(device=1)
    filters = Filters(double.library, options, "double")
    filters.look_at(graph, context_of(graph, options))
    assert [one._device for one in double.builders] == [1]
    filters.release_builder()
    assert list(double.builders) == []
    road.Opened(road.SUM, double, device=1)
    assert list(double.builders) == []


def test_a_plan_is_not_kept_beside_its_engine_which_can_write_it_again(double):
    opened = road.Opened(road.weighted(np.eye(3)), double, refittable=True)
    first = opened.operator.serialize()
    opened(road.X)
    assert [len(plan.data) for plan, _ in opened.operator._engines.current()] == [0]
    assert opened.operator.serialize() == first
    kept = road.Opened(road.weighted(np.eye(3)), double, builder=PORTABLE)
    kept(road.X)
    assert all(plan.data for plan, _ in kept.operator._engines.current())
    assert opened.operator.update_weights({"w": np.float32(2 * np.eye(3))})
    again = restore(opened.operator.serialize(), opened.subgraph, double.library, opened.context)
    np.testing.assert_array_equal(again.run([road.X])[0], 2 * road.X)


@pytest.mark.parametrize("builder", [{}, PORTABLE])
def test_engines_that_never_ran_are_written_with_the_weights_they_were_given(double, builder):
    opened = road.Opened(road.weighted(np.eye(3)), double, refittable=True, builder=builder)
    assert opened.operator.update_weights({"w": np.float32(2 * np.eye(3))})
    again = restore(opened.operator.serialize(), opened.subgraph, double.library, opened.context)
    np.testing.assert_array_equal(again.run([road.X])[0], 2 * road.X)


@pytest.mark.parametrize("graphs", ["off", "auto"])
def test_an_input_that_is_refused_costs_neither_context_nor_graph(double, graphs, monkeypatch):
    opened = road.Opened(road.SUM, double, cuda_graphs=graphs)
    for _ in range(2):
        opened(road.X)
    launches = double.cuda.launches
    monkeypatch.setattr(double, "refuses_contexts", True)
    for _ in range(5):
        with pytest.raises(InputError, match="SGK177"):
            opened(road.Tensor(double, road.X, strides=(4, 8)))
        np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))
    assert double.cuda.launches == launches + (5 if graphs == "auto" else 0)
    double.refuses_contexts = False
    double.refuses_runs = True
    opened.operator._device.trim()
    with pytest.raises(ExecutionError, match=r"SGK163.*run an engine"):
        opened(road.X)
    double.refuses_runs = False
    np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))


def test_a_context_that_takes_long_to_make_holds_nobody_up(double):
    opened = road.Opened(road.SUM, double, max_contexts=2)
    opened(road.X)
    making, may_end = threading.Event(), threading.Event()
    double.meanwhile(
        "ICudaEngine.create_execution_context", lambda *_: (making.set(), may_end.wait(20))
    )
    held = opened.operator._engines.current()[0][1].contexts
    taken = held.take(0, None)  # so that the second has to make one
    second = road.in_thread(lambda: opened(road.X), waits=False)
    making.wait(20)
    held.put(taken)
    road.in_thread(lambda: opened(road.X))
    assert second.is_alive()
    may_end.set()
    second.join(20)


# -- a steady run --------------------------------------------------------------------------------


@pytest.mark.parametrize("graphs", ["off", "auto"])
def test_what_was_set_is_not_set_again(double, graphs):
    opened = road.Opened(road.SUM, double, cuda_graphs=graphs)
    buffer = np.empty_like(road.X)
    for _ in range(3):
        opened(road.X)
    called: list[str] = []
    for name in _ASKED:
        double.meanwhile(f"IExecutionContext.{name}", lambda *_, name=name: called.append(name))
    double.cuda.copies.update({1: 0, 2: 0, 3: 0})
    launches, waits = double.cuda.launches, double.cuda.waits
    opened(road.X * 2, outputs=[buffer])
    np.testing.assert_array_equal(buffer, road.summed(road.X * 2))
    assert called == ([] if graphs == "auto" else ["execute_async_v3"])
    assert double.cuda.launches - launches == (graphs == "auto")
    assert double.cuda.waits - waits == 1
    assert double.cuda.copies == {1: 1, 2: 1, 3: 0}
