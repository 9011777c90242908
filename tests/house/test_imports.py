"""Importing the package is cheap and changes nothing."""

import json
import sys

import pytest

from tests.house.tree import ROOT
from tests.scripts import run_child

HEAVY = (
    "asyncio", "concurrent.futures", "filelock", "google.protobuf", "ml_dtypes",
    "multiprocessing", "networkx", "numpy", "onnx", "pickle", "platformdirs", "pluggy",
    "subgraphkit.serving",
)  # fmt: skip


def _run(program):
    done = run_child([sys.executable, "-W", "error", "-c", program])
    return done.stdout


def test_importing_the_package_loads_nothing_heavy():
    program = f"import sys, subgraphkit; print([m for m in {HEAVY} if m in sys.modules])"
    assert _run(program).strip() == "[]"


@pytest.mark.parametrize("name", ["subgraphkit.errors", "subgraphkit.precision"])
def test_importing_what_others_look_into_loads_nothing_heavy(name):
    program = f"import sys, {name}; print([m for m in {HEAVY} if m in sys.modules])"
    assert _run(program).strip() == "[]"


def test_a_session_imports_nothing_that_few_models_need():
    program = """
import numpy, sys
from onnx import parser
graph = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
model = parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + graph)
before = set(sys.modules)
import subgraphkit
subgraphkit.InferenceSession(model, "numpy").run(None, {"x": numpy.zeros(2, "float32")})
print(sorted({"networkx", "numpy.ma", "numpy.random"} & sys.modules.keys() - before))
"""
    assert _run(program).strip() == "[]"


def test_importing_every_module_changes_nothing_outside_the_package():
    program = """
import json, logging, os, pkgutil, sys, threading, warnings
from importlib import import_module
import numpy as np

def state():
    return {
        "environment": dict(os.environ),
        "filters": [str(entry) for entry in warnings.filters],
        "handlers": [str(handler) for handler in logging.getLogger().handlers],
        "threads": [thread.name for thread in threading.enumerate()],
        "numpy errors": np.geterr(),
        "path": list(sys.path),
        "excepthook": sys.excepthook is sys.__excepthook__,
    }

for other in ("onnx", "onnx.reference", "networkx", "pluggy"):
    import_module(other)
before = state()
import subgraphkit
for module in pkgutil.walk_packages(subgraphkit.__path__, "subgraphkit."):
    # what PyTorch, gRPC and Ray change is their own affair, and few have them
    apart = ("__main__", ".torch_compile", ".ray_data", ".ray_serve", ".replica")
    if not module.name.endswith((*apart, ".grpc_messages", ".grpc_methods")):
        import_module(module.name)
after = state()
print(json.dumps([key for key in before if before[key] != after[key]]))
"""
    assert json.loads(_run(program)) == []


def test_the_tests_import_the_package_of_this_tree():
    program = "import subgraphkit; print(subgraphkit.__file__)"
    assert _run(program).strip() == str(ROOT / "subgraphkit" / "__init__.py")
