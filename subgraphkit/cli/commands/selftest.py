"""``subgraphkit selftest``: let a backend try on this machine what only its device can show."""

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
from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.selftest_child import Bench, attempted
from subgraphkit.cli.tables import Table
from subgraphkit.errors import CallerError
from subgraphkit.finding.registry import get_backend
from subgraphkit.processes import AnsweringChild, NoAnswer, how_it_ended
from subgraphkit.storing.files import write_whole

_MODULE: Final = "subgraphkit.cli.selftest_child"
_MARKS: Final = {"ok": "ok", "warning": "WARN", "failure": "FAIL"}
_PATIENCE: Final = 5.0
_STARTING_SECONDS: Final = 60.0
_SHOWN: Final = 400


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    backend = get_backend(arguments.name)
    checks = _chosen(backend.selftest(), arguments)
    found = backend.probe()
    rows: list[dict[str, Any]] = []
    report.data = {
        "backend": arguments.name,
        "subgraphkit": __version__,
        "platform": platform.platform(),
        "devices": list(found.devices),
        "versions": dict(found.versions),
        "checks": rows,
        "complete": False,
    }
    made = _made_here if arguments.here else _made_in_children
    with closing(made(arguments.name, checks)) as findings:
        for row in findings:
            rows.append(row)
            report.note(f"{_MARKS[row['status']]:4}  {row['name']}: {row['text']}")
            _keep(arguments.output, report.data)
    report.data["complete"] = True
    _keep(arguments.output, report.data)
    failed = [row for row in rows if row["status"] == "failure"]
    report.show(
        Table.of(
            "result check needs seconds finding",
            [
                (
                    _MARKS[row["status"]],
                    row["name"],
                    row["needs"],
                    f"{row['seconds']:.1f}",
                    row["text"],
                )
                for row in rows
            ],
        )
    )
    report.show(f"{len(rows)} checks, {len(failed)} failed")
    if all(row["status"] == "warning" for row in rows):
        raise unavailable(arguments.name, found.problems, found.hint)
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK


def _chosen(checks: Sequence[SelfCheck], arguments: Namespace) -> list[tuple[int, SelfCheck]]:
    names = [check.name for check in checks]
    if not names:
        raise CallerError(
            "SGK301",
            f"backend {arguments.name!r} has no self-test",
            hint=f"Hold it against the contract: subgraphkit test {arguments.name}",
        )
    for name in arguments.only:
        if name not in names:
            raise CallerError(
                "SGK301",
                f"backend {arguments.name!r} has no check {name!r}{did_you_mean(name, names)}",
                hint=f"It has: {', '.join(names)}.",
            )
    wanted = enumerate(checks)
    return [(at, one) for at, one in wanted if not arguments.only or one.name in arguments.only]


def _made_here(name: str, checks: Sequence[tuple[int, SelfCheck]]) -> Generator[dict[str, Any]]:
    """Make checks in this process, for a debugger; none has a limit."""
    bench = Bench(name)
    for _, check in checks:
        yield attempted(check, bench)


def _made_in_children(
    name: str, checks: Sequence[tuple[int, SelfCheck]]
) -> Generator[dict[str, Any]]:
    """Make checks in a process that is replaced after a failure, which a GPU may not survive."""
    child: AnsweringChild | None = None
    try:
        for place, check in checks:
            if child is None:
                child = AnsweringChild(_MODULE, [name])
            child.tell({"check": place})
            try:
                row = child.answer(check.seconds + _STARTING_SECONDS)
            except NoAnswer as ended:
                row = _unanswered(check, ended.code, child.printed(_SHOWN))
            yield row
            if row["status"] == "failure":
                child.stop()
                child = None
    finally:
        if child is not None:
            child.stop(_PATIENCE)


def _unanswered(check: SelfCheck, code: int | None, printed: str) -> dict[str, Any]:
    how = f"took more than {check.seconds:.0f} s"
    if code is not None:
        how = f"ended with {how_it_ended(code)}"
    said = f": {' '.join(printed.split())}" if printed else ""
    return {
        "name": check.name,
        "status": "failure",
        "text": f"its process {how}{said}",
        "fix": "",
        "needs": check.needs,
        "seconds": check.seconds if code is None else 0.0,
    }


def _keep(file: str | None, data: Mapping[str, Any]) -> None:
    """Write what is known by now, so that whatever happens next leaves a report."""
    if not file:
        return
    text = json.dumps(data, indent=2) + "\n"
    try:
        write_whole(Path(file).absolute(), text.encode(), mode=0o666, durable=False)
    except OSError as error:
        raise CallerError("SGK301", f"{file!r} cannot be written: {error}") from error


def _arguments(parser: Parser) -> None:
    parser.examples = ("selftest tensorrt", "selftest tensorrt --output report.json")
    parser.word("name NAME", "a backend")
    parser.word(
        "-o --output FILE.json", "where to keep the report, which is written anew after every check"
    )
    parser.word("--only CHECK", "make this check; repeatable", several=True)
    parser.word("--here", "in this process and without limits, for a debugger")


COMMAND: Final = Command(_arguments, _execute)
