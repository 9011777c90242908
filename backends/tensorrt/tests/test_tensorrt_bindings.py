"""The published bindings, imported for real: their names, and what we make of them.

They are imported with libraries of a few lines in place of TensorRT's own. Put wheels such as
``tensorrt_cu12_bindings`` of any releases into a folder and name it in ``TENSORRT_WHEELS``.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

import subgraphkit_tensorrt
from backends.tensorrt.tests.scanned_names import names_used
from backends.tensorrt.tests.tensorrt_api import Api, columns, releases, remeasured
from subgraphkit_tensorrt.library.capabilities import Capabilities

PYTHON = sysconfig.get_config_var("py_version_nodot")
FOLDER = os.environ.get("TENSORRT_WHEELS", "")
WHEELS = sorted(Path(FOLDER).glob(f"tensorrt*bindings*-cp{PYTHON}-*.whl")) if FOLDER else []
ROOT = Path(__file__).resolve().parents[3]

pytestmark = [
    pytest.mark.skipif(not WHEELS, reason="TENSORRT_WHEELS names no folder with bindings"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]

STUBS = """
void *createInferBuilder_INTERNAL(void) { return 0; }
void *createInferRefitter_INTERNAL(void) { return 0; }
void *createInferRuntime_INTERNAL(void) { return 0; }
void *createNvOnnxParser_INTERNAL(void) { return 0; }
void *createNvOnnxParserRefitter_INTERNAL(void) { return 0; }
void *getBuilderPluginRegistry(void) { return 0; }
void *getPluginRegistry(void) { return 0; }
int getNvOnnxParserVersion(void) { return 0; }
int initLibNvInferPlugins(void) { return 0; }
/* and what the parsers of TensorRT 8 had besides, under its names in C++ */
void *_ZN11nvuffparser15createUffParserEv(void) { return 0; }
void *_ZN11nvuffparser8FieldMapC1EPKcPKvNS_9FieldTypeEi(void) { return 0; }
void *_ZN11nvuffparser23shutdownProtobufLibraryEv(void) { return 0; }
void *_ZN14nvcaffeparser117createCaffeParserEv(void) { return 0; }
void *_ZN14nvcaffeparser123shutdownProtobufLibraryEv(void) { return 0; }
"""
LIBRARIES = ("libnvinfer", "libnvonnxparser", "libnvinfer_plugin", "libnvparsers")

LOOK = """
import json, sys
from dataclasses import asdict
from backends.tensorrt.tests.tensorrt_api import snapshot_of
from subgraphkit_tensorrt.library import flavours
from subgraphkit_tensorrt.library.capabilities import Capabilities, is_there

finding = flavours.find("tensorrt")
trt = finding.library.trt
capabilities = finding.library.capabilities
json.dump({
    "state": finding.state,
    "version": capabilities.version,
    "capabilities": {key: sorted(value) if isinstance(value, frozenset) else value
                     for key, value in asdict(capabilities).items()},
    "missing": [path for path in json.load(sys.stdin) if not is_there(trt, path)],
    "snapshot": snapshot_of(trt),
}, sys.stdout)
"""


@pytest.fixture(params=WHEELS, ids=lambda wheel: wheel.name.split("-cp")[0])
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Import the bindings of a wheel in another process and look at them."""
    wheel: Path = request.param
    major = wheel.name.split("-")[1].partition(".")[0]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    source = tmp_path / "stubs.c"
    source.write_text(STUBS)
    for name in LIBRARIES:
        target = f"{name}.so.{major}"
        command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{target}", "-o", tmp_path / target]
        subprocess.run([*command, source], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(ROOT)])
    package = Path(subgraphkit_tensorrt.__file__).parent
    used = sorted({path for _, path in names_used(package)})
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        input=json.dumps(used),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_real_bindings_have_every_name_that_every_release_has(seen: dict[str, Any]) -> None:
    everywhere = (1 << len(releases())) - 1
    assert seen["missing"] == [path for path in seen["missing"] if columns(path) != everywhere]


def test_real_bindings_without_a_gpu_are_found_to_need_one(seen: dict[str, Any]) -> None:
    assert seen["state"] == "absent device"
    assert seen["version"][0].isdigit()


def test_real_bindings_are_as_the_data_says(seen: dict[str, Any]) -> None:
    release = ".".join(seen["version"].split(".")[:3])
    if release not in releases():
        pytest.skip(f"{release} is not among the releases of the data")
    measured = remeasured(release, seen["snapshot"])
    assert measured == []
    api = Api(release)
    held = Capabilities.of(api.module(), api.flavour)
    for name, value in seen["capabilities"].items():
        if name not in {"flavour", "version", "generation"}:
            kept = getattr(held, name)
            assert (sorted(kept) if isinstance(kept, frozenset) else kept) == value, name
