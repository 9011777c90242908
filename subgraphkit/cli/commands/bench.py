"""``subgraphkit bench``: backends side by side on one model."""

import math
import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from subgraphkit import errors
from subgraphkit.binding import bind
from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.reporting import CommandReport, ExitCode, exit_code_of
from subgraphkit.cli.road import check_names, feeds_as_told, load_as_told, shapes_as_told
from subgraphkit.cli.words import (
    add_bind_words,
    add_feed_words,
    add_max_error,
    add_placement_words,
    counting,
    file_to_write,
    merge_options,
    seconds,
)
from subgraphkit.comparing import Benchmark, Measured, Schedule, bench
from subgraphkit.finding.listing import list_backends
from subgraphkit.texts import counted, in_bytes, in_seconds
from subgraphkit.viewing.sections import Table

_MANY = 12


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    html = file_to_write(arguments.html, "the page cannot be written")
    shapes = shapes_as_told(arguments)
    bound = bind(load_as_told(arguments), shapes, backend="none")
    check_names(bound.settings, *(arguments.backend or ()))
    feeds = feeds_as_told(bound, arguments, report)
    arrays = {name: feed.array for name, feed in feeds.items()}
    del bound, feeds
    if (arguments.threads or 0) > (there := os.cpu_count() or 1):
        report.note(
            f"warning: {arguments.threads} threads share {counted(there, 'processor')} here"
        )
    with report.doing("measuring") as progress:
        found = bench(
            arguments.model,
            arrays,
            arguments.backend or [None, *_ready()],
            schedule=Schedule(
                arguments.repeat, arguments.warmup, arguments.threads, arguments.timeout
            ),
            progress=progress,
            shapes=shapes,
            options=merge_options(arguments.option),
            pin=arguments.pin,
            keep_off=arguments.keep_off,
            data_roots=arguments.data_root,
            max_error=arguments.max_error,
        )
    report.data = _data(found)
    for table in (_table(found), _shares(found)):
        if table.rows:
            report.show(table, exactly=True)
    report.keep(html, found.to_html)
    _tell(found, report)
    return _exit_code(found)


def _ready() -> list[str]:
    return [one.name for one in list_backends() if one.error is None and one.state != "missing"]


def _data(found: Benchmark) -> dict[str, Any]:
    return {
        "model": found.model,
        **asdict(found.schedule),
        "agrees": found.agrees,
        "backends": [_entry(found, one) for one in found.measured],
    }


def _entry(found: Benchmark, one: Measured) -> dict[str, Any]:
    facts = {"selection": one.selection, "ran": one.ran}
    if not one.ran:
        return {**facts, "code": one.code, "kind": one.kind, "text": one.text}
    difference = one.largest_difference
    return {
        **facts,
        "runs": len(one.seconds),
        "median_seconds": one.median,
        "p90_seconds": one.percentile(90),
        "p99_seconds": one.percentile(99),
        "runs_per_second": one.throughput,
        "ratio": found.ratio(one),
        "bind_seconds": one.bind_seconds,
        "first_run_seconds": one.first_seconds,
        "memory_bytes": one.memory_bytes,
        "difference": difference if math.isfinite(difference) else None,
        "agrees": one.agrees,
        "subgraphs": [asdict(share) for share in one.shares],
    }


def _table(found: Benchmark) -> Table:
    columns = "backends median p90 p99 runs/s ratio bind first_run memory difference"
    rows = [_row(found, one) for one in found.measured]
    return Table.of(columns, rows, right=columns.removeprefix("backends "))


def _row(found: Benchmark, one: Measured) -> Sequence[str]:
    if not one.ran:
        return one.selection, one.code, *[""] * 8
    ratio = found.ratio(one)
    memory = one.memory_bytes
    return (
        one.selection,
        *(in_seconds(seconds) for seconds in (one.median, one.percentile(90), one.percentile(99))),
        f"{one.throughput:.4g}",
        "-" if ratio is None else f"{ratio:.3f}",
        in_seconds(one.bind_seconds),
        in_seconds(one.first_seconds),
        "-" if memory is None else in_bytes(memory),
        f"{one.largest_difference:.1e}{'' if one.agrees else ' DIFFERS'}",
    )


def _shares(found: Benchmark) -> Table:
    rows: list[Sequence[str]] = []
    for one in found.measured:
        largest = sorted(one.shares, key=lambda share: -share.seconds)
        rows += [
            (one.selection, s.subgraph, str(s.nodes), in_seconds(s.seconds), f"{s.part:.1%}")
            for s in largest[:_MANY]
        ]
        if rest := largest[_MANY:]:
            nodes, part = sum(s.nodes for s in rest), sum(s.part for s in rest)
            seconds = in_seconds(sum(s.seconds for s in rest))
            rows.append((one.selection, f"{len(rest)} more", str(nodes), seconds, f"{part:.1%}"))
    return Table.of("backends subgraph nodes time share", rows, right="nodes time share")


def _tell(found: Benchmark, report: CommandReport) -> None:
    for one in found.measured:
        if not one.ran:
            report.note(f"{one.selection}: {one.text}")
            if report.assumption:
                report.note(f"  Sizes: {report.assumption}.")
            if one.printed:
                report.note(one.printed)
        elif not one.agrees:
            report.note(
                f"{one.selection}: results differ from the first; to see where: subgraphkit verify "
                f"MODEL --backend {one.selection} --per-subgraph"
            )


def _exit_code(found: Benchmark) -> ExitCode:
    if not found.agrees:
        return ExitCode.CHECK_FAILED
    for one in found.measured:
        if not one.ran:
            kind = getattr(errors, one.kind, errors.BackendError)
            return exit_code_of(kind)  # of an error that another process has raised
    return ExitCode.OK


def _arguments(parser: Parser) -> None:
    parser.examples = (
        "bench model.onnx",
        "bench model.onnx --backend onnxruntime --backend openvino,numpy",
    )
    add_bind_words(parser)
    add_feed_words(parser)
    add_placement_words(parser)
    add_max_error(parser)
    parser.word(
        "--backend LIST",
        "a backend, or several in order; repeat it to compare. The first is the yardstick "
        "(default: what is configured, then each backend that is ready)",
        action="append",
    )
    parser.word("--repeat N", "turns of each", counting(1), 10)
    parser.word("--warmup N", "runs before these, not counted", counting(0), 3)
    parser.word(
        "--threads N",
        "threads of every library that can be told (default: as many as each chooses)",
        counting(1),
    )
    parser.word("--timeout SECONDS", "most time for compiling, or for one turn", seconds, 600.0)
    parser.word("--html FILE", "write one page: the fastest, by how much, and why")


COMMAND: Final = Command(_arguments, _execute)
