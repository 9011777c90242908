"""The double of TensorRT has what a release has, called as the release calls it, and no more."""

import inspect
from importlib.util import find_spec

import numpy as np
import pytest

from backends.tensorrt.tests.tensorrt_api import Api, releases
from backends.tensorrt.tests.tensorrt_double import CLASSES, Double
from subgraphkit_tensorrt.library.capabilities import Capabilities
from subgraphkit_tensorrt.library.cudart import Cuda

RELEASES = releases()


def _members(owner):
    return {name: value for name, value in vars(owner).items() if not name.startswith("_")}


@pytest.mark.parametrize("release", RELEASES)
def test_the_double_has_no_member_that_the_release_lacks(release):
    api, double = Api(release), Double(release)
    made = [getattr(double.trt, one.__name__, None) for one in CLASSES]
    assert [one is not None for one in made] == [api.has(one.__name__) for one in CLASSES]
    unknown = [
        f"{one.__name__}.{name}"
        for one in made
        if one is not None
        for name in _members(one)
        if not api.has(f"{one.__name__}.{name}") and name != "Severity"
    ]
    assert unknown == []


@pytest.mark.parametrize("release", RELEASES)
def test_the_double_is_called_as_the_release_is(release):
    api, double = Api(release), Double(release)
    checked = 0
    for owner in CLASSES:
        if not api.has(owner.__name__):
            continue
        for name, value in _members(getattr(double.trt, owner.__name__)).items():
            forms = api.arguments(f"{owner.__name__}.{name}")
            if not inspect.isfunction(value) or not forms:
                continue
            mine = [one for one in inspect.signature(value).parameters if one != "self"]
            theirs = [[word.strip(" =") for word in form.split(",") if word] for form in forms]
            # callbacks are documented by names the bindings do not keep
            by_place = any(word.startswith("arg") for form in theirs for word in form)
            assert by_place or any(_agree(mine, form) for form in theirs), (owner, name, forms)
            checked += 1
    assert checked > 20


def _agree(mine, theirs):
    return theirs == mine or theirs[: len(mine)] == mine or mine[: len(theirs)] == theirs


@pytest.mark.parametrize("release", RELEASES)
def test_the_backend_sees_the_run_side_of_the_release_in_the_double(release):
    api, double = Api(release), Double(release)
    seen = Capabilities.of(double.trt, api.flavour)
    real = Capabilities.of(api.module(), api.flavour)
    for name in (
        "runtime_config", "engine_stat", "cuda_graph_strategy", "load_initializer",
        "preview_features",
    ):  # fmt: skip
        assert getattr(seen, name) == getattr(real, name), name


@pytest.mark.skipif(
    find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT for RTX is not installed"
)
def test_the_names_of_the_double_are_those_of_real_bindings_but_for_what_rtx_lacks():
    import tensorrt_rtx_bindings as bindings  # noqa: PLC0415 (only where it is installed)

    double = Double("11.4.0")
    missing = {
        f"{owner.__name__}.{name}"
        for owner in CLASSES
        if hasattr(double.trt, owner.__name__)
        for name in _members(getattr(double.trt, owner.__name__))
        if not hasattr(getattr(bindings, owner.__name__, None), name)
    }
    api = Api(next(one for one in releases() if one.startswith("rtx-")))
    assert {name for name in missing if api.has(name)} == set()


def test_a_listener_whose_base_was_not_initialised_is_refused():
    double = Double()

    class Forgetful(double.trt.IProfiler):  # type: ignore[misc, name-defined]
        def __init__(self):
            pass

    context = double.trt.IExecutionContext()
    with pytest.raises(TypeError, match="must be called"):
        context.profiler = Forgetful()


def test_new_memory_is_full_of_what_nobody_takes_for_a_result_and_missed_when_it_was_freed():
    double = Double()
    cuda = Cuda(double.cuda)
    stream, address, target = cuda.create_stream(), cuda.allocate(4), np.zeros(1, np.float32)
    cuda.download(target.ctypes.data, address, 4, stream)
    cuda.wait_for_stream(stream)
    assert np.isnan(target[0])
    cuda.free(address)
    cuda.download(target.ctypes.data, address, 4, stream)
    with pytest.raises(Exception, match="SGK174"):
        cuda.wait_for_stream(stream)
    assert "not memory of the device" in double.violations[0]


def test_memory_that_two_streams_touch_in_no_order_is_seen_in_every_schedule():
    for seed in range(5):
        double = Double(schedule=seed)
        cuda = Cuda(double.cuda)
        first, second = cuda.create_stream(), cuda.create_stream()
        address, source = cuda.allocate(8), np.zeros(2, np.float32)
        cuda.upload(address, source.ctypes.data, 8, first)
        cuda.order(first, second)
        cuda.copy(address, address, 4, second)
        assert double.violations == []
        cuda.upload(address, source.ctypes.data, 8, first)  # which does not wait for the copy
        (said,) = {one.partition(" ")[0] for one in double.violations}
        assert said == "stream"


def test_what_is_used_while_another_device_is_current_is_seen():
    double = Double()
    cuda = Cuda(double.cuda)
    with cuda.on(1):
        stream, address = cuda.create_stream(), cuda.allocate(8)
        cuda.copy(address, address, 4, stream)
    assert double.violations == []
    cuda.copy(address, address, 4, stream)
    assert double.violations == ["a stream of device 1 is used while device 0 is current"]


def test_two_threads_in_one_context_are_seen():
    double = Double()
    context = double.trt.IExecutionContext()
    context._begin(object(), managed=False)
    context._user.acquire()
    assert not context.execute_async_v3(0)
    assert double.violations == ["two threads are in one context"]
