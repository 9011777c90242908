"""``subgraphkit selftest``: let a backend try on this machine what only its device can show."""

import json
import platform
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from subgraphkit import InferenceSession, __version__
from subgraphkit.backend.events import Check
from subgraphkit.backend.messages import unavailable
from subgraphkit.cli.command import Command
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.tables import Table
from subgraphkit.configuration.config import resolve
from subgraphkit.errors import CallerError
from subgraphkit.finding.registry import get_backend

__all__ = ["COMMAND"]

_MARKS = {"ok": "ok", "warning": "WARN", "failure": "FAIL"}


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Make every check of a backend, show them, and write the report that was asked for.

    Raises:
        CallerError: The backend has no self-test, or the report cannot be written (SGK301).
        BackendUnavailableError: It cannot run here (SGK104).
    """
    backend = get_backend(arguments.name)
    found = backend.probe()
    if not found.available:
        raise unavailable(arguments.name, found.problems, found.hint)
    checks = []
    for check in _checked(backend, _Bench(arguments.name), arguments.name):
        report.note(f"{_MARKS[check.status]:4}  {check.name}: {check.text}")
        checks.append(check)
    report.data = {
        "backend": arguments.name,
        "subgraphkit": __version__,
        "platform": platform.platform(),
        "devices": list(found.devices),
        "versions": dict(found.versions),
        "checks": [
            {"name": one.name, "status": one.status, "text": one.text, "fix": one.fix}
            for one in checks
        ],
    }
    failed = [one for one in checks if one.status == "failure"]
    rows = [(_MARKS[one.status], one.name, one.text) for one in checks]
    report.show(Table.of("result check finding", rows))
    report.show(f"{len(checks)} checks, {len(failed)} failed")
    if arguments.output:
        _write(arguments.output, report.data)
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK


def _checked(backend: Any, bench: "_Bench", name: str) -> Iterator[Check]:
    none = True
    for check in backend.selftest(bench):
        none = False
        yield check
    if none:
        raise CallerError(
            "SGK301",
            f"backend {name!r} has no self-test",
            hint=f"Hold it against the contract: subgraphkit test {name}",
        )


class _Bench:
    """Opens sessions on one backend, with the fallback behind it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._fallback = resolve().fallback

    def open(self, model: Any, **options: Any) -> "_Opened":
        return _Opened(model, self._name, [(self._name, options), self._fallback])

    def expected(self, model: Any, feeds: Mapping[str, Any]) -> Sequence[Any]:
        with InferenceSession(model, backend=self._fallback, build="now", require={}) as session:
            results: list[Any] = session.run(None, feeds)
            return results


class _Opened:
    def __init__(self, model: Any, name: str, backends: Sequence[Any]) -> None:
        self._name = name
        self._session = InferenceSession(
            model, backend=backends, on_fallback="ok", build="now", require={}
        )

    def run(self, feeds: Mapping[str, Any]) -> Sequence[Any]:
        results: list[Any] = self._session.run(None, feeds)
        return results

    def run_bound(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Sequence[Any]:
        binding = self._session.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, array)
        for name, place in outputs.items():
            binding.bind_output(name, place)
        self._session.run_with_iobinding(binding)
        results: list[Any] = binding.get_outputs()
        return results

    def update_weights(self, weights: Mapping[str, Any]) -> Mapping[str, str]:
        outcome: Mapping[str, str] = self._session.update_weights(weights)
        return outcome

    def operators(self) -> Sequence[Mapping[str, Any]]:
        steps = self._session.plan.steps
        return [one.operator.info() for one in steps if one.subgraph.backend == self._name]

    def close(self) -> None:
        self._session.close()


def _write(file: str, data: Mapping[str, Any]) -> None:
    try:
        Path(file).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CallerError("SGK301", f"{file!r} cannot be written: {error}") from error


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a backend")
    parser.add_argument("-o", "--output", metavar="FILE.json", help="where to store the report")


COMMAND: Final = Command(
    examples=("selftest tensorrt", "selftest tensorrt --output report.json"),
    add_arguments=_arguments,
    execute=_execute,
)
