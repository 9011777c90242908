"""What the benchmarks share: medians, tables and the facts of the machine."""

import argparse
import csv
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = [
    "Table",
    "base_parser",
    "machine",
    "median_seconds",
    "milliseconds",
    "rendered",
    "show",
    "store",
    "store_csv",
    "without",
]

THREADS = 2
"""Threads given to every runtime, so that all are measured on the same machine."""


@dataclass(frozen=True)
class Table:
    """Figures under a title; the first column is text, the others are aligned right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def base_parser(description: str | None, *, repeat: int) -> argparse.ArgumentParser:
    """Return a parser with the options every benchmark has."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--markdown", action="store_true", help="write Markdown tables")
    parser.add_argument(
        "--repeat", type=int, default=repeat, help=f"times to measure (default: {repeat})"
    )
    return parser


def limit_threads() -> None:
    """Hold the linear algebra below NumPy to ``THREADS``; to be called before NumPy is imported."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, str(THREADS))


def median_seconds(call: Callable[[], object], repeat: int, *, times: int = 1) -> float:
    """Return the median over ``repeat`` of the seconds of one call, measured over ``times`` calls.

    One call is made beforehand and not counted.
    """
    call()
    measured = []
    for _ in range(repeat):
        started = time.perf_counter()
        for _ in range(times):
            call()
        measured.append((time.perf_counter() - started) / times)
    return statistics.median(measured)


def milliseconds(seconds: float | None, digits: int = 1) -> str:
    """Write a time; ``-`` if there is none."""
    return "-" if seconds is None else f"{seconds * 1e3:.{digits}f} ms"


def without(package: str) -> str:
    """Say why a column is missing."""
    return f"{package} is not installed, so it is not measured"


def machine() -> str:
    """Describe the machine and the versions in one line."""
    packages = []
    for name in ("numpy", "onnx", "onnxruntime"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    python = f"Python {sys.version.split()[0]}"
    return ", ".join([f"{os.cpu_count()} CPUs ({platform.machine()})", python, *packages])


def rendered(table: Table, *, markdown: bool, level: int = 3) -> str:
    """Return the text of a table; ``level`` is that of its heading in Markdown."""
    lines = [list(table.columns), *map(list, table.rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(table.columns))]
    padded = [
        [
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
    if markdown:
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        body = ["| " + " | ".join(line) + " |" for line in [padded[0], rule, *padded[1:]]]
        text = [f"{'#' * level} {table.title}", "", *body]
    else:
        text = [table.title, *("  " + "  ".join(line).rstrip() for line in padded)]
    notes = [note if markdown else f"  {note}" for note in table.notes]
    return "\n".join([*text, *([""] if notes else []), *notes, ""])


def show(table: Table, *, markdown: bool) -> None:
    """Print a table."""
    print(rendered(table, markdown=markdown), flush=True)


def store(page: Path, tables: Sequence[Table], *, between: tuple[str, str]) -> None:
    """Put tables between two comments of a page and leave the rest of it alone.

    A page that is not there is made.

    Raises:
        SystemExit: The page does not have the comments.
    """
    begin, end = between
    text = page.read_text() if page.exists() else f"# Benchmarks\n\n{begin}\n{end}\n"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"{page} has no place for the tables; write these lines:\n{begin}\n{end}")
    body = "\n".join(rendered(table, markdown=True, level=2) for table in tables)
    page.write_text(f"{before}{begin}\n\n{body}\n{end}{after}")


def store_csv(folder: Path, tables: Sequence[Table]) -> None:
    """Write each table to a file of the folder that is named after its title."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        name = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([table.columns, *table.rows])
