"""Faults in the middle of a run, and what has to be in order where one run meets others."""

import numpy as np
import pytest

from backends.tensorrt.tests.double_road import GROWING, PICKED, SUM, Opened, X, summed, weighted
from subgraphkit.backend import ON_DEVICE
from subgraphkit.errors import ExecutionError, InputError
from subgraphkit_tensorrt import on_stream
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running import dlpack


class Lender:
    """An array that speaks DLPack, of a library that writes to the memory when it gets it back."""

    def __init__(self, double, array):
        self.double, self.cuda = double, Cuda(double.cuda)
        self.array = np.ascontiguousarray(array)
        self.shape, self.dtype = array.shape, array.dtype
        self.address = self.cuda.allocate(array.nbytes)
        self.stream = self.cuda.create_stream()
        self.cuda.upload(self.address, self.array.ctypes.data, array.nbytes, self.stream)
        self.lent = 0

    def __dlpack_device__(self):
        return (dlpack.CUDA, 0)

    def __dlpack__(self, *, stream):
        self.lent += 1
        self.cuda.order(self.stream, stream)
        return dlpack.export(
            self.address, self.shape, self.dtype, self.__dlpack_device__(), owner=_Held(self)
        )

    def read(self):
        """Read it on its own stream."""
        found = np.empty_like(self.array)
        self.cuda.download(found.ctypes.data, self.address, found.nbytes, self.stream)
        self.cuda.wait_for_stream(self.stream)
        return found


class _Held:
    def __init__(self, lender):
        self._lender = lender

    def __del__(self):
        lender = self._lender
        lender.lent -= 1
        span = (lender.address, lender.array.nbytes)
        lender.double.cuda.put(lender.stream, lambda: None, (), [span])


@pytest.mark.parametrize("wanted", [None, ON_DEVICE])
@pytest.mark.parametrize("model", [SUM, PICKED.replace("[n]", "[6]")])
def test_memory_of_the_caller_is_given_back_when_nothing_reads_it_any_more(double, wanted, model):
    x = X if model is SUM else X.reshape(6)
    opened, lender = Opened(model, double), Lender(double, x)
    for _ in range(2):
        results = opened(lender, outputs=[wanted] * len(opened.subgraph.outputs))
        assert lender.lent == 0  # and what the library did then collides with nothing
        right = summed(x) if model is SUM else -x
        np.testing.assert_array_equal(np.asarray(results[-1]), right)


def test_memory_of_the_caller_that_is_written_is_given_back_when_it_is_written(double):
    opened, target = Opened(SUM, double), Lender(double, np.zeros_like(X))
    for factor in (1, 2):
        opened(X * factor, outputs=[target])
        assert target.lent == 0
        np.testing.assert_array_equal(target.read(), summed(X * factor))


def test_memory_with_gaps_is_refused_and_given_back(double, monkeypatch):
    lender = Lender(double, X)
    monkeypatch.setattr(dlpack, "is_row_major", lambda *_: False)
    with pytest.raises(InputError, match=r"SGK177.*without gaps"):
        Opened(SUM, double)(lender)
    assert lender.lent == 0


def test_memory_that_a_second_stream_reads_is_reused_behind_that(double):
    double.cuda.pools = True  # without, what is freed is waited for
    opened = Opened(SUM, double)
    device = opened.operator._device
    (kept,) = opened(X, outputs=[ON_DEVICE])
    with device.slot() as first:
        (after,) = opened(kept, outputs=[ON_DEVICE])  # on another stream
        assert after.stream != first.stream
        del kept  # which that stream may yet have to read
        block = device.memory.take(X.nbytes, first.stream)
        zeros = np.zeros_like(X)
        device.cuda.upload(block.address, zeros.ctypes.data, X.nbytes, first.stream)
        first.wait()
        device.give_back(block)
    np.testing.assert_array_equal(np.asarray(after), summed(summed(X)))


@pytest.mark.parametrize("double", ["10.3.0", "11.4.0"], indirect=True)
@pytest.mark.parametrize("graphs", ["off", "auto"])
def test_weights_are_replaced_when_the_runs_under_way_are_done(double, graphs):
    opened = Opened(weighted(np.eye(3)), double, refittable=True, cuda_graphs=graphs)
    for factor in (2, 3):
        kept = [opened(X, outputs=[ON_DEVICE])[0] for _ in range(3)]
        before = [np.asarray(one) for one in kept[:1]]
        kept += [opened(X, outputs=[ON_DEVICE])[0]]
        assert opened.operator.update_weights({"w": np.float32(factor * np.eye(3))})
        for one in kept:
            np.testing.assert_array_equal(np.asarray(one), before[0])
        for _ in range(3):
            np.testing.assert_array_equal(opened(X)[0], factor * X)
    assert opened.operator.info()["builds_at_run_time"] == 0


def test_a_graph_is_recorded_anew_when_its_last_launch_is_done(double):
    double.cuda.pools = (
        True  # without, memory that moves is freed, for which the device is waited for
    )
    opened = Opened(GROWING, double, cuda_graphs="auto", dims={"n": (1, 4, 4096)})
    maker = Opened(GROWING, double, dims={"n": (1, 4, 4096)})
    with on_stream(Cuda(double.cuda).create_stream()):  # which has memory of its own
        small, large = (
            maker(np.full((n, 3), n, np.float32), outputs=[ON_DEVICE])[0] for n in (2, 1024)
        )
    fed = (small, small, small, large, small)
    kept = [opened(one, outputs=[ON_DEVICE])[0] for one in fed]  # nobody waits
    assert double.cuda.launches == 2
    for one, n in zip(kept, (2, 2, 2, 1024, 2), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.full((n, 3), 4 * n))


@pytest.mark.parametrize("graphs", ["off", "auto"])
def test_a_run_that_fails_when_half_of_it_is_under_way_leaves_nothing_that_runs(double, graphs):
    opened = Opened(SUM, double, cuda_graphs=graphs)
    opened(X, outputs=[ON_DEVICE] if graphs == "auto" else None)  # else it would only be launched
    double.fails_halfway = True
    with pytest.raises(ExecutionError, match=r"SGK163(.|\n)*second kernel"):
        opened(X * 2)
    double.fails_halfway = False
    np.testing.assert_array_equal(opened(X)[0], summed(X))
    (engine,) = opened.operator.info()["engines"]
    assert engine["contexts"] == double.live["contexts"] == (2 if graphs == "auto" else 1)


def test_memory_that_is_kept_is_given_up_when_tensorrt_finds_none_in_a_run(double):
    double.cuda.pools = True  # without, what is freed is the device's at once
    opened = Opened(SUM, double)
    kept = [opened(X * n, outputs=[ON_DEVICE])[0] for n in range(4)]
    kept.clear()
    double.run_needs_bytes = double.cuda.free_bytes + 1024
    np.testing.assert_array_equal(opened(X)[0], summed(X))
    double.run_needs_bytes = 1 << 40
    with pytest.raises(ExecutionError, match=r"(?s)SGK163.*memory"):
        opened(X)
