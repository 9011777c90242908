"""Finding the library in every state it can be in."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from backends.tensorrt.tests.tensorrt_models import needs_rtx
from subgraphkit import bind
from subgraphkit.errors import BackendUnavailableError, OptionError
from subgraphkit_tensorrt import TensorRTBackend
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.claiming.filters import plugin_refusal
from subgraphkit_tensorrt.library import flavours
from subgraphkit_tensorrt.library.flavours import FLAVOURS, find
from subgraphkit_tensorrt.library.gpus import Gpu, Machine
from subgraphkit_tensorrt.rules.static_rules import Rules

NO_GPU = Machine(problem="there is no NVIDIA GPU", hint="Look at CUDA_VISIBLE_DEVICES.")
L4 = Gpu(0, "NVIDIA L4", (8, 9), 58)
ORIN = Gpu(1, "Orin", (8, 7), 16)

# What a binding does without a driver: its objects cannot be made.
WITHOUT_DRIVER = """
__version__ = "10.3.0"
class ILogger:
    class Severity:
        __members__ = {"ERROR": 1}
class OnnxParser: ...
class Builder:
    def __init__(self, logger):
        logger.log(1, "CUDA initialization failure with error: 35")
        raise TypeError("pybind11::init(): factory function returned nullptr")
"""
RUN_ONLY = WITHOUT_DRIVER.replace("OnnxParser", "Other").replace("Builder", "Another")
BROKEN = 'raise ImportError("libnvinfer.so.10: cannot open shared object file")'


@pytest.fixture
def _nothing_installed(monkeypatch):
    """Hide every TensorRT there may be, and forget what was found."""
    for flavour in FLAVOURS.values():
        for module in flavour.modules:
            monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(flavours, "_LIBRARIES", {})
    monkeypatch.setattr(flavours, "machine", lambda: NO_GPU)
    monkeypatch.delenv("SUBGRAPH_TENSORRT_FLAVOUR", raising=False)


@pytest.fixture
def place(_nothing_installed, monkeypatch, tmp_path):
    """Return a function that installs a package of some name and text."""
    monkeypatch.syspath_prepend(tmp_path)
    placed = []

    def install(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name)
        placed.append(name)

    yield install
    for name in placed:
        sys.modules.pop(name, None)


def _with_devices(monkeypatch, *found):
    monkeypatch.setattr(flavours, "machine", lambda: Machine(found, "13.0"))


@pytest.mark.usefixtures("_nothing_installed")
def test_an_absent_package_is_told_with_the_commands_that_install_one():
    found = find()
    assert (found.state, found.library) == ("absent package", None)
    assert found.problem == (
        "TensorRT itself, NVIDIA's library, is not installed; the package subgraphkit-tensorrt "
        "only drives it"
    )
    assert found.hint.splitlines() == [
        "Install it: pip install 'subgraphkit-tensorrt[cu13]'",
        "Or, for GeForce RTX and RTX PRO: pip install 'subgraphkit-tensorrt[rtx]'",
    ]
    probe = TensorRTBackend.probe()
    assert (probe.available, probe.problems) == (False, (found.problem,))
    for flavour, title, extra in (("auto", "", "cu13"), ("tensorrt_rtx", " for RTX", "rtx")):
        said = f"SGK104.*TensorRT{title} itself, NVIDIA's library, is not installed"
        with pytest.raises(BackendUnavailableError, match=said) as caught:
            TensorRTBackend(Options(flavour=flavour))
        assert f"pip install 'subgraphkit-tensorrt[{extra}]'" in caught.value.hint


@pytest.mark.usefixtures("_nothing_installed")
def test_a_flavour_that_does_not_exist_does_not_make_the_probe_raise(monkeypatch):
    monkeypatch.setenv("SUBGRAPH_TENSORRT_FLAVOUR", "tensort")
    probe = TensorRTBackend.probe()
    assert not probe.available
    assert "SUBGRAPH_TENSORRT_FLAVOUR is 'tensort'" in probe.problems[0]
    assert probe.hint == "Correct SUBGRAPH_TENSORRT_FLAVOUR, or unset it."


def test_a_package_without_its_shared_libraries_is_another_state(place):
    place("tensorrt_bindings", BROKEN)
    found = find()
    assert found.state == "absent library"
    assert "does not load: libnvinfer.so.10: cannot open" in found.problem
    assert "LD_LIBRARY_PATH" in found.hint
    assert not TensorRTBackend.probe().available
    place("tensorrt_rtx", WITHOUT_DRIVER)
    assert find().state == "absent library"  # auto takes what comes first
    assert find("tensorrt_rtx").library is not None


@pytest.mark.parametrize("text", [WITHOUT_DRIVER, RUN_ONLY])
def test_a_library_that_can_do_nothing_without_a_gpu_says_so(place, text):
    place("tensorrt", text)
    found = find()
    assert found.state == "absent device"
    assert found.problem == "TensorRT 10.3.0 needs a GPU: there is no NVIDIA GPU"
    probe = TensorRTBackend.probe()
    assert (probe.available, probe.hint) == (False, NO_GPU.hint)
    assert probe.versions["tensorrt"] == "10.3.0"
    with pytest.raises(BackendUnavailableError, match="needs a GPU"):
        TensorRTBackend(Options(build_only=True))


KERNELS = "\nclass ComputeCapability: __members__ = {'CURRENT': 1, 'SM87': 87, 'SM89': 89}\n"


def test_a_library_without_kernels_for_the_gpu_says_which_it_has(place, monkeypatch):
    place("tensorrt_rtx", WITHOUT_DRIVER + KERNELS)
    h100 = Gpu(0, "NVIDIA H100", (9, 0), 132)
    _with_devices(monkeypatch, h100)
    found, said = find(), "it has kernels for SM87, SM89 and none for cuda:0 NVIDIA H100 (9.0)"
    assert (found.state, said in found.problem) == ("absent device", True)
    assert "pip install 'subgraphkit-tensorrt[cu13]'" in found.hint
    _with_devices(monkeypatch, h100, L4)
    assert TensorRTBackend(Options(device=1)).fingerprint()
    with pytest.raises(OptionError, match=f"SGK156.*{re.escape(said)}"):
        TensorRTBackend(Options(device=0))
    fp8 = Options(device=1, precision="fp8", calibration=Path("ranges.json"))
    assert TensorRTBackend(fp8).fingerprint()
    _with_devices(monkeypatch, h100, ORIN)
    with pytest.raises(OptionError, match=r"SGK157.*'fp8', which cuda:1 Orin \(8\.7\) does not"):
        TensorRTBackend(fp8)


def test_with_a_gpu_the_library_is_ready_and_a_device_that_is_not_there_refused(place, monkeypatch):
    place("tensorrt", WITHOUT_DRIVER)
    _with_devices(monkeypatch, L4, ORIN)
    probe = TensorRTBackend.probe()
    assert probe.available
    assert probe.devices == ("cuda:0 NVIDIA L4 (8.9)", "cuda:1 Orin (8.7)")
    assert probe.versions["driver (CUDA)"] == "13.0"
    with pytest.raises(OptionError, match=r"SGK112.*below 2: cuda:0 NVIDIA L4"):
        TensorRTBackend(Options(device=2))


def test_the_fingerprint_names_library_device_driver_and_plugins(place, monkeypatch, tmp_path):
    place("tensorrt", WITHOUT_DRIVER)
    _with_devices(monkeypatch, L4, ORIN)
    first, second = (TensorRTBackend(Options(device=index)).fingerprint() for index in (0, 1))
    assert first == "tensorrt;10.3.0;NVIDIA L4,sm89,58,cuda13.0"
    assert first != second
    backend = TensorRTBackend()
    plugin = tmp_path / "plugin.so"
    prints = set()
    for content in (b"old", b"new"):
        plugin.write_bytes(content)
        backend.option_values = Options(plugin_libraries=(str(plugin),))
        prints.add(backend.fingerprint())
    assert len(prints) == 2


@needs_rtx
def test_rtx_builds_without_a_gpu_and_says_that_it_cannot_run(monkeypatch):
    monkeypatch.setattr(flavours, "machine", lambda: NO_GPU)
    found = find("tensorrt_rtx")
    assert found.state == "build only"
    said = "SGK104.*can build engines here but cannot run them: there is no NVIDIA GPU"
    with pytest.raises(BackendUnavailableError, match=f"(?s){said}.*build_only=true"):
        TensorRTBackend(Options(flavour="tensorrt_rtx"))
    planner = TensorRTBackend.planner(Options(flavour="tensorrt_rtx"))
    assert (planner.traits.evidence, planner.library) == ("asked", found.library)
    backend = TensorRTBackend(Options(flavour="tensorrt_rtx", build_only=True))
    assert backend.library is found.library
    assert backend.fingerprint().startswith("tensorrt_rtx;1.")


SMALL = """<ir_version: 8, opset_import: ["" : 17]>
small (float[2, 3] x) => (float[2, 3] y) { a = Add(x, x)  b = Relu(a)  y = Mul(b, x) }"""


def test_a_release_before_the_supported_ones_is_named(place):
    place("tensorrt", WITHOUT_DRIVER.replace("10.3.0", "8.6.1.post1"))
    found = find("tensorrt")
    assert (found.state, found.library) == ("absent library", None)
    assert "TensorRT 8.6.1.post1 is installed; the oldest that can be used is 10.3" in found.problem


def test_a_planner_goes_by_what_the_library_says_of_itself(place):
    absent = TensorRTBackend.planner(Options(flavour="tensorrt_rtx"))
    assert (absent.traits.evidence, absent.library.flavour.name) == ("declared", "tensorrt_rtx")
    place("tensorrt_rtx", BROKEN)
    broken = TensorRTBackend.planner(Options(optimization_level=5))
    assert broken.traits.evidence == "declared"
    assert broken.library.capabilities.flavour == "tensorrt_rtx"
    place("tensorrt", WITHOUT_DRIVER)
    old = TensorRTBackend.planner(Options())
    assert (old.traits.evidence, old.library.capabilities.version) == ("declared", "10.3.0")
    assert "Attention" in Rules(old.library).table.newer
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["acme": 1]> g (float[2] x) => (float[2] y) '
        "{ y = acme.Own(x) }"
    )
    node = bind(model, backend="none").nodes[0]
    refusal = plugin_refusal(old.library, node)
    assert "no TensorRT here to be asked for a plugin" in str(refusal)


WITHOUT_TENSORRT = """
import json, sys
for name in {hidden}: sys.modules[name] = None
import subgraphkit as sk
from subgraphkit.cli import main
model = sys.argv[1]
ended = main(["plan", model, "--backend", "tensorrt", "--json"])
dry = sk.partition(sk.bind(sk.load(model)), "tensorrt", dry_run=True)
told = []
for run, given in ((sk.compile_subgraphs, (dry,)), (sk.InferenceSession, (model, "tensorrt"))):
    try: run(*given)
    except sk.SubgraphkitError as error: told.append(error.code)
print([ended, told], file=sys.stderr)
"""


def test_without_the_library_a_plan_is_made_from_the_tables_and_never_run(tmp_path):
    model = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(SMALL), model)
    hidden = [name for flavour in FLAVOURS.values() for name in flavour.modules]
    program = WITHOUT_TENSORRT.format(hidden=hidden)
    done = subprocess.run(
        [sys.executable, "-c", program, model], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == "[0, ['SGK104', 'SGK104']]", done.stderr
    data = json.loads(done.stdout)["data"]
    assert data["evidence"]["tensorrt"] == "declared"
    assert "TensorRT itself, NVIDIA's library, is not" in data["cannot_run"]["tensorrt"]["message"]
    assert "pip install 'subgraphkit-tensorrt[cu13]'" in data["cannot_run"]["tensorrt"]["hint"]
    assert [one["backend"] for one in data["subgraphs"]] == ["tensorrt"]


def test_importing_the_package_imports_no_tensorrt():
    program = (
        "import sys, os, subgraphkit_tensorrt\n"
        "print([m for m in sys.modules if m.startswith('tensorrt')], "
        "'CUDA_MODULE_LOADING' in os.environ)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_MODULE_LOADING"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "[] False"
