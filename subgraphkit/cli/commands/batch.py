"""``subgraphkit batch``: a model over the rows of a Parquet file, and again where it stopped."""

import os
import time
from argparse import Namespace
from importlib.util import find_spec
from typing import Final

from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.parquet import Job, compute, missing_parts
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.road import spec_as_told
from subgraphkit.cli.values import counting, merge_pairs, pair
from subgraphkit.cli.words import A_SPEC
from subgraphkit.configuration.config import resolve
from subgraphkit.errors import CallerError
from subgraphkit.texts import counted


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    if find_spec("pyarrow") is None:
        raise CallerError(
            "SGK301",
            "'batch' reads and writes Parquet with pyarrow, which is not installed",
            hint="pip install 'subgraphkit[parquet]'",
        )
    job = Job(
        source=arguments.input,
        folder=arguments.output,
        spec=spec_as_told(arguments.spec, arguments.backend).to_json(),
        columns=merge_pairs(arguments.column, "--column"),
        outputs=merge_pairs(arguments.result, "--result"),
        keep=tuple(arguments.keep),
        batch_size=arguments.batch_size,
        part_rows=arguments.part_rows,
        threads=(resolve().threads or os.cpu_count() or 1) // arguments.replicas,
    )
    parts, count = missing_parts(job)
    there = count - len(parts)
    if there:
        report.note(f"{counted(there, 'part')} of {count} {'is' if there == 1 else 'are'} there")
    started, written = time.perf_counter(), 0
    with report.doing("computing") as progress:
        progress("computing", there, count, "parts")

        def done() -> None:
            nonlocal written
            written += 1
            progress("computing", there + written, count, "parts")

        compute(job, parts, arguments.replicas, done)
    seconds = time.perf_counter() - started
    report.data = {
        "output": job.folder,
        "parts": count,
        "parts_computed": len(parts),
        "seconds": seconds,
    }
    report.show(f"{counted(len(parts), 'part')} in {seconds:.1f} s: {job.folder}")
    return ExitCode.OK


def _column(text: str) -> tuple[str, str]:
    return pair(text, "INPUT=COLUMN")


def _result(text: str) -> tuple[str, str]:
    if text and "=" not in text:
        return text, text
    return pair(text, "OUTPUT or OUTPUT=COLUMN")


def _arguments(parser: Parser) -> None:
    parser.examples = (
        "batch in.parquet out.parquet --spec spec.json --keep id --replicas 4",
        "batch in.parquet out.parquet --spec model.onnx --column x=pixels --result y=label",
    )
    parser.word("input IN.parquet", "a Parquet file, a row for each input")
    parser.word(
        "output OUT.parquet",
        "a folder that becomes a table; where it is one of this run, the rest is computed",
    )
    parser.word("--spec SPEC", A_SPEC, required=True)
    parser.word("--backend LIST", "backends, unless a spec says them")
    parser.word("--replicas N", "processes", counting(1), 1)
    parser.word(
        "--column INPUT=COLUMN",
        "the column that an input is fed from (default: that of its name)",
        _column,
        several=True,
    )
    parser.word(
        "--result OUTPUT[=COLUMN]",
        "an output to compute, and the column it becomes (default: all of them)",
        _result,
        several=True,
    )
    parser.word("--keep COLUMN", "a column that goes over, such as a key", several=True)
    parser.word("--batch-size N", "rows at once", counting(1), 32)
    parser.word("--part-rows N", "rows of a part, which is what may be lost", counting(1), 10_000)


COMMAND: Final = Command(_arguments, _execute)
