"""What TensorRT leaves runs on ONNX Runtime on the same GPU, and arrays stay where they are."""

import inspect

import numpy as np
import onnxruntime
import pytest

import subgraphkit as sk
from backends.tensorrt.tests import double_road
from backends.tensorrt.tests.double_road import DoubleBackend, parsed
from backends.tensorrt.tests.onnxruntime_double import IOBinding, OnnxRuntimeDouble, OrtValue
from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit.backend import Traits
from subgraphkit.errors import InputError
from subgraphkit.types import DataType, TensorType
from subgraphkit_onnxruntime import OnnxRuntimeBackend, library, operator, settings, tensors
from subgraphkit_onnxruntime.backend_options import Options
from subgraphkit_onnxruntime.tensors import as_ort_value
from subgraphkit_tensorrt.backend import _neighbour
from subgraphkit_tensorrt.backend_options import Options as TensorRTOptions
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running import arrays

MODEL = """agraph (float[n,3] x) => (float[n,3] y, float[n,3] z)
    { a = Relu(x) b = Add(a, x) c = Sin(b) z = Neg(c) d = Abs(c) y = Mul(d, a) }"""
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


def _right(x):
    a = np.maximum(x, 0)
    c = np.sin(a + x)
    return [np.abs(c) * a, -c]


@pytest.fixture
def near(double, monkeypatch):
    """Put ONNX Runtime with a CUDA provider on the double's device; Sin is left to it."""
    made = OnnxRuntimeDouble(double)
    for module in (library, operator, settings, tensors):
        monkeypatch.setattr(module, "onnxruntime", lambda: made)
    monkeypatch.setattr(double_road, "_NEVER", {"Sin"})
    return made


def _session(double, *stream):
    given = tuple(f"user_compute_stream={one}" for one in stream)
    neighbour = OnnxRuntimeBackend(Options(providers=("cuda",), provider_options=given))
    first = DoubleBackend(double, dims={"n": (1, 2, 8)})
    return sk.InferenceSession(parsed(MODEL), [first, neighbour], fallback="none")


def test_arrays_pass_between_tensorrt_and_onnxruntime_at_the_same_addresses(double, near):
    told: dict[str, int] = {}
    double.meanwhile("IExecutionContext.set_tensor_address", lambda _, *one: told.update([one]))
    with _session(double) as session:
        homes = [one.backend for one in session.partitioning.subgraphs]
        assert (set(homes), homes.count("onnxruntime")) == ({"onnxruntime", "tensorrt"}, 1)
        devices = {step.operator.device for step in session.plan.steps}
        assert devices == {"cuda:0"}
        for factor in (1, 2, -1):
            before = dict(double.cuda.copies)
            found = session.run(None, {"x": X * np.float32(factor)})
            for have, want in zip(found, _right(X * np.float32(factor)), strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-6)
            after = double.cuda.copies
            assert after[1] - before[1] <= 1  # x goes up once
            assert after[2] - before[2] == 2  # y and z come down, and nothing else does
            assert near.read["b"] == told["b"]  # what TensorRT wrote, ONNX Runtime reads
            assert near.wrote["c"] == told["c"]  # and the other way round


@pytest.mark.parametrize("own", [False, True])
def test_the_work_of_both_is_ordered_on_the_stream_that_onnxruntime_is_given(double, near, *, own):
    stream = Cuda(double.cuda).create_stream() if own else 0
    with _session(double, *([stream] if own else [])) as session:
        for n in (1, 4, 8, 2, 8):
            x = np.full((n, 3), n, np.float32)
            for have, want in zip(session.run(None, {"x": x}), _right(x), strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-6)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        for name in ("y", "z"):
            binding.bind_output(name, "cuda")
        for _ in range(3):
            session.run_with_iobinding(binding)
            for have, want in zip(binding.get_outputs(), _right(X), strict=True):
                np.testing.assert_allclose(np.asarray(have), want, rtol=1e-6)
    assert near.streams == {stream}


def test_the_double_sees_work_of_both_that_is_not_ordered(double, near, monkeypatch):
    monkeypatch.setattr(arrays.DeviceArray, "_order", lambda *_: None)
    with _session(double) as session:
        session.run(None, {"x": X})
    assert double.violations
    double.violations.clear()


def test_outputs_stay_on_the_device_and_are_fed_again(double, near):
    neighbour = OnnxRuntimeBackend(Options(providers=("cuda",)))
    model = parsed("agraph (float[2,3] x) => (float[2,3] y) { y = Sin(x) }")
    with sk.InferenceSession(model, [neighbour], fallback="none") as session:
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y", "cuda")
        session.run_with_iobinding(binding)
        (left,) = binding.get_outputs()
        assert left.__dlpack_device__() == (2, 0)
        again = session.io_binding()
        again.bind_ortvalue_input("x", left)
        again.bind_output("y", "cpu")
        session.run_with_iobinding(again)
        np.testing.assert_allclose(np.asarray(again.get_outputs()[0]), np.sin(np.sin(X)), rtol=1e-6)
        assert near.read["x"] == near.wrote["y"]
        wrong = tensors.OrtArray(
            OrtValue(double, near.allocate(24), np.zeros((3, 2), np.float32)), np.dtype(np.float32)
        )
        again.bind_ortvalue_input("x", wrong)
        with pytest.raises(InputError, match=r"SGK140.*3, 2"):
            session.run_with_iobinding(again)


@pytest.mark.parametrize("dtype", [DataType.BOOL, DataType.FLOAT16, DataType.BFLOAT16])
def test_an_output_is_left_on_the_device_only_if_it_can_be_fetched_from_there(dtype):
    value, held = as_ort_value(np.ones((2, 3), dtype.numpy))
    is_left = tensors.is_plain(TensorType(dtype, (2, 3)))  # as the operator asks
    try:
        fetch_to_host = np.asarray(tensors.OrtArray(value, held.dtype))
    except RuntimeError:
        assert not is_left
    else:
        assert is_left
        np.testing.assert_array_equal(fetch_to_host, held)


def test_the_double_has_the_surface_of_onnxruntime():
    real = onnxruntime.IOBinding
    for name in ("bind_ortvalue_input", "bind_output", "bind_ortvalue_output", "get_outputs"):
        ours = list(inspect.signature(getattr(IOBinding, name)).parameters)
        assert ours == list(inspect.signature(getattr(real, name)).parameters)[: len(ours)], name
    for name in ("shape", "element_type", "data_type", "data_ptr", "numpy", "__dlpack_device__"):
        assert callable(getattr(onnxruntime.OrtValue, name)), name
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = onnxruntime.OrtValue.from_dlpack(tensors._Ready(_OnHost(array), 1))
    ours = OrtValue(Double(), 0, array)
    assert value.data_ptr() == ours.data_ptr() == array.ctypes.data
    for name in ("shape", "element_type", "data_type", "__dlpack_device__"):
        assert tuple(np.ravel(getattr(value, name)())) == tuple(np.ravel(getattr(ours, name)()))
    np.testing.assert_array_equal(np.from_dlpack(tensors.OrtArray(value, array.dtype)), array)


class _OnHost:
    """An array that takes a stream, as those on a device do."""

    def __init__(self, array):
        self.array, self.streams = array, []
        self.__dlpack_device__ = array.__dlpack_device__

    def __dlpack__(self, *, stream):
        assert stream == 1
        return self.array.__dlpack__()


def test_tensorrt_alone_asks_for_onnxruntime_on_its_gpu():
    for given, asked in (
        (TensorRTOptions(), "onnxruntime:providers=cuda"),
        (TensorRTOptions(device=1), "onnxruntime:providers=cuda:provider_options=device_id=1"),
        (TensorRTOptions(build_only=True), ""),
    ):
        assert _neighbour(given) == asked


class Choosy(DoubleBackend):
    """A backend that was named alone, and leaves Sin to a neighbour."""

    name = "choosy"
    traits = Traits(neighbour="onnxruntime:providers=cuda")


def test_what_a_backend_named_alone_leaves_runs_on_its_neighbour(double, near, monkeypatch, caplog):
    def homes(*named, **settings):
        backends = [Choosy(double, dims={"n": (1, 2, 8)}), *named]
        with sk.InferenceSession(parsed(MODEL), backends, on_fallback="ok", **settings) as session:
            for have, want in zip(session.run(None, {"x": X}), _right(X), strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-6)
            return {one.backend for one in session.partitioning.subgraphs}

    with caplog.at_level("INFO", "subgraphkit.registry"):
        assert homes() == {"choosy", "onnxruntime"}
    assert "what 'choosy' leaves runs on onnxruntime:providers=cuda, which is here" in caplog.text
    assert homes("numpy") == {"choosy", "numpy"}  # who names others gets no more
    assert homes(fallback="numpy") == {"choosy", "numpy"}
    with caplog.at_level("INFO", "subgraphkit.registry"):
        monkeypatch.setattr(Choosy, "traits", Traits(neighbour="onnxruntime:providers=rocm"))
        assert homes() == {"choosy", "numpy"}
        monkeypatch.setattr(Choosy, "traits", Traits(neighbour="nobody"))
        assert homes() == {"choosy", "numpy"}
    assert "what 'choosy' leaves does not run on nobody" in caplog.text
