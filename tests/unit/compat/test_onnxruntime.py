"""ONNX Runtime's interface over ours, and programs that are written for it."""

import os
import pickle  # noqa: TID251 (what engines do with sessions)
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import subgraphkit as sk
import subgraphkit.compat.onnxruntime as ort
from subgraphkit import errors
from subgraphkit.compat.onnxruntime import providers
from subgraphkit.compat.onnxruntime.transformers.io_binding_helper import TypeHelper
from tests.models import parsed
from tests.scripts import run_child

X = np.ones((2, 4), np.float32)
TEXT = "g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) { y = Relu(x)  z = Neg(y) }"


@pytest.fixture(autouse=True)
def clean_surroundings(monkeypatch):
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")


@pytest.fixture
def path(tmp_path):
    proto = parsed(TEXT)
    proto.producer_name, proto.model_version = "me", 7
    proto.metadata_props.add(key="character", value="a\nb")
    onnx.save(proto, tmp_path / "m.onnx")
    return str(tmp_path / "m.onnx")


def test_a_session_is_made_and_run_as_there(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["x"]
    assert session.get_inputs()[0].shape == ["N", 4]
    assert session.get_inputs()[0].type == "tensor(float)"
    y, z = session.run(None, {"x": X}, ort.RunOptions())
    np.testing.assert_array_equal(z, -y)
    (z,) = session.run(["z"], {"x": X.tolist()})
    np.testing.assert_array_equal(z, -y)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    assert session.get_session_options() is options
    assert session.inner.resolved_config.threads == 1


def test_a_number_of_threads_that_is_configured_wins_over_that_of_a_program(path, monkeypatch):
    monkeypatch.setenv("SUBGRAPH_THREADS", "2")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
    assert session.inner.resolved_config.threads == 2


def test_bytes_are_a_model(path):
    session = ort.InferenceSession(Path(path).read_bytes(), providers=ort.get_available_providers())
    np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], X)


def test_what_the_model_says_of_itself_is_known(path):
    meta = ort.InferenceSession(path).get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.version) == ("me", "g", 7)
    assert meta.custom_metadata_map == {"character": "a\nb"}


def test_what_is_configured_wins_over_the_providers_of_a_program(path, monkeypatch):
    monkeypatch.setenv("SUBGRAPH_BACKEND", "numpy")
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert session.inner.partitioning.backends == ("numpy",)
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_a_provider_without_a_backend_is_left_out_with_a_warning(path):
    with pytest.warns(sk.errors.SubgraphkitWarning, match="DmlExecutionProvider.*left out"):
        session = ort.InferenceSession(
            path, providers=[("DmlExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"]
        )
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_providers_stand_for_backends(path):
    pytest.importorskip("subgraphkit_openvino")
    session = ort.InferenceSession(
        path,
        providers=["OpenVINOExecutionProvider", "CPUExecutionProvider"],
        provider_options=[{"device_type": "CPU"}, {}],
    )
    assert session.inner.partitioning.backends[0] == "openvino"
    assert session.get_providers() == ["OpenVINOExecutionProvider", "CPUExecutionProvider"]
    assert session.get_provider_options()["OpenVINOExecutionProvider"] == {"device_type": "CPU"}
    session.set_providers(["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], X)


def test_providers_of_another_kind_are_refused(path):
    with pytest.raises(sk.SubgraphkitError, match="SGK107"):
        ort.InferenceSession(path, providers=["cpu"])
    with pytest.raises(TypeError, match="provider"):
        ort.InferenceSession(path, provider=["CPUExecutionProvider"])


def test_free_dimensions_become_shapes(path):
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("N", 2)
    assert ort.InferenceSession(path, options).get_inputs()[0].shape == [2, 4]


def test_options_reach_the_backend_that_has_them():
    options = ort.SessionOptions()
    options.inter_op_num_threads = 3
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("a.b", "1")
    assert options.get_session_config_entry("a.b") == "1"
    options.enable_cpu_mem_arena = False
    assert options.options_for("onnxruntime") == {
        "arena": False,
        "inter_op_threads": 3,
        "execution_mode": "parallel",
        "optimization": "none",
        "session_config": ["a.b=1"],
    }
    assert options.options_for("numpy") == {}


def test_what_has_no_equivalent_says_so(path):
    options = ort.SessionOptions()
    options.enable_profiling = True
    training = ort.RunOptions()
    training.training_mode = True
    session = ort.InferenceSession(path)
    for act in (
        lambda: ort.InferenceSession(path, options),
        lambda: session.run(None, {"x": X}, training),
        session.end_profiling,
        lambda: options.register_custom_ops_library("ops.so"),
        lambda: ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0),
    ):
        with pytest.raises(sk.SubgraphkitError, match=r"SGK114.*no equivalent"):
            act()


def test_runs_that_are_to_terminate_do_so_however_they_are_called(path):
    session, stopped, told = ort.InferenceSession(path), ort.RunOptions(), threading.Event()
    stopped.terminate = True
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    problems: list[str] = []

    def callback(_, __, problem):
        problems.append(problem)
        told.set()

    for act in (
        lambda: session.run(None, {"x": X}, stopped),
        lambda: session.run_with_iobinding(binding, stopped),
    ):
        with pytest.raises(sk.errors.RunCancelledError, match="SGK139"):
            act()
    session.run_async(["y"], {"x": X}, callback, None, stopped)
    assert told.wait(30)
    assert "SGK139" in problems[0]


def test_a_run_in_another_thread_calls_back(path):
    session, done, told = ort.InferenceSession(path), threading.Event(), []

    def callback(results, user_data, problem):
        told.append((results, user_data, problem))
        done.set()

    for feeds in ({"x": X}, {"w": X}):
        done.clear()
        session.run_async(["y"], feeds, callback, "mine")
        assert done.wait(30)
    (results, data, problem), (nothing, _, failure) = told
    np.testing.assert_array_equal(results[0], X)
    assert (data, problem, nothing) == ("mine", "", [])
    assert "SGK142" in failure


def test_values_are_wrapped_and_bound(path):
    session = ort.InferenceSession(path)
    fed = ort.OrtValue.ortvalue_from_numpy(X)
    out = ort.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32)
    assert (fed.shape(), fed.data_type(), fed.element_type()) == ([2, 4], "tensor(float)", 1)
    assert (fed.device_name(), fed.is_tensor(), fed.has_value()) == ("cpu", True, True)
    for binding in (session.io_binding(), ort.IOBinding(session)):
        binding.bind_ortvalue_input("x", fed)
        binding.bind_output("y")
        binding.bind_ortvalue_output("z", out)
        session.run_with_iobinding(binding, ort.RunOptions())
        y, z = binding.get_outputs()
        np.testing.assert_array_equal(y.numpy(), X)
        np.testing.assert_array_equal(out.numpy(), -X)
        assert z.data_ptr() == out.data_ptr()
        copied = binding.copy_outputs_to_cpu()[1]
        out.numpy().fill(0)
        np.testing.assert_array_equal(copied, -X)
    binding.bind_input("x", "cpu", 0, np.float32, (2, 4), fed.data_ptr())
    session.run_with_iobinding(binding)
    (z,) = session.run_with_ort_values(["z"], {"x": fed})
    np.testing.assert_array_equal(np.from_dlpack(z), -X)
    fed.update_inplace(X * 2)
    np.testing.assert_array_equal(X, np.full((2, 4), 2))
    X.fill(1)


def test_types_are_translated():
    assert TypeHelper.ort_type_to_numpy_type("tensor(int64)") is np.int64
    assert TypeHelper.ort_type_to_numpy_type("tensor(float16)") is np.float16
    with pytest.raises(ValueError, match="seq"):
        TypeHelper.ort_type_to_numpy_type("seq(tensor(float))")


def test_the_names_of_the_interface_are_those_of_onnx_runtime():
    theirs = pytest.importorskip("onnxruntime")
    assert [name for name in ort.__all__ if not hasattr(theirs, name)] == []
    session = {name for name in dir(ort.InferenceSession) if not name.startswith("_")}
    assert session - set(dir(theirs.InferenceSession)) == {"inner"}
    assert "CPUExecutionProvider" in ort.get_all_providers()
    assert ort.get_device() in {"CPU", "GPU"}
    for act in (ort.disable_telemetry_events, ort.enable_telemetry_events, ort.preload_dlls):
        act()
    for act in (ort.set_default_logger_severity, ort.set_default_logger_verbosity, ort.set_seed):
        act(3)


def ran(program, **environment):
    """Run a program in which ``import onnxruntime`` finds us."""
    begin = "import sys, subgraphkit.compat.onnxruntime as ort; sys.modules['onnxruntime'] = ort\n"
    done = run_child(
        [sys.executable, "-W", "ignore", "-c", begin + textwrap.dedent(program)],
        env={**os.environ, **environment},
    )
    return done.stdout.strip()


@pytest.mark.parametrize("backend", ["", "onnxruntime", "numpy"])
def test_the_library_behind_a_backend_is_still_found(path, backend):
    pytest.importorskip("subgraphkit_onnxruntime")
    program = f"""
        import numpy, onnxruntime
        session = onnxruntime.InferenceSession({path!r}, providers=["CPUExecutionProvider"])
        print(session.inner.partitioning.backends[0], onnxruntime is ort)
    """
    wanted = backend or "onnxruntime"
    assert ran(program, SUBGRAPH_BACKEND=backend) == f"{wanted} True"


@pytest.mark.parametrize("backend", ["", "numpy"])
def test_magika_runs(backend):
    pytest.importorskip("magika")
    program = """
        from magika import Magika
        of = Magika().identify_bytes
        print(of(b"import os\\nfor x in range(10):\\n    print(x, os.getcwd())\\n").output.label,
              of(b'{"a": 1, "b": [1, 2, 3]}').output.label)
    """
    assert ran(program, SUBGRAPH_BACKEND=backend) == "python json"


def test_rapidocr_reads_a_picture():
    for name in ("rapidocr_onnxruntime", "cv2", "pyclipper", "shapely", "PIL"):
        pytest.importorskip(name)
    program = """
        import numpy
        from PIL import Image, ImageDraw, ImageFont
        from rapidocr_onnxruntime import RapidOCR
        picture = Image.new("RGB", (640, 160), "white")
        font = ImageFont.load_default(48)
        ImageDraw.Draw(picture).text((20, 20), "Hello World 2026", fill="black", font=font)
        (found,), _ = RapidOCR()(numpy.asarray(picture))
        print(found[1])
    """
    assert ran(program).replace(" ", "") == "HelloWorld2026"


def test_silero_hears_nothing_in_silence():
    torch = pytest.importorskip("torch")
    pytest.importorskip("silero_vad")
    program = """
        import pathlib, silero_vad, torch
        from silero_vad.utils_vad import OnnxWrapper
        path = pathlib.Path(silero_vad.__file__).with_name("data") / "silero_vad.onnx"
        model = OnnxWrapper(str(path), force_onnx_cpu=True)
        print(max(float(model(torch.zeros(1, 512), 16000)) for _ in range(5)) < 0.1)
    """
    assert torch is not None
    assert ran(program) == "True"


def test_a_session_is_pickled_as_what_opens_it_elsewhere(tmp_path):
    onnx.save(parsed("g (float[N] x) => (float[N] y) { y = Neg(x) }"), tmp_path / "m.onnx")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(tmp_path / "m.onnx", options, ["CPUExecutionProvider"])
    again = pickle.loads(pickle.dumps(session))
    assert again.inner.spec == session.inner.spec
    assert again.get_providers() == session.get_providers()
    np.testing.assert_array_equal(again.run(None, {"x": np.ones(2, np.float32)})[0], [-1, -1])


def test_dimensions_have_the_names_that_the_file_declares():
    text = (
        "g (float[batch, seq] x, int64[1] k) => (float[batch, found] y, float[] s, float[2, q] t) "
        "{ y = Slice(x, k, k, k) s = Reshape(y, k) t = Expand(y, k) }"
    )
    proto = parsed(text)
    del proto.graph.output[1].type.tensor_type.shape.dim[:]
    proto.graph.output[1].type.tensor_type.ClearField("shape")
    session = ort.InferenceSession(proto.SerializeToString())
    assert [one.shape for one in session.get_inputs()] == [["batch", "seq"], [1]]
    y, s, t = (one.shape for one in session.get_outputs())
    assert (y, t) == (["batch", "found"], [2, "q"])
    assert not any(isinstance(size, str) for size in s)
    named = sk.InferenceSession(proto, "numpy", shapes={"x": ("rows", 3)})
    assert named.get_inputs()[0].shape == ["rows", 3]


CATCHES = """
import sys
import numpy as np
import subgraphkit.compat.onnxruntime as door
sys.modules["onnxruntime"] = door
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile, OrtDevice
import onnxruntime.capi._pybind_state as state

for call, theirs in (
    (lambda: onnxruntime.InferenceSession("none.onnx"), state.NoSuchFile),
    (lambda: onnxruntime.InferenceSession(b"nothing"), state.InvalidProtobuf),
    (lambda: onnxruntime.InferenceSession(sys.argv[1]).run(["q"], {}), state.InvalidArgument),
    (lambda: onnxruntime.InferenceSession(sys.argv[1]).run(None, {"x": np.ones(3)}), ValueError),
):
    try:
        call()
    except theirs as error:
        print(type(error).__name__, error.code)
device = OrtDevice.make("cuda", 1)
print(device.device_type() == OrtDevice.cuda(), device.device_id())
"""


def test_programs_catch_errors_by_the_classes_of_onnxruntime(path):
    done = run_child([sys.executable, "-c", CATCHES, path], status=None)
    assert done.stdout.splitlines() == [
        "ModelNotFoundError SGK201",
        "InvalidModelError SGK202",
        "InputError SGK143",
        "InputError SGK141",
        "True 1",
    ], done.stderr


def test_an_error_of_both_kinds_travels_as_ours(path):
    with pytest.raises(sk.errors.InputError) as raised:
        ort.InferenceSession(path).run(["q"], {"x": X})
    again = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(again, sk.errors.InputError)
    assert again.code == "SGK143"


def test_names_that_nobody_knows_are_told_as_there():
    with pytest.raises(RuntimeError, match=r"SGK107.*no configuration entry 'spin'"):
        ort.SessionOptions().get_session_config_entry("spin")
    with pytest.raises(RuntimeError, match=r"SGK107.*no provider 'Fast'"):
        ort.InferenceSession("m.onnx", providers=["Fast"])
    with pytest.raises(errors.CallerError, match="SGK114"):
        ort.SessionOptions().add_external_initializers(["w"], [0])


def test_a_provider_that_can_only_build_here_is_not_available(monkeypatch):
    found = SimpleNamespace(probe=lambda: SimpleNamespace(available=True, devices=()))
    monkeypatch.setattr(providers, "_usable", lambda: {"tensorrt", "onnxruntime"})
    monkeypatch.setattr(providers, "get_backend", lambda _: found)
    assert (ort.get_device(), ort.get_available_providers()) == ("CPU", ["CPUExecutionProvider"])
