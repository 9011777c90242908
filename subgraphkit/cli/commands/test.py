"""``subgraphkit test``: hold a backend against the contract, case by case."""

import json
from argparse import ArgumentParser, Namespace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO

from subgraphkit.cli.command import Command
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.tables import Table
from subgraphkit.cli.values import seconds
from subgraphkit.errors import CallerError

__all__ = ["COMMAND", "LEVEL_CHOICES"]

_MOST_SHOWN: Final = 40


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Run the levels, show what they come to, and write the files that were asked for."""
    # The kit stands beside the command line, not below it, and is not imported for other commands.
    kit = import_module("subgraphkit.testing")
    baseline = _read(arguments.baseline) if arguments.baseline else None
    for file in filter(None, (arguments.csv, arguments.markdown)):
        _open_for_writing(file).close()  # now, because the run may take an hour
    findings = []
    wrong = 0
    with report.doing(arguments.name) as progress:
        for finding in kit.check_backend(
            arguments.name,
            arguments.level,
            only=arguments.only,
            models=arguments.models,
            timeout_seconds=arguments.timeout,
        ):
            findings.append(finding)
            wrong += finding.is_wrong
            told = f"{len(findings)} cases, {wrong} wrong, now {finding.case[:60]}"
            progress(arguments.name, len(findings), message=told)
    if not findings:
        raise CallerError(
            "SGK301",
            f"no case up to level {arguments.level} matches {arguments.only!r}",
            hint="Cases are called like L3/Conv/test_conv_with_strides_padding/alone.",
        )
    result = kit.Report(arguments.name, findings)
    worse = result.regressions(baseline) if baseline is not None else ()
    report.data = result.to_dict()
    if baseline is not None:
        report.data["regressions"] = [
            {"case": one.case, "before": one.before.value, "now": one.now.value} for one in worse
        ]
    _show(report, result, worse)
    for file, text in ((arguments.csv, result.to_csv), (arguments.markdown, result.to_markdown)):
        if file:
            with _open_for_writing(file) as stream:
                stream.write(text())
    return ExitCode.OK if result.is_passed and not worse else ExitCode.CHECK_FAILED


def _show(report: CommandReport, result: Any, worse: Any) -> None:
    columns = import_module("subgraphkit.testing.report").LEVEL_COLUMNS
    right = " ".join(columns[1:-1])
    report.show(Table.of(" ".join(columns), result.level_rows(), right=right))
    for level in filter(None, (one.advice and one for one in result.levels)):
        report.show(f"level {level.level}: {level.result}: {level.advice}")
    wrong = result.wrong
    if wrong:
        named = [(one.outcome.value, one.case, _line(one.detail)) for one in wrong[:_MOST_SHOWN]]
        report.show(Table.of("outcome case finding", named))
    if len(wrong) > _MOST_SHOWN:
        report.show(f"and {len(wrong) - _MOST_SHOWN} more; --json has them all")
    if result.skips:
        counted = [(count, _line(reason)) for reason, count in result.skips.items()]
        report.show(Table.of("skipped reason", counted, right="skipped"))
    if worse:
        rows = [(one.case, one.before.value, one.now.value, _line(one.detail)) for one in worse]
        report.show(Table.of("worse before now finding", rows))
    report.show(result.headline)


def _line(text: str) -> str:
    return " ".join(text.split())


def _read(file: str) -> Any:
    try:
        return json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CallerError("SGK301", f"the baseline {file!r} cannot be read: {error}") from error


def _open_for_writing(file: str) -> TextIO:
    try:
        return Path(file).open("w", encoding="utf-8")
    except OSError as error:
        raise CallerError("SGK301", f"{file!r} cannot be written: {error}") from error


LEVEL_CHOICES: Final = range(8)
"""The levels of the kit, which is not imported for the help."""


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        help="a backend, with options as in a selection; or module:Class, one that is not "
        "installed; or loopback, which claims everything and runs it on the fallback",
    )
    parser.add_argument(
        "--level",
        metavar="N",
        type=int,
        choices=LEVEL_CHOICES,
        default=LEVEL_CHOICES[-1],
        help="the last level to try: 0 static, 1 contract, 2 partition traps, 3 operators, "
        "4 models, 5 running, 6 artefacts, 7 stress (default: 7)",
    )
    parser.add_argument(
        "--only", metavar="PATTERN", default="*", help="cases to try, such as 'L3/Conv/*'"
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=60.0,
        help="how long one case may take (default: 60)",
    )
    files = parser.add_argument_group("files")
    files.add_argument(
        "--models",
        metavar="DIR",
        default="",
        help="models of your own to try at level 4: NAME.onnx, compared with numpy, or "
        "NAME/model.onnx with NAME/test_data_set_0",
    )
    files.add_argument("--csv", metavar="FILE", help="write what is known of each operator")
    files.add_argument("--markdown", metavar="FILE", help="write the tables as Markdown")
    files.add_argument(
        "--baseline",
        metavar="FILE",
        help="what --json wrote earlier; cases that ended better then are failures",
    )


COMMAND: Final = Command(
    examples=("test numpy --level 3", "test numpy --only 'L3/Conv/*' --markdown support.md"),
    add_arguments=_arguments,
    execute=_execute,
)
