"""One subgraph on the run side, on the double of TensorRT: memory, streams, shapes, weights."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from backends.tensorrt.tests import double_road as road
from subgraphkit.backend import ON_DEVICE
from subgraphkit_tensorrt.running.arrays import DeviceArray

RELEASES = ["10.3.0", "10.8.0", "10.13.0", "11.0.0", "11.4.0"]


# -- one run -------------------------------------------------------------------------------------


@pytest.mark.parametrize("double", RELEASES, indirect=True)
def test_every_release_computes_the_same(double):
    opened = road.Opened(road.SUM, double)
    for x in (road.X, road.X * 2, road.X[:, ::-1]):
        (y,) = opened(x)
        np.testing.assert_array_equal(y, road.summed(x))


@pytest.mark.parametrize("double", ["10.3.0", "11.4.0"], indirect=True)
def test_results_are_the_callers_own(double):
    opened = road.Opened(road.SUM, double)
    (first,) = opened(road.X)
    kept = first.copy()
    opened(road.X * 7)
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))


def test_a_buffer_that_is_given_is_filled_if_it_fits(double):
    opened = road.Opened(road.SUM, double)
    buffer = np.zeros((3, 2), np.float32).T
    (y,) = opened(road.X, outputs=[buffer])
    assert y is buffer
    np.testing.assert_array_equal(buffer, road.summed(road.X))
    with pytest.raises(ValueError, match="buffer for output 'y'"):
        opened(road.X, outputs=[np.zeros((2, 2), np.float32)])


@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_scalar_arrays_pass(double, size):
    opened = road.Opened(
        f"agraph (float[{size}] x, float s) => (float[{size}] y, float t) "
        "{ y = Add(x, s) t = Neg(s) }",
        double,
    )
    y, t = opened(np.ones(size, np.float32), np.float32(2).reshape(()))
    np.testing.assert_array_equal(y, np.full(size, 3, np.float32))
    assert t.shape == ()
    assert t == -2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int64", "bool"])
def test_every_element_type_of_the_border_passes_unchanged(double, dtype):
    numpy = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    x = np.array([0, 1, 1, 0]).astype(numpy)
    (y,) = road.Opened(f"agraph ({dtype}[4] x) => ({dtype}[4] y) {{ y = Identity(x) }}", double)(x)
    assert y.dtype == numpy
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("graphs", ["off", "auto"])
def test_float32_crosses_the_border_as_float16_if_that_is_asked_for(double, graphs):
    opened = road.Opened(road.SUM, double, io_precision="fp16", cuda_graphs=graphs)
    for factor in (1, 2, 3):
        (y,) = opened(road.X * factor)
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y, road.summed(road.X * factor))
    (left,) = opened(road.X, outputs=[ON_DEVICE])
    assert left.dtype == np.float16
    np.testing.assert_array_equal(opened(left)[0], road.summed(road.summed(road.X)))
    np.testing.assert_array_equal(
        opened(road.Opened(road.SUM, double)(road.X, outputs=[ON_DEVICE])[0])[0],
        road.summed(road.summed(road.X)),
    )
    chain = road.parsed("agraph (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }")
    with road.session(chain, double, 1, io_precision="fp16") as cut:
        found = [
            [one.dtype for one in step.operator._engines.current()[0][1].inputs]
            for step in cut.plan.steps
        ]
        assert found == [[np.float16], [np.float32]]  # what is between two subgraphs is as it was
        np.testing.assert_array_equal(cut.run(None, {"x": road.X})[0], -np.maximum(road.X, 0))


def test_shapes_computed_from_an_input_are_read_from_the_host(double):
    opened = road.Opened(
        "g (float[6] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }", double
    )
    given = np.zeros(2, np.int64)
    for shape in ([2, 3], [3, 2], [6, 1], [2, 3]):
        given[:] = shape  # where the former was
        (y,) = opened(road.X.reshape(6), given)
        np.testing.assert_array_equal(y, road.X.reshape(shape))


# -- the device ----------------------------------------------------------------------------------


def test_arrays_stay_on_the_device_between_engines(double):
    first, second = road.Opened(road.SUM, double), road.Opened(road.SUM, double)
    (between,) = first(road.X, outputs=[ON_DEVICE])
    assert isinstance(between, DeviceArray)
    assert double.cuda.copies[2] == 0
    (y,) = second(between)
    assert (double.cuda.copies[1], double.cuda.copies[2]) == (1, 1)
    np.testing.assert_array_equal(y, road.summed(road.summed(road.X)))
    np.testing.assert_array_equal(np.asarray(between), road.summed(road.X))


def test_what_depends_on_data_stays_as_well_and_is_not_overwritten(double):
    opened = road.Opened(road.PICKED, double, dims={"n": (0, 4, 64)})
    (first, _) = opened(np.array([0, 1, 0, 2], np.float32), outputs=[ON_DEVICE, None])
    (second, _) = opened(np.array([1, 0, 0, 2], np.float32), outputs=[ON_DEVICE, None])
    assert np.asarray(first).tolist() == [[1, 3]]
    assert np.asarray(second).tolist() == [[0, 3]]


def test_memory_is_not_reused_before_who_reads_it_is_done(double):
    opened = road.Opened(road.SUM, double, max_contexts=2)
    results = []
    for factor in range(12):
        (between,) = opened(road.X * factor, outputs=[ON_DEVICE])
        (after,) = opened(between, outputs=[ON_DEVICE])
        del between
        results.append(after)
    for factor, after in enumerate(results):
        np.testing.assert_array_equal(np.asarray(after), road.summed(road.summed(road.X * factor)))


def test_a_run_on_another_stream_waits_for_what_it_reads(double):
    opened = road.Opened(road.SUM, double)
    (between,) = opened(road.X, outputs=[ON_DEVICE])
    with opened.operator._device.slot() as slot:  # so that the next run has to take another
        assert slot.stream == between.stream
        (y,) = opened(between)
    np.testing.assert_array_equal(y, road.summed(road.summed(road.X)))
    assert opened.operator.info()["memory"]["streams"] == 2


def test_memory_that_changes_streams_is_not_written_before_it_was_read(double):
    opened = road.Opened(road.SUM, double)
    device = opened.operator._device
    (first,) = opened(road.X, outputs=[ON_DEVICE])
    np.testing.assert_array_equal(np.asarray(first), road.summed(road.X))
    (kept,) = opened(first, outputs=[ON_DEVICE])
    address = first.address
    del first  # its last reader is on a stream that nobody has waited for
    changed = road.X * 7
    with device.slot(), device.slot() as other:
        block = device.memory.take(road.X.nbytes, other.stream)
        assert block.address == address or not double.cuda.pools
        device.cuda.upload(block.address, changed.ctypes.data, road.X.nbytes, other.stream)
        other.wait()
        device.give_back(block)
    np.testing.assert_array_equal(np.asarray(kept), road.summed(road.summed(road.X)))


def test_a_context_that_changes_streams_is_waited_for(double):
    opened = road.Opened(road.GROWING, double, dims={"n": (1, 4, 500)})
    (first,) = opened(road.X, outputs=[ON_DEVICE])
    large = np.ones((500, 3), np.float32)  # which takes none of the memory of the first run
    with opened.operator._device.slot():
        np.testing.assert_array_equal(opened(large)[0], road.summed(large))
    np.testing.assert_array_equal(np.asarray(first), road.summed(road.X))


def test_memory_that_is_described_and_dropped_is_reused_behind_the_default_stream(double):
    opened = road.Opened(road.SUM, double)
    device = opened.operator._device
    (mine,) = opened(road.X, outputs=[ON_DEVICE])
    found, (address, _) = np.zeros_like(road.X), mine.__cuda_array_interface__["data"]
    device.order(mine.stream, 0)  # as whoever reads the description sees to
    device.cuda.download(found.ctypes.data, address, road.X.nbytes, 0)
    del mine
    for n in range(3):
        opened(road.X * n, outputs=[ON_DEVICE])
    device.cuda.wait_for_stream(0)
    np.testing.assert_array_equal(found, road.summed(road.X))


def test_engines_that_run_one_after_the_other_share_their_scratch(double):
    chain = [road.Opened(road.SUM, double) for _ in range(5)]
    value: Any = road.X
    for opened in chain:
        (value,) = opened(value, outputs=[ON_DEVICE])
    memory = chain[0].operator.info()["memory"]
    assert memory["streams"] == 1
    assert memory["shared_scratch_bytes"] == 3 * 512  # as much as the rows of one run need


@pytest.mark.parametrize("most", [1, 3])
def test_threads_run_at_once_and_never_in_one_context(double, most):
    opened = road.Opened(road.SUM, double, max_contexts=most)
    inputs = [road.X * factor for factor in range(40)]
    with ThreadPoolExecutor(8) as pool:
        for x, (y,) in zip(inputs, pool.map(opened, inputs), strict=True):
            np.testing.assert_array_equal(y, road.summed(x))
    assert 1 <= opened.operator.info()["engines"][0]["contexts"] <= most


def test_no_more_runs_than_allowed_are_under_way_on_an_engine_of_several_ranges(double):
    opened = road.Opened(road.GROWING, double, dims={"n": [(1, 2, 2), (3, 4, 4)]}, max_contexts=1)
    under_way, most = [0], [0]

    def count(*_):
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        time.sleep(0.002)
        under_way[0] -= 1

    double.meanwhile("IExecutionContext.execute_async_v3", count)
    inputs = [np.full((1 + n % 4, 3), n, np.float32) for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        for x, (y,) in zip(inputs, pool.map(opened, inputs), strict=True):
            np.testing.assert_array_equal(y, road.summed(x))
    assert most == [1]
    assert opened.operator.info()["engines"][0]["contexts"] == 2


def test_nothing_is_left_on_the_device_when_all_is_closed(double):
    opened = road.Opened(road.PICKED, double, dims={"n": (0, 4, 64)})
    opened(np.ones(64, np.float32))
    opened(np.ones(3, np.float32), outputs=[ON_DEVICE, ON_DEVICE])
    opened.operator.close()
    opened.operator.close()
    assert double.cuda.live_bytes == 0
    with pytest.raises(RuntimeError, match="closed"):
        opened(np.ones(3, np.float32))
