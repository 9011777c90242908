"""The self-test of a backend: on this machine, what only its device can show."""

import json
import platform
from argparse import Namespace
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from subgraphkit import __version__
from subgraphkit.backend.messages import did_you_mean, unavailable
from subgraphkit.backend.selftest import SelfCheck
from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.selftest_bench import Bench, checks_of
from subgraphkit.cli.tables import table
from subgraphkit.errors import CallerError
from subgraphkit.finding.registry import get_backend
from subgraphkit.processes import Child, NoAnswer, how_it_ended
from subgraphkit.storing.files import write_whole

_MARKS: Final = {"ok": "ok", "warning": "WARN", "failure": "FAIL"}
_PATIENCE: Final = 5.0
_STARTING_SECONDS: Final = 60.0
_SHOWN: Final = 400


def run_selftest(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Make the checks of the one backend that is named; ``doctor --selftest`` says how.

    Raises:
        CallerError: No backend is named or several are, or it has no such check (SGK301).
        BackendUnavailableError: No check could be made here (SGK104).
    """
    if len(arguments.names) != 1:
        raise CallerError("SGK301", "--selftest takes one backend", hint="doctor NAME --selftest")
    (name,) = arguments.names
    backend = get_backend(name)
    checks = _chosen(name, checks_of(name), arguments.only)
    found = backend.probe()
    rows: list[dict[str, Any]] = []
    report.data = {
        "backend": name,
        "subgraphkit": __version__,
        "platform": platform.platform(),
        "devices": list(found.devices),
        "versions": dict(found.versions),
        "checks": rows,
        "complete": False,
    }
    made = _made_here if arguments.here else _made_in_children
    with closing(made(name, checks)) as findings:
        for row in findings:
            rows.append(row)
            report.note(f"{_MARKS[row['status']]:4}  {row['name']}: {row['text']}")
            _keep(arguments.output, report.data)
    report.data["complete"] = True
    _keep(arguments.output, report.data)
    failed = [row for row in rows if row["status"] == "failure"]
    marked = [{**row, "result": _MARKS[row["status"]]} for row in rows]
    report.show(table("result check=name needs seconds:.1f finding=text", marked))
    untried = [row for row in rows if row["status"] == "warning"]
    ok = len(rows) - len(failed) - len(untried)
    text = f"{len(rows)} checks: {ok} ok, {len(failed)} failed, {len(untried)} not tried"
    report.show(text if ok > len(untried) else f"{text}; too few to say that it works")
    if all(row["status"] == "warning" for row in rows):
        raise unavailable(name, found.problems, found.hint)
    return ExitCode.OK if ok > len(untried) and not failed else ExitCode.CHECK_FAILED


def _chosen(
    backend: str, checks: Sequence[SelfCheck], only: Sequence[str]
) -> list[tuple[int, SelfCheck]]:
    names = [check.name for check in checks]
    if not names:
        raise CallerError(
            "SGK301",
            f"backend {backend!r} has no self-test",
            hint=f"Hold it against the contract: subgraphkit author test {backend}",
        )
    for name in only:
        if name not in names:
            raise CallerError(
                "SGK301",
                f"backend {backend!r} has no check {name!r}{did_you_mean(name, names)}",
                hint=f"It has: {', '.join(names)}.",
            )
    return [(at, one) for at, one in enumerate(checks) if not only or one.name in only]


def _made_here(name: str, checks: Sequence[tuple[int, SelfCheck]]) -> Generator[dict[str, Any]]:
    """Make checks in this process, for a debugger; none has a limit."""
    bench = Bench(name)
    for place, _ in checks:
        yield bench.attempt(place)


def _made_in_children(
    name: str, checks: Sequence[tuple[int, SelfCheck]]
) -> Generator[dict[str, Any]]:
    """Make checks in a process that is replaced after a failure, which a GPU may not survive."""
    child: Child | None = None
    try:
        for place, check in checks:
            try:
                if child is None:
                    child = Child()
                    child.call(Bench, name, timeout=_STARTING_SECONDS)
                row = child.call(Bench.attempt, place, timeout=check.seconds)
            except NoAnswer as ended:
                row = _unanswered(check, ended)
            yield row
            if row["status"] == "failure" and child is not None:
                child.stop()
                child = None
    finally:
        if child is not None:
            child.stop(_PATIENCE)


def _unanswered(check: SelfCheck, ended: NoAnswer) -> dict[str, Any]:
    how = f"took more than {check.seconds:.0f} s"
    if ended.code is not None:
        how = f"ended with {how_it_ended(ended.code)}"
    printed = " ".join(ended.printed[-_SHOWN:].split())
    return {
        "name": check.name,
        "status": "failure",
        "text": f"its process {how}{': ' * bool(printed)}{printed}",
        "fix": "",
        "needs": check.needs,
        "seconds": check.seconds if ended.code is None else 0.0,
    }


def _keep(file: Path | None, data: Mapping[str, Any]) -> None:
    """Write what is known by now, so that whatever happens next leaves a report."""
    if file is not None:
        text = json.dumps(data, indent=2) + "\n"
        write_whole(file.absolute(), text.encode(), mode=0o666, durable=False)
