"""The GPU checklist: on the double every check passes, and without a GPU it says so."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import onnxruntime
import pytest

import subgraphkit as sk
from backends.tensorrt.tests import double_road
from backends.tensorrt.tests.double_road import DoubleBackend, run_bound
from backends.tensorrt.tests.tensorrt_double import Double, contexts
from backends.tensorrt.tests.tensorrt_double.cuda import DoubleCuda
from subgraphkit.backend import Backend, Check, ProbeResult, SelfCheck, validate_options
from subgraphkit.cli import main, selftest
from subgraphkit.finding.registry import registered
from subgraphkit.processes import NoAnswer
from subgraphkit_tensorrt.building import report
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.library.flavours import Installation
from subgraphkit_tensorrt.library.gpus import Gpu, Machine
from subgraphkit_tensorrt.selftest import checklist, computing, engines, models, networks
from subgraphkit_tensorrt.selftest.calibration import deviations
from tests.interrupting import heard

SMALL = (
    "agraph (float[1,16,8,8] x) => (float[1,16,8,8] y) { a = Conv(x, w0) y = Relu(a) }",
    ((16, 16, 1, 1),),
)
SIZES = {"LAYERS": 2, "WIDTH": 16, "HEADS": 2, "TOKENS": 6, "WORDS": 20, "_RUNS": 2}


class Bench:
    """Opens sessions on the double, as the command line does on the backend."""

    lacks_networks = is_off = False

    def __init__(self, double):
        self._double = double

    def open(self, model, **options):
        given = {name: (value, "the checklist") for name, value in options.items()}
        read = validate_options("tensorrt", DoubleBackend.options, given)
        backend = DoubleBackend(self._double, **{name: read[name] for name in options})
        session = sk.InferenceSession(model, backend=[backend, "numpy"])
        steps = session.plan.steps
        others = [one for one in session.partitioning.subgraphs if one.backend == "numpy"]
        return SimpleNamespace(
            elsewhere=lambda: [node.op_type for one in others for node in one.members],
            run=lambda feeds: session.run(None, feeds),
            run_bound=lambda feeds, outputs: run_bound(session, feeds, outputs),
            update_weights=session.update_weights,
            operators=lambda: [s.operator.info() for s in steps if s.subgraph.backend != "numpy"],
            bare_engines=lambda: [s.operator.bare_engine() for s in steps],
            close=session.close,
        )

    def expected(self, model, feeds):
        with sk.InferenceSession(model, backend="numpy") as session:
            return [one * (1.01 if self.is_off else 1) for one in session.run(None, feeds)]

    def network(self, name):
        if self.lacks_networks:
            raise FileNotFoundError(f"no {name}")
        return models.model(SMALL)

    def engines(self, model, folder, **options):
        kept = Path(folder, "engine")
        found = ["found" if kept.exists() else "built"]
        opened = self.open(model, dims=options["dims"])
        kept.write_text(str(opened.operators()))
        opened.close()
        return found


@pytest.fixture
def placed(double, monkeypatch):
    """Return the double, found on a machine with a GPU."""
    device = Gpu(0, "a double", (8, 9), 58)
    found = Installation("ready", double.library, Machine((device,), "13.0"))
    monkeypatch.setattr(computing, "find", lambda name: found)
    # On a device, what may go wrong seldom is tried often.
    for place, name, few in (
        (engines, "_OPENINGS", 6),
        (engines, "_SCRATCH", 1 << 14),
        (computing, "_MOST", 20),
        *((networks, name, few) for name, few in SIZES.items()),
    ):
        monkeypatch.setattr(place, name, few)
    return double


def _findings(double):
    return {one.name: one.attempt(Bench(double)) for one in checklist.checks()}


def _end(double, name):
    (check,) = (one for one in checklist.checks() if one.name == name)
    found = check.attempt(Bench(double))
    return found.status, found.text


@pytest.mark.parametrize("double", ["11.4.0"], indirect=True)
def test_every_check_passes_on_the_double(placed):
    with heard():
        found = _findings(placed)
    assert list(found) == [name for name, _, _ in checklist.CHECKS]
    assert {name: one.text for name, one in found.items() if one.status != "ok"} == {
        "tensors of PyTorch": "not tried: torch is not installed",
        "second GPU": "not tried: there is one GPU",
    }


def test_the_double_is_as_the_calibration_assumes_and_a_device_that_is_not_is_found_out(
    placed, monkeypatch
):
    for placed.cuda.pools in (True, False):
        wrong, stricter = deviations(Cuda(placed.counted))
        assert (wrong, len(stricter) <= 1) == ([], True)
    monkeypatch.setattr(placed.cuda, "cudaStreamEndCapture", lambda *_: 0)
    monkeypatch.setattr(placed.cuda, "cudaGetLastError", lambda: 2)
    wrong, _ = deviations(Cuda(placed.cuda))
    assert any(one.startswith("who records takes no memory: (900, 0)") for one in wrong)
    assert any(one.startswith("an error is told once more") for one in wrong)


def test_a_check_is_not_green_where_what_it_is_named_after_did_not_happen(placed, monkeypatch):
    engine = placed.trt.ICudaEngine
    monkeypatch.setattr(engine, "streamable_weights_size", property(lambda _: 0))
    assert _end(placed, "weight streaming") == (
        "failure",
        "NotAsExpected: 0 of 0 bytes that can be streamed are on the device",
    )
    monkeypatch.setattr(engine, "device_memory_size_v2", property(lambda _: 0))
    context = placed.trt.IExecutionContext
    monkeypatch.setattr(context, "update_device_memory_size_for_shapes", lambda _: 0)
    monkeypatch.setattr(contexts, "scratch_for", lambda _: 0)
    assert _end(placed, "scratch memory")[0] == "warning"


def test_times_stand_beside_those_of_others_where_they_are(placed, monkeypatch, tmp_path):
    name = "BERT in fp32"
    assert "CUDA provider is not here, trtexec is not here" in _end(placed, name)[1]
    program = tmp_path / "trtexec"
    program.write_text("#!/bin/sh\necho 'GPU Compute Time: mean = 0.6 ms, median = 0.512 ms'\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    cuda = "CUDAExecutionProvider"
    other = SimpleNamespace(run=lambda *_: None, get_providers=lambda: [cuda])
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [cuda])
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: other)
    status, text = _end(placed, name)
    assert (status, "trtexec says 0.512 ms" in text) == ("ok", True)
    assert "ONNX Runtime's CUDA provider takes 0.00 ms in float32" in text
    monkeypatch.setattr(other, "get_providers", lambda: ["CPUExecutionProvider"])
    program.write_text("#!/bin/sh\nexit 3\n")
    said = "CUDA provider does not start, trtexec ended with 3 and says no time"
    assert said in _end(placed, name)[1]


@pytest.mark.parametrize(("check", "change", "status", "said"), [
    ("ResNet-50 in bf16", (Bench, "lacks_networks", True), "warning", "not tried: no resnet50"),
    ("perceptron", (Bench, "is_off", True), "failure", "the error is"),
    ("perceptron", (double_road, "_NEVER", {"Softmax"}), "failure", "Softmax did not come to"),
    ("BERT in fp16", (report, "_MATRIX_LAYERS", frozenset()), "failure", "none of float16"),
    ("CUDA graphs of two shapes", (DoubleCuda, "spoils_every_capture", True), "failure", "0 runs "),
])  # fmt: skip
def test_what_is_missing_or_wrong_is_not_green(placed, monkeypatch, check, change, status, said):
    monkeypatch.setattr(*change)
    found, text = _end(placed, check)
    assert (found, said in text) == (status, True)


@pytest.mark.parametrize("double", ["rtx-1.7.1"], indirect=True)
def test_what_a_library_leaves_to_others_is_not_taken_for_tried(placed):
    with pytest.raises(computing.NotAvailable, match="TensorRT for RTX has no NonZero"):
        computing.agreement((double_road.PICKED, ()), (16,))(Bench(placed))


def test_without_a_device_every_check_says_what_it_lacks(monkeypatch):
    nothing = Machine(problem="there is no NVIDIA GPU", hint="Look at CUDA_VISIBLE_DEVICES.")
    absent = Installation("absent package", None, nothing, "no TensorRT", "Install it")
    monkeypatch.setattr(computing, "find", lambda _: absent)
    found = _findings(Double())
    assert {(one.status, one.text) for one in found.values()} == {
        ("warning", f"not tried: {nothing.problem}; {nothing.hint}")
    }


def _tested(name, ends, problem=""):
    """Return a backend whose self-test has checks that end so, or one that cannot run here."""

    class Tested(DoubleBackend):
        def __init__(self, options=None):
            Backend.__init__(self, options or {})

        @classmethod
        def probe(cls, *, deep=False):
            problems = (problem,) if problem else ()
            return ProbeResult(available=not problem, devices=("a device",), problems=problems)

        @classmethod
        def conformance(cls, suite):
            suite.selftest(
                SelfCheck(one, "nothing", lambda _, n=one: Check(n, ends[n], "as it is"), 7.0)
                for one in ends
            )

    Tested.name = name
    return Tested


def test_half_of_the_checks_not_tried_is_not_green(capsys):
    with registered(_tested("half", {"first": "ok", "second": "warning"})):
        assert main(["doctor", "half", "--selftest", "--here"]) == 1
        assert main(["doctor", "half", "--selftest", "--here", "--only", "first"]) == 0
    said = capsys.readouterr().out
    assert "2 checks: 1 ok, 0 failed, 1 not tried; too few to say that it works" in said


def test_the_command_writes_a_report_and_fails_if_a_check_does(tmp_path, capsys):
    words = ["doctor", "tested", "--selftest", "--here"]
    with registered(_tested("tested", {"first": "ok", "second": "failure"})):
        assert main([*words, "-o", str(tmp_path / "report.json")]) == 1
        assert main([*words, "--only", "first"]) == 0
        assert main([*words, "--only", "frist"]) == 2
    report = json.loads((tmp_path / "report.json").read_text())
    found = [(one["status"], one["needs"]) for one in report["checks"]]
    assert found == [("ok", "nothing"), ("failure", "nothing")]
    assert (report["devices"], report["complete"]) == (["a device"], True)
    ended = capsys.readouterr()
    assert "2 checks: 1 ok, 1 failed, 0 not tried" in ended.out
    assert "FAIL  second: as it is" in ended.err
    assert "did you mean 'first'" in ended.err


@pytest.mark.parametrize(
    ("ends", "problem", "code", "status"),
    [({}, "", "SGK301", 2), ({"first": "warning"}, "there is no GPU", "SGK104", 3)],
)
def test_a_backend_without_a_self_test_or_a_device_is_told_with_a_code(
    ends, problem, code, status, capsys
):
    with registered(_tested("lacking", ends, problem)):
        assert main(["doctor", "lacking", "--selftest", "--here"]) == status
    assert code in capsys.readouterr().err


class Fragile:
    """A child whose first check is not survived, and whose second takes for ever."""

    made: ClassVar[list[str]] = []
    ends: ClassVar[dict[int, Any]] = {
        0: NoAnswer(-11, "CUDA error: an illegal memory access"),
        1: NoAnswer(None, "CUDA error: an illegal memory access"),
    }

    def call(self, function, given, timeout):
        if isinstance(function, type):
            self.made.append(given)
            return None
        if given in self.ends:
            raise self.ends[given]
        return {"name": f"{given}", "status": "ok", "text": "fine", "needs": "", "seconds": 0.1}

    def stop(self, patience=0.0): ...


def _on_fragile(tmp_path, monkeypatch):
    """Return the exit status of three checks in fragile children, and the report."""
    monkeypatch.setattr(selftest, "Child", Fragile)
    report = tmp_path / "report.json"
    with registered(_tested("three", dict.fromkeys(("0", "1", "2"), "ok"))):
        status = main(["doctor", "three", "--selftest", "-o", str(report)])
    return status, json.loads(report.read_text())


def test_a_check_that_takes_its_process_down_keeps_no_other_from_being_made(tmp_path, monkeypatch):
    status, report = _on_fragile(tmp_path, monkeypatch)
    assert status == 1
    assert [one["text"] for one in report["checks"]] == [
        "its process ended with signal SIGSEGV: CUDA error: an illegal memory access",
        "its process took more than 7 s: CUDA error: an illegal memory access",
        "fine",
    ]
    assert Fragile.made == ["three"] * 3


def test_what_was_found_before_ctrl_c_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(Fragile, "ends", {1: KeyboardInterrupt})
    status, report = _on_fragile(tmp_path, monkeypatch)
    assert (status, report["complete"]) == (130, False)
    assert [one["name"] for one in report["checks"]] == ["0"]


def test_checks_are_made_in_a_process_of_their_own(tmp_path):
    report = tmp_path / "report.json"
    main(["doctor", "tensorrt", "--selftest", "--only", "driver", "-o", str(report)])
    (found,) = json.loads(report.read_text())["checks"]
    assert found["name"] == "driver"
    assert found["status"] in {"ok", "warning"}
