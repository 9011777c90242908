"""ONNX Runtime's own Python tests through the door; they lie in its repository, in no wheel.

``ONNXRUNTIME_TESTS`` names the folder ``onnxruntime/test`` of a checkout, with its ``testdata``.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.scripts import run_child

FILES = ("onnxruntime_test_python", "onnxruntime_test_python_iobinding")
REFUSED = {
    "check_and_normalize_provider_args": "a function of its Python, inside",
    "create_allocator|shared_allocator": "no memory is ONNX Runtime's: there are no arenas",
    "custom_e_ps_library|custom_ops_library": "native code comes with a backend",
    "input_void": "bytes are never cast to text in silence",
    "loading_session_options_from_model": "a model does not change settings",
    "model_serialization": "no optimized model is written: Session.export keeps what was compiled",
    "ort_value$": "sessions have no object of C++ inside",
    "profiler": "Session.profile in its place",
    "add_(external_)?initializers?$": "weights come with the model, or by update_weights",
    "by_denotation": "sizes are given by name",
    "sparse_tensor": "no operator here takes one",
    "run_model_symbolic_input": "a dimension called None has no name",
    "invalid_session_options|invalid_set_providers|raise_wrong_num_inputs": "words of our own",
}
"""What fails by design, by a pattern of names, each with the reason."""

RUN = """
import sys, types, unittest, numpy, onnx, subgraphkit.compat.onnxruntime as ort
sys.modules["onnxruntime"] = ort
from onnxruntime.capi import _pybind_state, onnxruntime_pybind11_state
for one in (_pybind_state, onnxruntime_pybind11_state):  # classes of C++ that are only looked at
    one.OrtValueVector = one.SessionIOBinding = type("Inside", (), {})
ort.OrtDevice.dml = ort.OrtDevice.cuda
numbers = {onnx.helper.tensor_dtype_to_np_dtype(one): one for one in range(1, 14) if one != 8}
older = types.ModuleType("onnx.mapping")  # which onnx had when these tests were written
older.NP_TYPE_TO_TENSOR_TYPE = numbers
sys.modules["onnx.mapping"] = older
unittest.main(module=sys.argv[1], argv=["x", "-v"])
"""


@pytest.mark.parametrize("name", FILES)
def test_all_of_their_tests_pass_but_those_refused_by_design(name):
    if not (folder := os.environ.get("ONNXRUNTIME_TESTS")):
        pytest.skip("ONNX Runtime's tests are not here: ONNXRUNTIME_TESTS names them")
    here = Path(folder, "python")
    done = run_child(
        [sys.executable, "-c", RUN, name],
        env={**os.environ, "PYTHONPATH": os.fspath(here)},
        cwd=folder,
        status=None,
    )
    assert (ran := re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)), done.stderr
    assert int(ran[1]) > 5
    failed = re.findall(r"^(?:ERROR|FAIL): test_(\w+)", done.stderr, re.MULTILINE)
    assert [one for one in failed if not re.search("|".join(REFUSED), one)] == []
