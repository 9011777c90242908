"""``subgraphkit author test``: hold a backend against the contract, case by case."""

import glob
import shlex
import signal
import threading
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from math import inf
from typing import Any, Final

from subgraphkit.cli.reporting import CommandReport, ExitCode, usage_error
from subgraphkit.cli.tables import table
from subgraphkit.cli.words import Parser, counting, seconds
from subgraphkit.texts import paragraph

_MOST_SHOWN: Final = 40
_SIGNALS: Final = ("SIGTERM", "SIGHUP")


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    # The kit stands beside the command line, not below it, and is not imported for other commands.
    kit = import_module("subgraphkit.testing")
    coming = kit.check_backend(
        arguments.name,
        arguments.level,
        only=arguments.only,
        models=arguments.models,
        timeout_seconds=arguments.timeout,
        seed=arguments.seed,
        within=inf if arguments.all else arguments.within,
    )
    findings: list[Any] = []
    seconds: dict[int, float] = defaultdict(float)
    cut_short = "the kit itself failed"
    try:
        # Its children are stopped here, wherever the signal strikes.
        with _ended_as_by_ctrl_c(), closing(coming):
            _collect(coming, findings, seconds, arguments, report)
        cut_short = ""
    except KeyboardInterrupt:
        cut_short = "interrupted"
        raise
    finally:
        told = {"seconds": seconds, "seed": arguments.seed, "cut_short": cut_short}
        result = kit.Report(arguments.name, findings, **told)
        _show(report, result)
    if not findings:
        raise usage_error(
            f"no case up to level {arguments.level} matches {arguments.only!r}",
            hint="Cases are called like L3/Conv/test_conv_with_strides_padding/alone.",
        )
    if result.is_passed_in_part:
        return ExitCode.INCOMPLETE
    return ExitCode.OK if result.is_passed else ExitCode.CHECK_FAILED


def _collect(
    coming: Iterable[Any],
    findings: list[Any],
    seconds: dict[int, float],
    arguments: Namespace,
    report: CommandReport,
) -> None:
    """Take findings as they come, and name those that are wrong."""
    wrong, since = 0, time.monotonic()
    with report.doing(arguments.name) as progress:
        for finding in coming:
            findings.append(finding)
            now = time.monotonic()
            seconds[finding.level] += now - since
            since = now
            wrong += finding.is_wrong
            if finding.is_wrong:
                report.note(f"{finding.outcome.value} {finding.case}: {finding.detail}")
                report.note(f"  again: {_again(arguments, finding.case)}")
            told = f"{len(findings)} cases, {wrong} wrong, now {finding.case[:60]}"
            progress(arguments.name, len(findings), message=told)


def _again(arguments: Namespace, case: str) -> str:
    words = ["subgraphkit", "author", "test", arguments.name, "--only", glob.escape(case)]
    words += ["--models", arguments.models] if arguments.models else []
    words += ["--seed", str(arguments.seed)] if arguments.seed else []
    return shlex.join(words)


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Take signals that tell the process to end for Ctrl-C."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in _SIGNALS if is_main and hasattr(signal, name)]
    before = {one: signal.signal(one, signal.default_int_handler) for one in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(report: CommandReport, result: Any) -> None:
    report.data = result.to_dict()
    if not result.findings:
        return
    level, *figures, last = import_module("subgraphkit.testing.report").LEVEL_COLUMNS
    columns = " ".join([level, *(f"{figure}:" for figure in figures), last])
    report.show(table(columns, result.level_rows()))
    for level in filter(None, (one.advice and one for one in result.levels)):
        report.show(f"level {level.level}: {level.result}: {level.advice}")
    wrong = result.wrong
    for one in wrong[:_MOST_SHOWN]:
        report.show(paragraph(f"{one.outcome.value}  {one.case}  {one.detail}"))
    if len(wrong) > _MOST_SHOWN:
        report.show(f"and {len(wrong) - _MOST_SHOWN} more; --json has them all")
    if result.skips:
        counted = [(count, " ".join(reason.split())) for reason, count in result.skips.items()]
        report.show(table("skipped: reason", counted))
    report.show(f"seed: {result.seed}")
    report.show(result.headline)


_LEVELS: Final = range(8)
"""The levels of the kit, which is not imported for the help."""


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "author test numpy --level 5 --json",
        "author test numpy --only 'L3/Conv/*' --all",
    )
    parser.word("name NAME", "a backend; or module:Class; or loopback, all on the fallback")
    parser.word(
        "--level N",
        "the last level to try: 0 static, 1 contract, 2 partitioning, 3 operators, "
        "4 models, 5 running, 6 artefacts, 7 stress",
        int,
        _LEVELS[-1],
        choices=_LEVELS,
    )
    parser.word("--only PATTERN", "cases to try, such as 'L3/Conv/*'")
    parser.set_defaults(only="*")
    parser.word("--timeout SECONDS", "how long one case may take", seconds, 60.0)
    purpose = "when levels 3 to 5 begin no further case; a sample is tried by then"
    parser.word("--within SECONDS", purpose, seconds, 150.0)
    parser.word("--all", "try every case, and the whole of each, however long that takes")
    parser.word("--seed N", "seed of the random cases and of their order", counting(0), 0)
    purpose = "your models for level 4: NAME.onnx, or NAME/model.onnx with NAME/test_data_set_0"
    parser.word("--models DIR", purpose, default="")
