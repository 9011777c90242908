"""Arrays on the device at the door of a session: read and written where they are."""

from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import subgraphkit as sk
from backends.tensorrt.tests import double_road as road
from subgraphkit.backend import ON_DEVICE
from subgraphkit.errors import InputError
from subgraphkit_tensorrt import on_stream
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running.arrays import DeviceArray
from subgraphkit_tensorrt.running.memory import Pinned

CHAIN = """agraph (float[2,3] x) => (float[2,3] y, float[2,3] b)
    { a = Relu(x) b = Add(a, x) c = Neg(b) d = Abs(c) e = Exp(d) y = Sqrt(e) }"""
MIXED = """agraph (float[3] x) => (float[3] a, double[3] e)
    { a = Relu(x) d = Cast<to = 11>(a) e = Neg(d) }"""


def test_from_the_callers_memory_to_the_callers_memory_nothing_is_copied(double):
    x, y = road.Tensor(double, road.X), road.Tensor(double, np.zeros_like(road.X))
    with road.session(road.parsed(CHAIN), double, 1) as opened:
        assert len(opened.plan.steps) == 6
        x.cuda.wait_for_stream(y.stream)
        x.cuda.wait_for_stream(x.stream)
        double.cuda.copies.update({1: 0, 2: 0, 3: 0})
        b, given = road.run_bound(opened, {"x": x}, {"b": "cuda", "y": y})
        assert double.cuda.copies == {1: 0, 2: 0, 3: 0}
        assert given is y
        assert isinstance(b, DeviceArray)
        # written when the run is over, for readers on whatever stream
        right = road.on_numpy(road.parsed(CHAIN), {"x": road.X})
        np.testing.assert_array_equal(y.numpy(stream=x.cuda.create_stream()), right[0])
        np.testing.assert_array_equal(np.asarray(b), right[1])


def test_an_output_that_an_engine_reads_as_well_is_fetched_once(double):
    with road.session(road.parsed(CHAIN), double, 1) as opened:
        for found, right in zip(
            opened.run(None, {"x": road.X}),
            road.on_numpy(road.parsed(CHAIN), {"x": road.X}),
            strict=True,
        ):
            np.testing.assert_array_equal(found, right)
        # x goes up twice, as two engines read it; y and b come down
        assert double.cuda.copies == {1: 2, 2: 2, 3: 0}


def test_outputs_left_on_the_device_are_fed_again_without_a_copy(double):
    with road.session(road.parsed(road.SUM), double, 1) as opened:
        y: Any = road.X
        for _ in range(3):
            (y,) = road.run_bound(opened, {"x": y}, {"y": "cuda"})
        assert double.cuda.copies == {1: 2, 2: 0, 3: 0}
        np.testing.assert_array_equal(np.asarray(y), road.summed(road.summed(road.summed(road.X))))


def test_memory_is_bound_by_its_address(double):
    x, y = road.Tensor(double, road.X), road.Tensor(double, np.zeros_like(road.X))
    x.cuda.order(x.stream, 0)  # what the default stream waits for is waited for
    with road.session(road.parsed(road.SUM), double, 1) as opened:
        binding = opened.io_binding()
        binding.bind_input("x", "cuda", 0, np.float32, road.X.shape, x.address)
        binding.bind_output("y", "cuda", 0, np.float32, road.X.shape, y.address)
        x.cuda.wait_for_stream(y.stream)
        opened.run_with_iobinding(binding)
        np.testing.assert_array_equal(y.numpy(), road.summed(road.X))
        binding.bind_input("x", "cuda", 1, np.float32, road.X.shape, x.address)
        with pytest.raises(InputError, match=r"SGK177.*on device 1, expected cuda:0"):
            opened.run_with_iobinding(binding)


def test_bfloat16_which_the_protocol_has_no_word_for_is_bound_by_its_address(double):
    numbers = np.array([-1, 2], ml_dtypes.bfloat16)
    x = road.Tensor(double, numbers)
    x.cuda.wait_for_stream(x.stream)
    with road.session(
        road.parsed("agraph (bfloat16[2] x) => (bfloat16[2] y) { y = Neg(x) }"), double, 1
    ) as opened:
        binding = opened.io_binding()
        binding.bind_input("x", "cuda", 0, 16, (2,), x.address)
        binding.bind_output("y")
        opened.run_with_iobinding(binding)
        assert binding.get_outputs()[0].tolist() == [1, -2]


@pytest.mark.parametrize("offset", [0, 4])
@pytest.mark.parametrize("graphs", ["off", "auto"])
def test_a_buffer_is_written_in_place_where_the_engine_can(double, offset, graphs):
    opened = road.Opened(road.SUM, double, cuda_graphs=graphs)
    y = road.Tensor(double, np.zeros_like(road.X), offset)
    for factor in (1, 2, 3):
        (found,) = opened(road.Tensor(double, road.X * factor, offset), outputs=[y])
        np.testing.assert_array_equal(y.numpy(), road.summed(road.X * factor))
        np.testing.assert_array_equal(np.asarray(found), road.summed(road.X * factor))
    in_place = offset == 0 and graphs == "off"
    assert double.cuda.copies[3] == (0 if in_place else 6)


def test_a_buffer_that_is_read_by_the_same_engine_is_written_afterwards(double):
    both = road.Tensor(double, road.X)
    road.Opened("agraph (float[2,3] x) => (float[2,3] y) { t = Neg(x) y = Add(t, x) }", double)(
        both, outputs=[both]
    )
    np.testing.assert_array_equal(both.numpy(), np.zeros_like(road.X))
    assert double.cuda.copies[3] == 1


def test_an_output_whose_shape_depends_on_data_goes_into_a_buffer_that_fits(double):
    opened = road.Opened(road.PICKED, double, dims={"n": (0, 4, 64)})
    x, buffer = np.array([0, 1, 0, 2], np.float32), road.Tensor(double, np.zeros((1, 2), np.int64))
    opened(x, outputs=[buffer, None])
    assert buffer.numpy().tolist() == [[1, 3]]
    with pytest.raises(InputError, match=r"SGK140.*output 'y' has shape \(1, 2\).*\(1, 4\)"):
        opened(np.ones(4, np.float32), outputs=[buffer, None])
    np.testing.assert_array_equal(opened(x)[1], -x)  # the operator goes on


@pytest.mark.parametrize(
    ("like", "code"),
    [(np.zeros((3, 2), np.float32), "SGK140"), (np.zeros((2, 3), np.int32), "SGK141")],
)
def test_a_buffer_on_the_device_that_does_not_fit_is_refused(double, like, code):
    with road.session(road.parsed(road.GROWING), double, 1) as opened:
        with pytest.raises(InputError, match=f"{code}.*output 'y'"):
            road.run_bound(opened, {"x": road.X}, {"y": road.Tensor(double, like)})
        road.run_bound(opened, {"x": road.X}, {"y": road.Tensor(double, np.zeros_like(road.X))})


def test_what_another_backend_computes_cannot_stay(double):
    x = np.float32([-1, 0, 2])
    with road.session(road.parsed(MIXED), double, 1) as opened:
        with pytest.raises(InputError, match=r"SGK145.*wanted on cuda:0.*by backend 'numpy'"):
            road.run_bound(opened, {"x": x}, {"e": "cuda"})
        e, a = road.run_bound(
            opened, {"x": x}, {"e": "cpu", "a": "cuda"}
        )  # which NumPy reads as well
        assert isinstance(a, DeviceArray)
        assert (np.asarray(a).tolist(), e.tolist()) == ([0, 0, 2], [0, 0, -2])


# -- streams of the caller -----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["option", "run"])
def test_on_the_callers_stream_nobody_waits_and_everything_is_in_order(double, how):
    x, y = road.Tensor(double, road.X), road.Tensor(double, np.zeros_like(road.X))
    stream = x.cuda.create_stream()
    opened = road.Opened(road.SUM, double, **({"stream": stream} if how == "option" else {}))
    waited = double.cuda.waits
    with nullcontext() if how == "option" else on_stream(stream):
        opened(x, outputs=[y])
    assert double.cuda.waits == waited
    np.testing.assert_array_equal(y.numpy(stream=stream), road.summed(road.X))
    # what is put on the stream before a run is done before it
    doubled = np.ascontiguousarray(road.X * 2)
    x.cuda.upload(x.address, doubled.ctypes.data, doubled.nbytes, stream)
    with on_stream(stream):
        opened(x, outputs=[y])
    np.testing.assert_array_equal(y.numpy(stream=stream), road.summed(road.X * 2))


def test_runs_on_one_stream_of_the_caller_follow_one_another(double):
    stream = Cuda(double.cuda).create_stream()
    opened = road.Opened(road.SUM, double, stream=stream, max_contexts=2)
    opened(road.X)
    with opened.operator._device.slot(stream):
        second = road.in_thread(lambda: opened(road.X), waits=False)
        assert second.is_alive()
    second.join(20)
    assert not second.is_alive()


def test_a_stream_counts_for_its_block_alone(double):
    opened = road.Opened(road.SUM, double)
    stream = Cuda(double.cuda).create_stream()
    with on_stream(stream):
        (mine,) = opened(road.X, outputs=[ON_DEVICE])
        with on_stream(0):
            (default,) = opened(road.X, outputs=[ON_DEVICE])
    (own,) = opened(mine, outputs=[ON_DEVICE])
    assert mine.stream == stream
    assert not {own.stream, default.stream} & {stream, 0}
    np.testing.assert_array_equal(np.asarray(own), road.summed(road.summed(road.X)))


@pytest.mark.parametrize("how", ["option", "run"])
def test_on_the_default_stream_everything_is_in_order_and_nobody_waits(double, how):
    x, y = road.Tensor(double, road.X), road.Tensor(double, np.zeros_like(road.X))
    opened = road.Opened(road.SUM, double, **({"stream": 0} if how == "option" else {}))
    for tensor in (x, y):
        x.cuda.order(tensor.stream, 0)
        tensor.stream = 0
        tensor._said = {"stream": None}  # so that nothing else orders the run
    waited = double.cuda.waits
    for factor in (1, 2, 3):
        scaled = np.ascontiguousarray(road.X * factor)
        x.cuda.upload(x.address, scaled.ctypes.data, scaled.nbytes, 0)
        with nullcontext() if how == "option" else on_stream(0):
            opened(x, outputs=[y])
        assert double.cuda.waits == waited + factor - 1
        np.testing.assert_array_equal(y.numpy(), road.summed(scaled))


def test_a_stream_of_the_caller_may_go_when_all_sessions_are_closed(double):
    cuda = Cuda(double.cuda)
    for _ in range(2):
        opened = road.Opened(road.SUM, double, max_contexts=2)
        stream = cuda.create_stream()
        with on_stream(stream):
            np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))
        np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))
        opened.operator.close()
        cuda.destroy_stream(stream)
    assert double.cuda.live_bytes == 0


# -- graphs, and memory at the end ---------------------------------------------------------------


@pytest.mark.parametrize(("spoiled", "launched"), [(2, 3), (3, 0)])
def test_a_recording_that_others_spoil_is_tried_again_a_few_times(double, spoiled, launched):
    opened = road.Opened(road.SUM, double, cuda_graphs="auto")
    disturbed: list[int] = []

    def disturb(_, stream):
        if double.cuda.is_recording(stream) and len(disturbed) < spoiled:
            disturbed.append(stream)  # as another library that waits for the device does
            road.in_thread(double.cuda.cudaDeviceSynchronize)

    double.meanwhile("IExecutionContext.execute_async_v3", disturb)
    for _ in range(spoiled + 1 + 3):
        np.testing.assert_array_equal(opened(road.X)[0], road.summed(road.X))
    assert len(disturbed) == spoiled
    assert double.cuda.launches == launched


def test_arrays_of_the_caller_are_not_read_any_more_when_a_run_has_failed(double, monkeypatch):
    opened = road.Opened(road.WIDE, double, dims={"n": (1, 128, road.WIDEST)})
    cuda, begun = opened.operator._device.cuda, []
    upload = cuda.upload

    def uploading(target, host, nbytes, stream):
        upload(target, host, nbytes, stream)
        begun.append((double.cuda._at(stream), len(double.cuda._at(stream).work)))

    monkeypatch.setattr(cuda, "upload", uploading)
    pinned = Pinned(cuda)
    pinned.reserve(road.NEEDED)
    x = pinned.array(0, (road.WIDEST, 768), np.dtype(np.float32))
    x[:] = 1
    double.refuses_runs = True
    with pytest.raises(sk.errors.ExecutionError, match="SGK163"):
        opened(x, outputs=[ON_DEVICE])
    assert begun
    assert all(stream.done >= place for stream, place in begun)
    pinned.close()
