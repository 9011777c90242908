"""What a device forgives less than the host: streams, devices, garbage, other libraries."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

from backends.tensorrt.tests import double_road as road
from subgraphkit.backend import ON_DEVICE
from subgraphkit.errors import ExecutionError, InputError
from subgraphkit_tensorrt import on_stream
from subgraphkit_tensorrt.library import cudart, logger
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running import dlpack, engines
from subgraphkit_tensorrt.running.callbacks import OutputMemory
from subgraphkit_tensorrt.running.device import Device

RESHAPED = "agraph (float[6] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }"


# -- streams -------------------------------------------------------------------------------------


def test_memory_of_an_output_whose_shape_depends_on_data_remembers_every_stream(double):
    device = Device(Cuda(double.cuda))
    streams = [device.cuda.create_stream(), device.cuda.create_stream()]
    now = [streams[0]]
    memory = OutputMemory(device, lambda: now[0])
    address = memory.reserve(100)
    now[0] = streams[1]
    assert memory.reserve(50) == address
    assert memory.give_up().streams == set(streams)


def test_such_an_output_that_is_dropped_is_not_overwritten_by_its_own_engine(double):
    opened = road.Opened(road.PICKED, double, dims={"n": (0, 4, 64)})
    device = opened.operator._device
    x = np.array([0, 1, 0, 2], np.float32)
    opened(x)
    with device.slot() as first:
        (dropped, _) = opened(x, outputs=[ON_DEVICE, ON_DEVICE])
        assert dropped.stream != first.stream
        address = dropped.address
        del dropped  # while it is still written
        block = device.memory.take(64, first.stream)
        assert block.address == address or not double.cuda.pools
        address = block.address
        wanted = np.arange(64, dtype=np.uint8)
        device.cuda.upload(address, wanted.ctypes.data, 64, first.stream)
        first.wait()
        found = np.empty(64, np.uint8)
        device.cuda.wait_for_device()
        device.cuda.download(found.ctypes.data, address, 64, first.stream)
        first.wait()
        device.give_back(block)
    np.testing.assert_array_equal(found, wanted)


def test_an_array_that_is_written_again_on_the_callers_stream_is_read_behind_that(double):
    opened = road.Opened(road.SUM, double)
    (kept,) = opened(road.X, outputs=[ON_DEVICE])
    stream = Cuda(double.cuda).create_stream()
    with on_stream(stream):
        opened(road.X * 5, outputs=[kept])
    np.testing.assert_array_equal(np.asarray(kept), road.summed(road.X * 5))


@pytest.mark.parametrize("graphs", ["off", "auto"])
def test_an_engine_on_the_second_device_is_run_there_from_any_thread(double, graphs):
    opened = road.Opened(road.GROWING, double, device=1, dims={"n": (1, 4, 8)}, cuda_graphs=graphs)
    results = []

    def work():
        for _ in range(2):
            (between,) = opened(road.X, outputs=[ON_DEVICE])
            results.append(opened(between)[0])
            results.append(road.summed(np.asarray(between)))

    road.in_thread(work)
    work()
    for found in results:
        np.testing.assert_array_equal(found, road.summed(road.summed(road.X)))
    assert double.cuda.current == 0


# -- memory --------------------------------------------------------------------------------------


def test_an_array_that_outlives_its_operator_leaves_nothing_behind(double):
    opened = road.Opened(road.SUM, double)
    (kept,) = opened(road.X, outputs=[ON_DEVICE])
    opened.operator.close()
    np.testing.assert_array_equal(np.asarray(kept), road.summed(road.X))
    del kept
    assert double.cuda.live_bytes == 0


def test_memory_that_is_kept_is_given_up_for_tensorrts_own_needs(double, monkeypatch):
    double.cuda.pools = True
    opened = road.Opened(road.SUM, double)
    opened(road.X)
    memory = opened.operator._device.memory
    for owner, name in (
        (double.trt.Runtime, "deserialize_cuda_engine"),
        (double.trt.ICudaEngine, "create_execution_context"),
    ):
        done = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *of, done=done: None if memory.kept_bytes else done(*of)
        )
    kept = [opened(road.X * n, outputs=[ON_DEVICE])[0] for n in range(3)]
    kept.clear()
    assert memory.kept_bytes
    other = road.Opened(road.SUM, double)
    kept = [opened(road.X * n, outputs=[ON_DEVICE])[0] for n in range(3)]
    kept.clear()
    assert memory.kept_bytes
    np.testing.assert_array_equal(other(road.X)[0], road.summed(road.X))


# -- graphs and weights --------------------------------------------------------------------------


def test_a_device_is_not_waited_for_while_another_thread_records_a_graph(double):
    opened = road.Opened(road.SUM, double, cuda_graphs="auto")
    waiting: list[threading.Thread] = []

    def disturb(_, stream):
        if double.cuda.is_recording(stream):
            wait = opened.operator._device.cuda.wait_for_device
            waiting.append(road.in_thread(wait, waits=False))

    double.meanwhile("IExecutionContext.execute_async_v3", disturb)
    for _ in range(3):
        np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))
    assert double.cuda.launches == 2
    for thread in waiting:
        thread.join()


def test_an_array_is_read_while_another_thread_records_a_graph(double):
    first, second = (road.Opened(road.SUM, double, cuda_graphs="auto") for _ in range(2))
    (kept,) = first(road.X, outputs=[ON_DEVICE])
    read: list[Any] = []

    def reading(_, stream):
        if double.cuda.is_recording(stream):
            double.cuda.put(0, lambda: None)  # as whoever works on the default stream does
            road.in_thread(lambda: read.append(np.asarray(kept)))

    double.meanwhile("IExecutionContext.execute_async_v3", reading)
    for _ in range(3):
        np.testing.assert_array_equal(second(road.X)[0], road.summed(road.X))
    np.testing.assert_array_equal(read, [road.summed(road.X)])
    assert double.cuda.launches == 2


def test_a_device_that_fails_at_every_call_does_not_make_the_next_run_wait_for_ever(double):
    opened = road.Opened(road.SUM, double, cuda_graphs="auto", max_contexts=1)
    for _ in range(2):
        opened(road.X)
    double.cuda.broken = 719
    told = []

    def work():
        for _ in range(2):
            with pytest.raises(ExecutionError, match="SGK174"):
                opened(road.X)
            told.append(True)

    road.in_thread(work)
    assert told == [True, True]
    opened.operator.close()  # nothing can be freed any more, and nobody is told again


# -- garbage -------------------------------------------------------------------------------------


def test_an_array_may_end_wherever_garbage_is_collected(double):
    opened = road.Opened(road.SUM, double)
    device = opened.operator._device
    arrays = [opened(road.X, outputs=[ON_DEVICE])[0] for _ in range(3)]
    done = []

    def work():
        memory = device.memory
        for lock in (memory._taking, memory._counting, dlpack._LOCK):
            with lock:
                arrays.pop()
                dlpack.export(0, (0,), np.dtype(np.float32), (1, 0), None)
        logger.hear("WARNING", "an engine that garbage was collected with says something")
        done.append(True)

    road.in_thread(work)
    assert done


@pytest.mark.parametrize("named", ["own", "default", "none"])
def test_memory_that_another_library_reads_is_reused_behind_that_and_nobody_waits(
    double, monkeypatch, named
):
    opened = road.Opened(road.SUM, double)
    cuda = opened.operator._device.cuda
    theirs = 0 if named in {"default", "none"} else Cuda(double.cuda).create_stream()
    given = {"default": 1, "none": -1}.get(named, theirs)
    found = np.zeros_like(road.X)
    (mine,) = opened(road.X, outputs=[ON_DEVICE])
    if named == "none":  # who asks for no order sees to it
        cuda.order(mine.stream, theirs)
    taken = dlpack.take(mine.__dlpack__(stream=given))
    cuda.download(found.ctypes.data, taken.address, road.X.nbytes, theirs)
    waited: list[bool] = []
    monkeypatch.setattr(cuda, "wait_for_device", lambda: waited.append(True))
    taken.release()
    del mine
    for n in range(4):
        np.testing.assert_array_equal(opened(road.X * n)[0], road.summed(road.X * n))
        opened(road.X * n, outputs=[ON_DEVICE])
    assert not waited
    cuda.wait_for_stream(theirs)
    np.testing.assert_array_equal(found, road.summed(road.X))


def test_engines_are_looked_at_while_shapes_come_from_the_device(double, monkeypatch):
    reshaped = (
        "agraph (float[12] x, int64[2] s) => (float[p,q] y) { a = Relu(x) y = Reshape(a, s) }"
    )
    opened = road.Opened(reshaped, double)
    x, shape = np.arange(12, dtype=np.float32), np.array([3, 4])
    opened(x, shape)
    (there,) = road.Opened("agraph (int64[2] s) => (int64[2] t) { t = Identity(s) }", double)(
        shape, outputs=[ON_DEVICE]
    )
    fetching, looked = engines.fetch_to_host, []

    def slowly(*given):
        road.in_thread(lambda: looked.append(opened.operator.info()))
        return fetching(*given)

    monkeypatch.setattr(engines, "fetch_to_host", slowly)
    np.testing.assert_array_equal(opened(x, there)[0], x.reshape(3, 4))
    assert looked


# -- arrays of other libraries -------------------------------------------------------------------


def test_shapes_are_read_from_an_array_of_another_library_as_well(double):
    opened = road.Opened(RESHAPED, double)
    for shape in ([2, 3], [3, 2], [2, 3]):
        (y,) = opened(road.X.reshape(6), road.Tensor(double, np.array(shape)))
        np.testing.assert_array_equal(y, road.X.reshape(shape))


def test_memory_that_must_not_be_written_is_no_buffer(double):
    buffer = road.Tensor(double, np.zeros_like(road.X))
    buffer._said = {"data": (buffer.address, True)}
    with pytest.raises(InputError, match=r"SGK177.*output 'y'.*read-only"):
        road.Opened(road.SUM, double)(road.X, outputs=[buffer])
    np.testing.assert_array_equal(
        road.Opened(road.SUM, double)(buffer)[0], road.summed(np.zeros_like(road.X))
    )


def test_an_array_that_does_not_say_its_type_before_it_is_read_is_never_cast(double):
    silent = road.Tensor(double, road.X.astype(np.int32))
    del silent.dtype
    with pytest.raises(InputError, match=r"SGK141.*int32; the engine reads float32"):
        road.Opened(road.SUM, double)(silent)


def test_an_empty_array_has_no_gaps_whatever_its_strides(double):
    opened = road.Opened("agraph (float[0,3] x) => (float[0,3] y) { y = Neg(x) }", double)
    (y,) = opened(road.Tensor(double, np.zeros((0, 3), np.float32), strides=(400, 8)))
    assert y.shape == (0, 3)


@pytest.mark.parametrize("asked", [{"copy": True}, {"dl_device": (1, 0)}])
def test_what_dlpack_may_ask_and_does_not_get_is_refused(double, asked):
    (y,) = road.Opened(road.SUM, double)(road.X, outputs=[ON_DEVICE])
    with pytest.raises(BufferError):
        y.__dlpack__(**asked)
    y.__dlpack__(stream=-1, max_version=(1, 0), dl_device=(2, 0), copy=False)


def test_an_array_that_a_library_refuses_keeps_the_librarys_reason_and_goes(double):
    (y,) = road.Opened(road.SUM, double)(road.X, outputs=[ON_DEVICE])

    class There:
        """On the device, and so nothing for NumPy."""

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            return y.__dlpack__()

    held = len(dlpack._HELD)
    with pytest.raises((BufferError, RuntimeError), match="Unsupported device"):
        np.from_dlpack(There())
    gc.collect()
    dlpack.export(0, (0,), np.dtype(np.float32), (1, 0), None)
    assert len(dlpack._HELD) <= held + 1


# -- CUDA's library ------------------------------------------------------------------------------


def test_the_library_of_every_cuda_is_looked_for_by_the_name_it_has(monkeypatch, tmp_path):
    wheel = tmp_path / "lib" / "libcudart.so.13"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    monkeypatch.setattr(cudart, "_wheel_folders", lambda: [tmp_path])
    assert list(cudart._candidates()) == [cudart._NAMES[0], str(wheel), *cudart._NAMES[1:]]
    assert "libcudart.so.11.0" in cudart._NAMES  # there is no libcudart.so.11
