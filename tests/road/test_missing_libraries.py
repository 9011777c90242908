"""A backend without its library: importing it needs none, and it says what to install."""

import sys

import pytest

from tests.scripts import run_child

_PROGRAM = """
import sys
import onnx.parser
import subgraphkit as sk
backend = sk.get_backend(sys.argv[1])
assert sys.argv[1] not in sys.modules, "importing the backend imports its library"
sys.modules[sys.argv[1]] = None
probe = backend.probe(deep=True)
print(probe.available, *probe.problems, probe.hint, sep=" | ")
model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 18]>'
    "g (float[4] x) => (float[4] y) { y = Relu(x) }")
with sk.InferenceSession(model, backend=f"{sys.argv[1]}?,numpy") as session:
    print(*session.partitioning.backends)
try:
    sk.InferenceSession(model, backend=f"{sys.argv[1]},numpy")
except sk.SubgraphkitError as error:
    print(error)
"""


@pytest.mark.parametrize(("backend", "remedy"), [
    ("onnxruntime", "subgraphkit-onnxruntime[cpu]"),
    ("openvino", "pip install openvino"),
    ("tvm", "apache-tvm"),
])  # fmt: skip
def test_a_backend_without_its_library_says_what_to_install(backend, remedy):
    pytest.importorskip(f"subgraphkit_{backend}")
    found, claimants, error, *_ = run_child(
        [sys.executable, "-c", _PROGRAM, backend]
    ).stdout.splitlines()
    assert found.startswith("False | ")
    assert remedy in found
    assert claimants == "numpy"
    assert "[SGK104]" in error
