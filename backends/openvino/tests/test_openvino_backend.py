"""The backend as a user meets it: options, a missing library, models, official cases."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from backends.openvino.tests.openvino_road import homes, parsed, reasons, session
from subgraphkit.errors import OptionError
from subgraphkit_openvino import library
from tests.scripts import run_child

CHAIN = "g (float[4] x) => (float[4] y) { a = Relu(x) y = Exp(a) }"


def _child(code):
    command = [sys.executable, "-W", "error", "-c", code]
    return run_child(command, status=None)


def test_nothing_is_sent_and_nothing_is_printed():
    code = """
import socket, sys

def refuse(*arguments, **named):
    raise AssertionError("the network was used")

socket.socket.connect = socket.getaddrinfo = refuse
import onnx.parser
import subgraphkit as sk
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 21]>
    g (float[4] x) => (float[4] y) { a = Tanh(x) y = Sin(a) }''')
session = sk.InferenceSession(model, backend="openvino,numpy")
session.run(None, {"x": __import__("numpy").ones(4, "float32")})
loaded = [name for name in sys.modules if name.startswith("openvino_telemetry")]
assert not loaded, loaded
import openvino
assert openvino.convert_model
"""
    done = _child(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_threads_that_ask_at_once_get_one_core(monkeypatch):
    made = []
    slow = SimpleNamespace(Core=lambda: made.append(time.sleep(0.02)) or object())
    monkeypatch.setattr(library, "_CORES", [])
    monkeypatch.setattr(library, "runtime", lambda: slow)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: library.core(), range(2)))
    assert (len(made), found[0]) == (1, found[1])


def test_an_unknown_device_is_an_error_that_lists_the_devices():
    with pytest.raises(
        OptionError, match=r"SGK112.*'TPU', expected one of the devices that OpenVINO found: CPU"
    ):
        session(parsed(CHAIN), device="TPU")


@pytest.mark.parametrize(("options", "code"), [
    ({"precision": "f8"}, "SGK112"),
    ({"threads": 0}, "SGK112"),
    ({"streams": "many"}, "SGK111"),
    ({"hint": "fast"}, "SGK112"),
    ({"colour": "red"}, "SGK110"),
])  # fmt: skip
def test_wrong_options_are_errors(options, code):
    with pytest.raises(OptionError, match=code):
        session(parsed(CHAIN), **options)


@pytest.mark.parametrize("precision", ["f32", "bf16", "auto"])
@pytest.mark.parametrize("hint", ["latency", "throughput", "cumulative_throughput"])
def test_options_reach_the_device(precision, hint):
    x = np.array([-1, 0, 1, 2], np.float32)
    with session(parsed(CHAIN), precision=precision, hint=hint, threads=2, streams=1) as opened:
        (y,) = opened.run(None, {"x": x})
    np.testing.assert_allclose(y, np.exp(np.maximum(x, 0)), rtol=1e-2)


def test_what_the_processor_fails_to_compile_is_asked_about_and_given_back(monkeypatch):
    core = library.core()

    class WithoutExp:
        def __getattr__(self, name):
            return getattr(core, name)

        def compile_model(self, model, *given):
            if any(op.get_type_name() == "Exp" for op in model.get_ops()):
                raise RuntimeError("Exp is not there")
            return core.compile_model(model, *given)

        def query_model(self, model, *_):
            names = {op.get_friendly_name(): op.get_type_name() for op in model.get_ops()}
            return {name: "CPU" for name, kind in names.items() if kind != "Exp"}

    monkeypatch.setattr(library, "core", WithoutExp)
    model = parsed("g (float[4] x) => (float[4] y) { a = Neg(x) y = Exp(a) }")
    assert homes(model) == ["openvino", "numpy"]
    assert reasons(model) == ["op_unsupported: device CPU of OpenVINO does not run Exp"]
