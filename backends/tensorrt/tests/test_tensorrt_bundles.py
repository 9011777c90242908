"""Bundles with engines of TensorRT: built here, opened on other libraries, versions and GPUs.

What opens them is the double of TensorRT; what builds them without a GPU is TensorRT for RTX.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from backends.tensorrt.tests.double_road import GROWING, SUM, X, parsed, summed
from backends.tensorrt.tests.tensorrt_double import Double
from backends.tensorrt.tests.tensorrt_models import blocks, needs_rtx
from subgraphkit.backend import EngineOrigin
from subgraphkit.errors import BackendUnavailableError, BundleError, CompileError, ExecutionError
from subgraphkit_tensorrt import TensorRTBackend
from subgraphkit_tensorrt import backend as backend_module
from subgraphkit_tensorrt.building.plan import engine_fits
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.library.flavours import Installation, find
from subgraphkit_tensorrt.library.gpus import Gpu, Machine
from subgraphkit_tensorrt.running import device as device_module


def _compatible(level):
    return {"builder": {"hardware_compatibility_level": level}}


QUIET = {"timing_cache": False, "min_subgraph_nodes": 1}
WEIGHT = (np.arange(4096, dtype=np.float32).reshape(64, 64) % 5) / 5


@pytest.fixture
def on(monkeypatch, tmp_path):
    """Return what puts a library and a GPU into this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAPH_CACHE", "off")

    def move(release="11.4.0", gpu="NVIDIA L4", driver="13.0"):
        double = Double(release)
        device = Gpu(0, gpu, (8, 9), 58)
        found = Installation("ready", double.library, Machine((device,), driver))
        monkeypatch.setattr(backend_module.flavours, "find", lambda flavour="auto": found)
        monkeypatch.setattr(device_module, "cuda_runtime", lambda: Cuda(double.cuda))
        return double

    return move


def _session(source, **options):
    given = {"tensorrt": QUIET | options} if options or not isinstance(source, str) else None
    return sk.InferenceSession(source, backend=[TensorRTBackend], options=given, strict=True)


def _exported(model=SUM, **options):
    proto = parsed(model) if isinstance(model, str) else model
    with _session(proto, **options) as session:
        session.export("bundle")


def _weighted():
    text = "g (float[2, 64] x) => (float[2, 64] y) { a = MatMul(x, w) y = Relu(a) }"
    return parsed(text, w=WEIGHT)


def test_an_engine_is_loaded_and_not_built(on, monkeypatch):
    on()
    _exported()
    double = on()
    monkeypatch.delattr(double.trt.Builder, "build_serialized_network")
    monkeypatch.delattr(double.trt.OnnxParser, "parse")
    with _session("bundle") as opened:
        np.testing.assert_array_equal(opened.run(None, {"x": X})[0], summed(X))
        assert [one.backend for one in opened.partitioning.subgraphs] == ["tensorrt"]
        opened.export("again")
    with _session("again") as opened:
        np.testing.assert_array_equal(opened.run(None, {"x": X})[0], summed(X))


def test_engines_built_while_a_session_ran_are_in_its_bundle(on):
    on()
    with _session(parsed(GROWING)) as session:
        for rows in (1, 5):
            session.run(None, {"x": np.ones((rows, 3), np.float32)})
        session.export("bundle")
    double = on()
    with _session("bundle", allow_runtime_build=False) as opened:
        for rows in (1, 3, 5):
            x = np.full((rows, 3), rows, np.float32)
            np.testing.assert_array_equal(opened.run(None, {"x": x})[0], summed(x))
        with pytest.raises(ExecutionError, match="SGK178"):
            opened.run(None, {"x": np.ones((9, 3), np.float32)})
    assert double.violations == []


@pytest.mark.parametrize(("there", "here", "text"), [
    ({"release": "10.3.0"}, {"release": "10.13.0"}, "built by tensorrt 10.3.0"),
    ({}, {"gpu": "NVIDIA H100"}, "another GPU"),
    ({"driver": "13.0"}, {"driver": "12.8"}, "driver here is older"),
])  # fmt: skip
def test_what_is_not_known_to_fit_is_not_loaded(on, monkeypatch, there, here, text):
    on(**there)
    _exported()
    double = on(**here)
    monkeypatch.delattr(double.trt.Runtime, "deserialize_cuda_engine")
    with pytest.raises(BundleError, match=f"SGK186.*{text}"):
        _session("bundle")


@pytest.mark.parametrize(("here", "options"), [
    ({"driver": "13.1"}, {}),
    ({"gpu": "NVIDIA RTX 4090"}, _compatible("SAME_COMPUTE_CAPABILITY")),
    ({"gpu": "NVIDIA H100"}, _compatible("AMPERE_PLUS")),
])  # fmt: skip
def test_newer_drivers_and_gpus_of_the_class_built_for_are_taken(on, here, options):
    on()
    _exported(**options)
    on(**here)
    with _session("bundle") as opened:
        np.testing.assert_array_equal(opened.run(None, {"x": X})[0], summed(X))


def test_a_plan_that_the_library_refuses_after_all_is_an_error(on, monkeypatch):
    on()
    _exported()
    double = on()
    monkeypatch.setattr(double.trt.Runtime, "deserialize_cuda_engine", lambda *_: None)
    with pytest.raises(CompileError, match="SGK187"):
        _session("bundle")


def test_an_engine_that_can_be_refitted_brings_its_weights_and_takes_new_ones(on):
    on()
    _exported(_weighted(), refittable=True)
    assert len(list(Path("bundle").glob("weights.*"))) == 1
    on()
    x = np.ones((2, 64), np.float32)
    with _session("bundle") as opened:
        assert opened.update_weights({"w": WEIGHT * 2}) == {"tensorrt_0": "refitted"}
        np.testing.assert_allclose(opened.run(None, {"x": x})[0], 2 * x @ WEIGHT, rtol=1e-5)
        opened.export("again")
    with _session("again") as opened:
        np.testing.assert_allclose(opened.run(None, {"x": x})[0], 2 * x @ WEIGHT, rtol=1e-5)


def test_engines_with_weights_bring_none_along(on):
    on()
    _exported(_weighted())
    assert list(Path("bundle").glob("weights.*")) == []
    assert Path("bundle/model.onnx").stat().st_size < 1000


def test_what_decides_over_this_machine_is_not_taken_from_a_bundle(on):
    on()
    _exported(max_contexts=3, **_compatible("SAME_COMPUTE_CAPABILITY"))
    (entry,) = json.loads(Path("bundle/manifest.json").read_text())["backends"]
    assert entry["options"] == _compatible("SAME_COMPUTE_CAPABILITY")
    double = on()
    with _session("bundle") as opened:
        (step,) = opened.plan.steps
        assert step.operator._options.max_contexts == 1
    assert double.violations == []


HERE = EngineOrigin("tensorrt;11.4.0;portable", "linux-x86_64-little", "subgraphkit-tensorrt 1")


@pytest.mark.parametrize(("other", "text"), [
    ("tensorrt_rtx;11.4.0;portable", "tensorrt 11.4.0 is in use"),
    ("tensorrt;11.4.0.107;portable", "built by tensorrt 11.4.0.107"),
    ("tensorrt;11.4.0;portable;0123", "plugin"),
    ("", "tensorrt 11.4.0 is in use"),
])  # fmt: skip
def test_a_fingerprint_that_differs_otherwise_does_not_fit(other, text):
    made = EngineOrigin(other, HERE.system, HERE.implementation)
    answer: Any = engine_fits(made, HERE)
    assert text in answer.text


# -- the real library, which builds and cannot run here ------------------------------------------


@pytest.fixture
def rtx(tmp_path, monkeypatch):
    """Work in a folder with a model, and return the words for building only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAPH_CACHE", "off")
    onnx.save(blocks((0, 1)), "model.onnx")
    return "tensorrt:flavour=tensorrt_rtx:build_only=true"


@needs_rtx
def test_a_machine_without_a_gpu_exports_and_says_what_is_missing_to_run(rtx):
    dims = {"batch": (1, 8, 32), "seq": (16, 128, 512)}
    with sk.InferenceSession("model.onnx", rtx, options={"tensorrt": {"dims": dims}}) as session:
        session.export("bundle")
    assert list(Path("bundle").glob("*.engine"))
    assert list(Path("bundle").glob("weights.*")) == []
    library = {"tensorrt": {"flavour": "tensorrt_rtx"}}
    if not find("tensorrt_rtx").machine.devices:
        with pytest.raises(BackendUnavailableError, match=r"SGK104.*cannot run them") as caught:
            sk.InferenceSession("bundle", options=library)
        assert "build_only" not in caught.value.hint
    only_built = {"tensorrt": {**library["tensorrt"], "build_only": True}}
    with sk.InferenceSession("bundle", options=only_built) as opened:
        shape = {one.name: [2, 16, *one.shape[2:]] for one in opened.get_inputs()}
        feeds = {name: np.zeros(dims, np.float32) for name, dims in shape.items()}
        with pytest.raises(ExecutionError, match="SGK163"):
            opened.run(None, feeds)
        opened.export("again")
    one, other = (next(Path(place).glob("*.engine")) for place in ("bundle", "again"))
    assert one.read_bytes() == other.read_bytes()
    shutil.rmtree("bundle")
