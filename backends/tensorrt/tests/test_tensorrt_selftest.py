"""The GPU checklist: on the double every check passes, and without a GPU it says so."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import subgraphkit as sk
from backends.tensorrt.tests.double_road import DoubleBackend
from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit.backend import Backend, Check, ProbeResult, validate_options
from subgraphkit.cli import main
from subgraphkit.errors import BackendUnavailableError
from subgraphkit.finding.registry import registered
from subgraphkit_tensorrt.library.flavours import Installation
from subgraphkit_tensorrt.library.gpus import Gpu, Machine
from subgraphkit_tensorrt.options import check_library
from subgraphkit_tensorrt.selftest import checklist, run_checklist


class Bench:
    """Opens sessions on the double, as the command line does on the backend."""

    def __init__(self, double: Double) -> None:
        self._double = double

    def open(self, model: Any, **options: Any) -> Any:
        given = {name: (value, "the checklist") for name, value in options.items()}
        read = validate_options("tensorrt", DoubleBackend.options, given)
        backend = DoubleBackend(self._double, **{name: read[name] for name in options})
        check_library(backend.option_values, self._double.library.capabilities)
        session = sk.InferenceSession(model, backend=[backend, "numpy"])
        steps = session.plan.steps
        return SimpleNamespace(
            run=lambda feeds: session.run(None, feeds),
            run_bound=lambda feeds, outputs: _run_bound(session, feeds, outputs),
            update_weights=session.update_weights,
            operators=lambda: [s.operator.info() for s in steps if s.subgraph.backend != "numpy"],
            close=session.close,
        )

    def expected(self, model: Any, feeds: Mapping[str, Any]) -> Sequence[Any]:
        with sk.InferenceSession(model, backend="numpy") as session:
            return session.run(None, feeds)


def _run_bound(session: Any, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, array)
    for name, place in outputs.items():
        binding.bind_output(name, place)
    session.run_with_iobinding(binding)
    return binding.get_outputs()


@pytest.fixture
def placed(double: Double, monkeypatch: pytest.MonkeyPatch) -> Double:
    """Return the double, found on a machine with a GPU."""
    device = Gpu(0, "a double", (8, 9), 58, 1 << 30)
    found = Installation("ready", double.library, Machine((device,), "13.0"))
    monkeypatch.setattr(checklist, "find", lambda _: found)
    return double


@pytest.mark.parametrize("double", ["11.4.0"], indirect=True)
def test_every_check_passes_on_the_double(placed: Double) -> None:
    found = list(run_checklist(Bench(placed)))
    assert [one.name for one in found] == ["device", *checklist.CHECKS]
    assert [(one.name, one.text) for one in found if one.status != "ok"] == []


@pytest.mark.parametrize("double", ["10.0.1"], indirect=True)
def test_what_an_old_release_cannot_do_is_not_tried(placed: Double) -> None:
    by_status: dict[str, list[str]] = {}
    for one in run_checklist(Bench(placed)):
        by_status.setdefault(one.status, []).append(one.name)
    assert sorted(by_status) == ["ok", "warning"]
    assert by_status["warning"] == ["weight streaming"]


def test_a_device_that_computes_wrongly_is_found_out(
    placed: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Bench.expected
    monkeypatch.setattr(Bench, "expected", lambda *given: [one * 1.01 for one in run(*given)])
    found = {one.name: one for one in run_checklist(Bench(placed))}
    assert found["perceptron"].status == "failure"
    assert "the error is" in found["perceptron"].text


def test_without_a_device_a_coded_message_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Installation(
        "absent package", None, Machine(), "TensorRT is not installed", "Install it."
    )
    monkeypatch.setattr(checklist, "find", lambda _: absent)
    with pytest.raises(BackendUnavailableError, match=r"SGK104.*TensorRT is not installed"):
        list(run_checklist(Bench(Double())))


class TriedOut(DoubleBackend):
    """A backend with a self-test of two checks, one of which fails."""

    name = "tested"

    def __init__(self, options: Any = None) -> None:
        Backend.__init__(self, options or {})

    @classmethod
    def probe(cls, *, deep: bool = False) -> ProbeResult:
        return ProbeResult(available=True, devices=("a device",))

    @classmethod
    def selftest(cls, bench: Any) -> Any:
        yield Check("first", "ok", "all is well")
        yield Check("second", "failure", "it is not")


class Silent(TriedOut):
    """A backend without a self-test."""

    name = "silent"
    selftest = Backend.selftest


class Absent(TriedOut):
    """A backend that cannot run here."""

    name = "absent_here"

    @classmethod
    def probe(cls, *, deep: bool = False) -> ProbeResult:
        return ProbeResult(available=False, problems=("there is no GPU",), hint="Buy one.")


def test_the_command_writes_a_report_and_fails_if_a_check_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with registered(TriedOut):
        assert main(["selftest", "tested", "-o", str(tmp_path / "report.json")]) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert [one["status"] for one in report["checks"]] == ["ok", "failure"]
    assert report["devices"] == ["a device"]
    ended = capsys.readouterr()
    assert "2 checks, 1 failed" in ended.out
    assert "FAIL  second: it is not" in ended.err


@pytest.mark.parametrize(
    ("backend", "code", "status"), [(Silent, "SGK301", 2), (Absent, "SGK104", 3)]
)
def test_a_backend_without_a_self_test_or_a_device_is_told_with_a_code(
    backend: Any, code: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with registered(backend):
        assert main(["selftest", backend.name]) == status
    assert code in capsys.readouterr().err
