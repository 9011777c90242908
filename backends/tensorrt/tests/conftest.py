"""Fixtures of the tests of the TensorRT backend."""

import gc

import pytest

from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit_tensorrt.library import cudart
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running import device, dlpack
from subgraphkit_tensorrt.running.operator import TensorRTOperator


def pytest_generate_tests(metafunc):
    """Run each test on the double in several schedules, if they are asked for."""
    count = metafunc.config.getoption("--stream-schedules")
    if "double" in metafunc.fixturenames and count > 1:
        metafunc.parametrize("schedule", range(count), indirect=True)


@pytest.fixture
def schedule(request):
    """Return the seed of the schedule of the streams, another one for every test."""
    given = getattr(request, "param", None)
    return sum(map(ord, request.node.name)) % 997 if given is None else given


@pytest.fixture
def double(request, schedule, monkeypatch):
    """Return the double of a release, 11.4.0 unless the test is parametrised.

    Every third schedule has each stream as late as it can be, and every other a device without
    memory pools. A test fails that does what a real device would not have survived, or that leaves
    anything of the backend behind when its operators have ended.
    """
    late = schedule is None or schedule % 3 == 0
    pools = schedule is None or schedule % 2 == 0
    release = getattr(request, "param", "11.4.0")
    made = Double(release, schedule=None if late else schedule, pools=pools)
    made.patch = monkeypatch.setattr
    runtime = Cuda(made.counted)
    for module in (device, cudart):
        monkeypatch.setattr(module, "cuda_runtime", lambda: runtime)
    yield made
    if not made.cuda.broken:
        made.cuda.cudaDeviceSynchronize()
        if made.left():
            monkeypatch.undo()
            _end_operators()
        assert made.left() == {}
    assert made.violations == []


def _end_operators():
    """End the operators that something still holds, such as what replaces a function in a test."""
    gc.collect()
    for one in gc.get_objects():
        if type(one) is TensorRTOperator:
            one.close()
            vars(one).clear()
    dlpack._drop_unread()
    gc.collect()
