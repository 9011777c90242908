"""`auto` beside the best single backend: cold, and after it was measured who runs a model best.

Usage: ``python benchmarks/backends/bench_placement.py [--models NAME ...] [--backends A,B]
[--mixed LIST] [--threads 1,2] [--seconds S] [--minutes M] [--save FILE] [--write FOLDER]``

For each model and number of threads, taking turns, a process each: first every backend alone with
NumPy behind it, three turns, which say who is near the best; then those that are, the lists named
by ``--mixed``, ``auto`` where nothing is stored, and ``auto`` after ``tune``, whose turns alone
count. Then ratios to the best single backend, their geometric means, and that to each backend
fixed for all models, which is what a user has without measuring. ``--models`` takes
names and the groups ``exports``, ``light``, ``real``, ``divided`` and ``all``. After ``--minutes``
no model is begun any more; ``--save`` keeps what was measured, and what is in that file is not
measured again.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "numpy_backend")]
from architectures import (  # noqa: E402 (after the paths, like its neighbours)
    ARCHITECTURES,
    find_export,
    seeded_feeds,
)
from divided_models import DIVIDED  # noqa: E402 (see above)
from measuring import Table, base_parser, machine, rendered, store_csv  # noqa: E402 (see above)
from real_models import MODELS as REAL  # noqa: E402 (see above)

from subgraphkit.comparing import Measured, Schedule, bench  # noqa: E402 (see above)
from subgraphkit.comparing.benchmark import ratio  # noqa: E402 (see above)
from subgraphkit.comparing.stored_values import store_values  # noqa: E402 (see above)
from subgraphkit.placing.tuning_child import measure_placement  # noqa: E402 (see above)
from subgraphkit.processes import NoAnswer, call  # noqa: E402 (see above)
from subgraphkit.testing import light_models as light  # noqa: E402 (see above)

BEHIND: Final = "numpy"
COLD, TUNED = "auto, cold", "auto, tuned"
USUAL: Final = (
    "mobilenetv2",
    "bert_base",
    "convnext_tiny",
    "light_squeezenet",
    "light_shufflenet",
    "light_densenet121",
    "light_resnet50",
    "text detector, 1x3x96x160",
    "text recogniser, 1x3x48x320",
    "MiniLM, open",
    "Silero VAD, open",
    "decoder step with cache, open",
    *DIVIDED,
)
"""Models measured unless others are named: some of every kind, in about 20 minutes."""

_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TVM_NUM_THREADS",
)
_PATIENCE: Final = 600.0
_FIRST_TURNS: Final = 3
_NEAR: Final = 1.1
"""Whoever took longer by more in the first turns is not measured again.

The quickest in the turns that it is compared by would be quickest in part by luck.
"""
_SECONDS_EACH: Final = 2.0
_TURN_SECONDS: Final = 0.05
_RUNS_A_TURN: Final = 3


class Model(NamedTuple):
    """A model: its file or bytes, what it is fed, and the shapes it is bound with."""

    source: Any
    feeds: Mapping[str, Any]
    shapes: Mapping[str, Any] | None = None


def main() -> int:
    """Measure what is not measured yet, print the tables and store what is to be stored.

    Returns:
        How many models could not be measured.
    """
    parser = base_parser("auto beside the best single backend.", repeat=10)
    known = (*GROUPS, "all", *ARCHITECTURES, *_models())
    parser.add_argument("--models", nargs="+", choices=known, default=USUAL, metavar="NAME")
    parser.add_argument("--backends", default="numpy,onnxruntime,openvino,onednn")
    parser.add_argument("--mixed", action="append", metavar="LIST", help="in order; '' for none")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}", help="separated by commas")
    parser.add_argument("--seconds", type=float, default=15.0, help="for tuning, by model")
    parser.add_argument("--minutes", type=float, default=18.0, help="when no model is begun more")
    parser.add_argument("--save", type=Path, help="keep what is measured here, as JSON")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write CSV files there")
    arguments = parser.parse_args()
    arguments.backends = arguments.backends.split(",")
    arguments.mixed = list(filter(None, arguments.mixed or ["onednn,openvino,onnxruntime,numpy"]))
    saved = arguments.save
    rows = json.loads(saved.read_text()) if saved and saved.exists() else {}
    failed = 0
    for name, threads in _left(arguments, rows):
        try:
            rows[f"{name}|{threads}"] = _row(name, threads, arguments)
        except Exception as error:  # noqa: BLE001 (the others are measured all the same)
            failed += 1
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            continue
        print(f"  {_said(rows[f'{name}|{threads}'])}", file=sys.stderr, flush=True)
        if saved:
            saved.write_text(json.dumps(rows, indent=1) + "\n")
    tables = list(_tables(rows, arguments))
    for table in tables:
        print(rendered(table, markdown=arguments.markdown))
    if arguments.write:
        store_csv(arguments.write, tables)
    return failed


def _left(arguments: Namespace, rows: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield models with numbers of threads until all are measured or the time is over."""
    ends = time.monotonic() + 60 * arguments.minutes
    there = _models()
    wanted = [
        one
        for name in arguments.models
        for one in (there if name == "all" else GROUPS[name]() if name in GROUPS else [name])
    ]
    counts = dict.fromkeys(map(int, arguments.threads.split(",")))
    todo = [(name, count) for name in wanted for count in counts if f"{name}|{count}" not in rows]
    for at, (name, count) in enumerate(todo):
        if name not in there:
            print(f"{name}: not exported, see exporting.py", file=sys.stderr, flush=True)
        elif time.monotonic() > ends:
            print(f"time is over, {len(todo) - at} left", file=sys.stderr, flush=True)
            return
        else:
            print(f"[{at + 1}/{len(todo)}] {name}, {count} threads", file=sys.stderr, flush=True)
            yield name, count


def _models() -> dict[str, Callable[[], Model]]:
    exports = {
        name: lambda name=name: Model(find_export(name), seeded_feeds(name)) for name in _exported()
    }
    lights = {f"light_{name}": lambda name=name: _light(name) for name in light.LIGHT_MODELS}
    reals = {name: lambda name=name: _real(name) for name in REAL}
    divided = {
        name: lambda made=made, feeds=feeds: Model(made(), feeds)
        for name, (made, feeds) in DIVIDED.items()
    }
    return {**exports, **lights, **reals, **divided}


def _exported() -> Iterator[str]:
    for name in ARCHITECTURES:
        with suppress(FileNotFoundError):
            find_export(name)
            yield name


GROUPS: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "exports": lambda: list(ARCHITECTURES),
    "light": lambda: [f"light_{name}" for name in light.LIGHT_MODELS],
    "real": lambda: list(REAL),
    "divided": lambda: list(DIVIDED),
}


def _light(name: str) -> Model:
    model = light.seeded_model(name)
    return Model(model.SerializeToString(), light.seeded_feeds(model))


def _real(name: str) -> Model:
    model = REAL[name]
    feeds = dict(model.feeds())
    shapes = {key: list(value.shape) for key, value in feeds.items()} if model.fixed else None
    return Model(model.read(), feeds, shapes)


def _row(name: str, threads: int, arguments: Namespace) -> dict[str, Any]:
    """Tune, measure all candidates in turns, and return the figures as plain data."""
    model = _models()[name]()
    installed = {"iree", "numpy", "onnxruntime", "openvino", "onednn", "tvm", "tensorrt"}
    blocked = sorted(installed.difference(arguments.backends))
    settings: dict[str, Any] = {"block": blocked, "on_fallback": "ok"}
    if model.shapes is not None:
        settings["shapes"] = model.shapes
    with tempfile.TemporaryDirectory() as folder:
        path = model.source
        if isinstance(path, bytes):
            path = Path(folder) / "model.onnx"
            path.write_bytes(model.source)
        started = time.monotonic()
        plan, problem = Path(folder) / "plan.json", ""
        try:
            store_values(model.feeds, Path(folder) / "feeds")
            plan.write_text(_tuned(path, settings, threads, arguments.seconds, Path(folder)))
        except (NoAnswer, RuntimeError) as error:
            problem = f"{type(error).__name__}: {error}"
        spent = time.monotonic() - started
        schedule = Schedule(arguments.repeat, warmup=2, threads=threads, timeout_seconds=_PATIENCE)

        def measured(lists: Mapping[str, str], turns: int) -> dict[str, Any]:
            taken = replace(schedule, rounds=turns)
            candidates = [*lists.values()]
            found = bench(path, model.feeds, candidates, schedule=taken, cache=False, **settings)
            return dict(zip(lists, map(_figures, found.measured), strict=True))

        figures, near = _compared(measured, arguments, "" if problem else f"@{plan}")
    if problem:
        figures[TUNED] = {"error": problem}
    return {"candidates": figures, "near": near, "tuning": spent}


def _compared(
    measured: Callable[[Mapping[str, str], int], dict[str, Any]], arguments: Namespace, plan: str
) -> tuple[dict[str, Any], list[str]]:
    """Measure all backends for a moment, then the quick ones beside `auto`, and name those."""
    singles = {one: one if one == BEHIND else f"{one},{BEHIND}" for one in arguments.backends}
    figures = measured(singles, _FIRST_TURNS)
    times = {label: one["seconds"] for label, one in figures.items() if one.get("agrees")}
    least = min(times.values())
    near = {one: singles[one] for one, taken in times.items() if taken <= _NEAR * least}
    others = {one: one for one in arguments.mixed} | {COLD: "auto"}
    if plan:
        others[TUNED] = plan
    most = int(_SECONDS_EACH / max(_TURN_SECONDS, _RUNS_A_TURN * least))
    turns = min(max(arguments.repeat, most), 4 * arguments.repeat)
    return figures | measured(near | others, turns), [*near]


def _figures(one: Measured) -> dict[str, Any]:
    if not one.ran:
        return {"error": f"{one.code} {one.text}"}
    return {
        "seconds": one.median,
        "turns": list(one.turns),
        "agrees": one.agrees,
        "bind": one.bind_seconds,
        "memory": one.memory_bytes,
        "regions": [share.backend for share in one.shares],
    }


def _tuned(
    path: Path, settings: Mapping[str, Any], threads: int, seconds: float, folder: Path
) -> str:
    """Let a process of its own tune, as ``tune="background"`` does, and return the plan."""
    given = {
        **settings,
        "threads": threads,
        "tune_seconds": seconds,
        "cache_dir": f"{folder}/cache",
    }
    shapes = given.pop("shapes", None)
    job = {"model": os.fspath(path), "shapes": shapes, "options": {}, "settings": given}
    job["feeds"] = str(folder / "feeds")
    variables = dict.fromkeys(_VARIABLES, str(threads))
    return str(call(measure_placement, job, timeout=_PATIENCE, variables=variables))


def _said(row: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{label} {one['seconds'] * 1e3:.2f} ms"
        if "seconds" in one
        else f"{label} {one['error'][:90]}"
        for label, one in row["candidates"].items()
    )


class Row(NamedTuple):
    """What was measured of a model with a number of threads."""

    name: str
    threads: str
    best: str
    whole: bool
    candidates: Mapping[str, Any]
    tuning: float

    def seconds(self, label: str) -> float | None:
        """Return the median of a candidate; None if it is out, or its results differ."""
        one = self.candidates.get(label, {})
        return one["seconds"] if one.get("agrees") else None

    def ratio(self, label: str, other: str) -> float | None:
        """Return the time of a candidate by that of another, turn by turn."""
        if self.seconds(label) is None or self.seconds(other) is None:
            return None
        return ratio(*(self.candidates[one]["turns"] for one in (label, other))).median

    def decided(self, label: str) -> float | None:
        """Return the ratio that a decision for one backend alone would have without noise.

        It is that of the candidate that runs this backend; None if several run the model.
        """
        found = set(self.candidates.get(label, {}).get("regions", ()))
        return self.ratio(found.pop(), self.best) if len(found) == 1 else None


def _tables(rows: Mapping[str, Any], arguments: Namespace) -> Iterator[Table]:
    read = [one for key, row in rows.items() if (one := _read(key, row, arguments)) is not None]
    shown = [*arguments.mixed, COLD, TUNED]
    columns = ["model", "threads", "best single", "time", *shown, "as decided", "runs on"]
    cells = [
        [
            one.name,
            one.threads,
            one.best,
            f"{(one.seconds(one.best) or 0) * 1e3:.2f} ms",
            *(_ratio(one, label) for label in shown),
            "-" if (decided := one.decided(TUNED)) is None else f"{decided:.3f}",
            _runs_on(one.candidates[TUNED]),
        ]
        for one in read
    ]
    notes = [
        f"Medians of {arguments.repeat} turns, or up to {4 * arguments.repeat} if they are short.",
        "Ratios, turn by turn, are to the best single, NumPy behind it.",
        "In brackets what holds the true ratio with a confidence of 95 %, or all turns if below 6.",
        "As decided: the same backend as auto, tuned, in its own column; what differs is noise.",
        f"Backends: {', '.join(arguments.backends)}.",
        "differs: its results are not those of NumPy, to the tolerance; it counts nowhere.",
        f"{machine()}.",
    ]
    yield Table("Placement", columns, cells, notes)
    yield _means(read, shown, arguments.backends)
    yield _costs(read)


def _read(key: str, row: Mapping[str, Any], arguments: Namespace) -> Row | None:
    name, _, threads = key.rpartition("|")
    found = row["candidates"]
    running = [one for one in arguments.backends if found.get(one, {}).get("agrees")]
    near = [one for one in row["near"] if one in running]
    if not near:
        return None
    best = min(near, key=lambda one: float(found[one]["seconds"]))
    whole = any(set(found[one]["regions"]) == {one} for one in running if one != BEHIND)
    return Row(name, threads, best, whole, found, row["tuning"])


def _means(rows: Sequence[Row], shown: Sequence[str], backends: Sequence[str]) -> Table:
    groups = [
        ("all", rows),
        ("those no library takes whole", [one for one in rows if not one.whole]),
    ]
    cells = [
        [
            f"{label}, by the best single, {title}",
            *_mean([one.ratio(label, one.best) for one in of]),
        ]
        for title, of in groups
        for label in shown
    ]
    cells += [
        [f"{label}, by {backend} for all", *_mean([one.ratio(label, backend) for one in rows])]
        for backend in backends
        for label in (COLD, TUNED)
    ]
    cells += [
        [
            f"{backend} for all, by the best single",
            *_mean([one.ratio(backend, one.best) for one in rows]),
        ]
        for backend in backends
    ]
    return Table("Placement, geometric means", ["ratio", "mean", "most", "models"], cells)


def _mean(ratios: Iterable[float | None]) -> list[str]:
    known = [one for one in ratios if one is not None]
    mean = f"{statistics.geometric_mean(known):.3f}" if known else "-"
    return [mean, f"{max(known):.3f}" if known else "-", str(len(known))]


def _costs(rows: Sequence[Row]) -> Table:
    columns = ["model", "threads", "bind, best single", COLD, TUNED, "tuning"]
    columns += ["memory, best single", f"{COLD} ", f"{TUNED} "]
    cells = []
    for one in rows:
        three = [one.candidates.get(label, {}) for label in (one.best, COLD, TUNED)]
        binds = [f"{each['bind']:.2f} s" if "bind" in each else "-" for each in three]
        sizes = [
            f"{each['memory'] / 2**20:.0f} MiB" if each.get("memory") else "-" for each in three
        ]
        cells.append([one.name, one.threads, *binds, f"{one.tuning:.0f} s", *sizes])
    return Table("Placement, time to open and peak memory", columns, cells)


def _ratio(row: Row, label: str) -> str:
    found = row.candidates.get(label, {})
    if "seconds" in found and not found["agrees"]:
        return "differs"
    if row.seconds(label) is None or row.seconds(row.best) is None:
        return "-"
    taken = ratio(*(row.candidates[each]["turns"] for each in (label, row.best)))
    return f"{taken.median:.3f} ({taken.low:.2f} to {taken.high:.2f})"


def _runs_on(one: Mapping[str, Any]) -> str:
    if "error" in one:
        return str(one["error"])[:60]
    counts = {name: one["regions"].count(name) for name in dict.fromkeys(one["regions"])}
    return ", ".join(f"{count} {name}" for name, count in counts.items())


if __name__ == "__main__":
    sys.exit(min(main(), 1))
