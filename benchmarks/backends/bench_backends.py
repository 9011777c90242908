"""The networks exported from PyTorch on every installed backend, numpy behind each.

Usage: ``python benchmarks/backends/bench_backends.py [--models A,B] [--backends A,B]
[--also LIST] [--write FOLDER]``

Measured by ``subgraphkit.comparing.bench``: every candidate in a process of its own, taking turns,
with the same number of threads, and its results compared with numpy's. The networks are those of
``numpy_backend/architectures.py``. ``--write docs/benchmarks`` writes the CSV files of that page.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "numpy_backend")]
from architectures import ARCHITECTURES, seeded_feeds  # noqa: E402 (a script beside this one)
from exporting import ensure_exports  # noqa: E402 (see above)
from measuring import THREADS, Table, base_parser, machine, rendered, store_csv  # noqa: E402 (see above)

import subgraphkit as sk  # noqa: E402 (after the paths, like its neighbours)
from subgraphkit.comparing import Benchmark, Measured, Schedule, bench  # noqa: E402 (see above)

FIRST: Final = "numpy"
BUSY: Final = 1.0

Cell = Callable[[Benchmark, Measured], str]


def main() -> int:
    """Measure every network on every backend, print the tables and, if asked to, store them.

    Returns:
        How many candidates could not run or differ from the first.
    """
    parser = base_parser("Networks exported from PyTorch on every installed backend.", repeat=10)
    parser.add_argument("--models", default=",".join(ARCHITECTURES), help="separated by commas")
    parser.add_argument("--backends", help="separated by commas, instead of all installed")
    parser.add_argument(
        "--also", action="append", default=[], metavar="LIST", help="backends together, in order"
    )
    parser.add_argument("--threads", type=int, default=THREADS, help=f"default: {THREADS}")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write CSV files there")
    arguments = parser.parse_args()
    selections = [*_backends(arguments.backends), *arguments.also]
    schedule = Schedule(arguments.repeat, warmup=2, threads=arguments.threads)
    found = {}
    for name, path in ensure_exports(parser, arguments.models).items():
        print(f"measuring {name}", file=sys.stderr)
        found[name] = bench(path, seeded_feeds(name), selections, schedule=schedule)
        for one in found[name].measured:
            said = f"{one.median * 1e3:.1f} ms" if one.ran else one.text
            print(f"  {one.selection}: {said}", file=sys.stderr)
    tables = _tables(found, selections, arguments)
    for table in tables:
        print(rendered(table, markdown=arguments.markdown))
    if arguments.write:
        store_csv(arguments.write, tables)
    every = [one for benchmark in found.values() for one in benchmark.measured]
    return sum(not (one.ran and one.agrees) for one in every)


def _backends(named: str | None) -> list[str]:
    """Return the selections of single backends, numpy first, behind which it stands anyway."""
    installed = sorted({record.name for record in sk.list_backends() if record.provider})
    names = named.split(",") if named else [FIRST, *(one for one in installed if one != FIRST)]
    return [name if name == FIRST else f"{name},{FIRST}" for name in names]


def _tables(
    found: dict[str, Benchmark], selections: Sequence[str], arguments: argparse.Namespace
) -> list[Table]:
    shown = [one.removesuffix(f",{FIRST}") for one in selections]
    columns = ["model", *shown]

    def table(title: str, cell: Cell, last: Sequence[str] = (), notes: Sequence[str] = ()) -> Table:
        rows = [
            [name, *(cell(benchmark, one) for one in benchmark.measured)]
            for name, benchmark in found.items()
        ]
        return Table(title, columns, [*rows, *([list(last)] if last else [])], notes)

    means = [_geometric_mean(found, place) for place in range(len(selections))]
    latency = [
        f"Medians over {arguments.repeat} turns; {arguments.threads} threads for every library.",
        f"After the comma the ratio to {shown[0]}: less than 1 is faster.",
        f"What a backend does not take, {FIRST} runs.",
        f"DIFFERS: results are not those of {shown[0]}, to the tolerance.",
        f"{machine()}.",
    ]
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY + arguments.threads:
        latency.append("The machine was busy: these figures say little.")
    return [
        table("Latency", _latency, ["geometric mean", *means], latency),
        table(
            "Time spent in the backend itself",
            _share,
            notes=["Part of a run; the rest is what numpy does, and the session."],
        ),
        table("Time to load and compile", _bind, notes=["The imports of libraries included."]),
        table(
            "Memory",
            _memory,
            notes=["Growth of the peak of resident memory: library, weights, engine, values."],
        ),
    ]


def _latency(benchmark: Benchmark, one: Measured) -> str:
    if not one.ran:
        return one.code
    ratio = benchmark.ratio(one)
    text = f"{one.median * 1e3:.1f} ms" + ("" if ratio is None else f", {ratio:.2f}")
    return text if one.agrees else f"{text} DIFFERS"


def _share(benchmark: Benchmark, one: Measured) -> str:
    del benchmark
    if not one.ran:
        return "-"
    names = {share.backend for share in one.shares}
    vendors = names - {FIRST} if one.selection != FIRST else names
    return f"{sum(map(one.part_of, vendors)):.1%}"


def _bind(benchmark: Benchmark, one: Measured) -> str:
    del benchmark
    return f"{one.bind_seconds:.2f} s" if one.ran else "-"


def _memory(benchmark: Benchmark, one: Measured) -> str:
    del benchmark
    return f"{one.memory_bytes / 2**20:.0f} MiB" if one.memory_bytes is not None else "-"


def _geometric_mean(found: dict[str, Benchmark], place: int) -> str:
    ratios = [
        ratio
        for benchmark in found.values()
        if (ratio := benchmark.ratio(benchmark.measured[place])) is not None
    ]
    return f"{statistics.geometric_mean(ratios):.2f}" if ratios else "-"


if __name__ == "__main__":
    sys.exit(min(main(), 1))
