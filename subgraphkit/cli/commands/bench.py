"""``subgraphkit bench``: backends side by side on one model."""

import math
import os
from argparse import Namespace
from typing import Any

from subgraphkit import errors
from subgraphkit.cli.reporting import CommandReport, ExitCode, exit_code_of, in_json, members
from subgraphkit.cli.road import bind_and_feed
from subgraphkit.cli.words import (
    Parser,
    add_compared_words,
    add_placement_words,
    counting,
    seconds,
    writable,
)
from subgraphkit.comparing import Benchmark, Measured, Schedule, bench
from subgraphkit.finding.catalogue import list_backends
from subgraphkit.texts import count_of
from subgraphkit.viewing.tables import Table, Text


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    _, arrays = bind_and_feed(arguments, report, *(arguments.backend or ()))
    if (arguments.threads or 0) > (there := os.cpu_count() or 1):
        report.note(
            f"warning: {arguments.threads} threads share {count_of(there, 'processor')} here"
        )
    ready = [one.name for one in list_backends() if one.error is None and one.state != "missing"]
    with report.doing("measuring") as progress:
        found = bench(
            arguments.model,
            arrays,
            arguments.backend or [None, *ready],
            schedule=Schedule(
                arguments.repeat, arguments.warmup, arguments.threads, arguments.timeout
            ),
            progress=progress,
            shapes=arguments.shapes or {},
            options=arguments.options or {},
            pin=arguments.pin,
            keep_off=arguments.keep_off,
            data_roots=arguments.data_root,
            max_error=arguments.max_error,
        )
    rows = [_entry(found, one) for one in found.measured]
    told = {"model": found.model, **in_json(found.schedule)}
    report.data = {**told, "agrees": found.agrees, "backends": rows}
    for one in list(found.sections())[:3]:
        if isinstance(one, Text | Table):
            report.show(one.text if isinstance(one, Text) else one)
    report.keep(arguments.html, found.to_html)
    _tell(found, report)
    return _exit_code(found, named=bool(arguments.backend))


def _entry(found: Benchmark, one: Measured) -> dict[str, Any]:
    if not one.ran:
        return members(one, "selection ran code kind text")
    difference = one.largest_difference
    return {
        **members(one, "selection ran bind_seconds memory_bytes agrees"),
        "runs": len(one.seconds),
        "median_seconds": one.median,
        "p90_seconds": one.percentile(90),
        "p99_seconds": one.percentile(99),
        "runs_per_second": one.throughput,
        "ratio": found.ratio(one),
        "first_run_seconds": one.first_seconds,
        "difference": difference if math.isfinite(difference) else None,
        "subgraphs": in_json(one.shares),
    }


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


def _exit_code(found: Benchmark, *, named: bool) -> ExitCode:
    if not found.agrees:
        return ExitCode.CHECK_FAILED
    for at, one in enumerate(found.measured):
        # nobody named those behind the first, the configured one
        if not one.ran and (named or not at or one.code != "SGK104"):
            kind = getattr(errors, one.kind, errors.BackendError)
            return exit_code_of(kind)  # of an error that another process has raised
    return ExitCode.OK


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "bench model.onnx",
        "bench model.onnx --backend onnxruntime --backend openvino,numpy",
    )
    add_compared_words(parser)
    add_placement_words(parser)
    purpose = "what to measure, the yardstick first; repeat it (default: each that is ready)"
    parser.word("--backend LIST", purpose, action="append")
    parser.word("--repeat N", "turns of each", counting(1), 10)
    parser.word("--warmup N", "runs before these, not counted", counting(0), 3)
    purpose = "threads of every library that can be told (default: as many as each chooses)"
    parser.word("--threads N", purpose, counting(1))
    parser.word("--timeout SECONDS", "most time for compiling, or for one turn", seconds, 600.0)
    parser.word("--html FILE", "write one page: the fastest, by how much, and why", writable)
