"""``onnx_backend`` speaks the protocol of onnx's own test runner."""

import unittest
import warnings
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.base import Backend
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

from subgraphkit.errors import BackendNotFoundError, CallerError, ConfigError
from subgraphkit.testing import onnx_backend
from subgraphkit.testing.official_cases import official_cases
from tests.models import CHAIN, parsed


@lru_cache(maxsize=1)
def numpy_backend() -> Any:
    """Return the class for the NumPy backend."""
    return onnx_backend("numpy")


def loaded(kind: str) -> list[Any]:
    """Return the cases as onnx does, which would compute those of nodes again."""
    if kind != "node":
        return list(load_model_tests(kind=kind))
    return [
        replace(case._source, data_sets=list(case.data_sets())) for case in official_cases(kind)
    ]


def test_the_official_runner_runs_its_cases_on_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx.backend.test.runner.load_model_tests", loaded)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = BackendTest(numpy_backend(), __name__)
        runner.include(r"^test_(relu|conv_with_strides|sequence_insert|gelu|loop11|gradient).*")
        result = unittest.TestResult()
        runner.test_suite.run(result)
    skipped = {str(test).split()[0]: reason for test, reason in result.skipped}
    ran = result.testsRun - len(skipped)
    assert (result.failures, result.errors) == ([], [])
    assert ran >= 10
    assert "claimed by no backend" in skipped["test_gradient_of_add_cpu"]
    assert "test_relu_cpu" not in skipped
    assert "test_relu_cuda" in skipped


def test_a_model_is_prepared_once_and_run_many_times() -> None:
    prepared = numpy_backend().prepare(parsed(CHAIN))
    for rows in (1, 3):
        x = np.full((rows, 4), -2.0, np.float32)
        by_place, by_name, alone = prepared.run([x]), prepared.run({"x": x}), prepared.run(x)
        np.testing.assert_array_equal(by_place, by_name)
        np.testing.assert_array_equal(by_place, alone)


def test_a_model_is_run_in_one_call() -> None:
    model = parsed("g (float[2] x, float[2] z) => (float[2] y) { y = Sub(x, z) }")
    (y,) = numpy_backend().run_model(model, [np.float32([1, 2]), np.float32([3, 3])])
    assert y.tolist() == [-2, -1]


def test_a_node_is_run_on_arrays_lists_and_strings() -> None:
    backend = numpy_backend()
    clip = helper.make_node("Clip", ["x", "", "high"], ["y"])
    (y,) = backend.run_node(clip, [np.float32([1, 5]), np.float32(2)], opset_version=13)
    assert y.tolist() == [1, 2]
    length = helper.make_node("SequenceLength", ["s"], ["n"])
    (n,) = backend.run_node(length, [[np.float32([1]), np.float32([2])]])
    assert n == 2
    text = helper.make_node("Identity", ["x"], ["y"])
    (same,) = backend.run_node(text, [np.array(["ä"])], outputs_info=None)
    assert same.tolist() == ["ä"]
    told = backend.run_node(clip, [np.float32([3]), np.float32(2)], "CPU", [(np.float32, [1])])
    assert told[0].tolist() == [2]


def test_devices_are_those_the_backend_has_found() -> None:
    backend = numpy_backend()
    assert issubclass(backend, Backend)
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:0")
    assert backend.is_compatible(parsed(CHAIN))
    with pytest.raises(CallerError, match="no device 'CUDA'"):
        backend.prepare(parsed(CHAIN), "CUDA")


def test_nothing_runs_on_the_fallback_in_secret() -> None:
    model = onnx.helper.make_model(
        helper.make_graph(
            [helper.make_node("Foo", ["x"], ["y"], domain="com.acme")],
            "g",
            [helper.make_tensor_value_info("x", 1, [1])],
            [helper.make_tensor_value_info("y", 1, [1])],
        ),
        opset_imports=[helper.make_opsetid("com.acme", 1)],
    )
    with pytest.raises(unittest.SkipTest, match="SGK120"):
        numpy_backend().prepare(model)


def test_a_backend_is_named_once_and_exists() -> None:
    with pytest.raises(ConfigError, match="name of one backend"):
        onnx_backend("numpy,openvino")
    with pytest.raises(BackendNotFoundError):
        onnx_backend("numpi")
