"""`auto` beside the best single backend: cold, and after it was measured who runs a model best.

Usage: ``python benchmarks/backends/bench_placement.py [--models NAME ...] [--backends A,B]
[--mixed LIST] [--threads 1,2] [--seconds S] [--max-error E] [--minutes M] [--save FILE]
[--write FOLDER]``

For each model and number of threads, taking turns, a process each: first every backend alone with
NumPy behind it, three turns, which say who is near the best; then those that are, the lists named
by ``--mixed``, ``auto`` where nothing is stored, and ``auto`` after ``tune``, whose turns alone
count. ``--max-error`` tunes once more, for shorter floats. Then ratios to the best single backend,
their geometric means, and that to each backend fixed for all models, which is what a user has
without measuring.

``--models`` takes names and the groups ``exports``, ``kinds`` (of ``other_kinds.py``), ``light``,
``real``, ``divided`` and ``all``. After ``--minutes`` no model is begun any more; ``--save`` keeps
what was measured, and what is in that file is not measured again.
"""

import json
import os
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "numpy_backend")]
from architectures import (  # noqa: E402 (after the paths, like its neighbours)
    ARCHITECTURES,
    cache_folder,
    find_export,
    seeded_feeds,
)
from divided_models import DIVIDED  # noqa: E402 (see above)
from measuring import base_parser, rendered, store_csv  # noqa: E402 (see above)
from placement_tables import BEHIND, COLD, SHORTER, TUNED, tables_of  # noqa: E402 (see above)
from real_models import MODELS as REAL  # noqa: E402 (see above)

from subgraphkit.binding import bind  # noqa: E402 (see above)
from subgraphkit.comparing import Measured, Schedule, bench  # noqa: E402 (see above)
from subgraphkit.comparing.stored_values import random_feeds, store_values  # noqa: E402 (see above)
from subgraphkit.placing.tuning_child import measure_placement  # noqa: E402 (see above)
from subgraphkit.processes import NoAnswer, call  # noqa: E402 (see above)
from subgraphkit.testing import light_models as light  # noqa: E402 (see above)

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
    arguments = _arguments()
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
    tables = list(tables_of(rows, arguments))
    for table in tables:
        print(rendered(table, markdown=arguments.markdown))
    if arguments.write:
        store_csv(arguments.write, tables)
    return failed


def _arguments() -> Namespace:
    parser = base_parser("auto beside the best single backend.", repeat=10)
    known = (*GROUPS, "all", *ARCHITECTURES, *_models())
    parser.add_argument("--models", nargs="+", choices=known, default=USUAL, metavar="NAME")
    parser.add_argument("--backends", default="numpy,onnxruntime,openvino,onednn")
    parser.add_argument("--mixed", action="append", metavar="LIST", help="in order; '' for none")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}", help="separated by commas")
    parser.add_argument("--seconds", type=float, default=15.0, help="for tuning, by model")
    parser.add_argument("--max-error", type=float, help="tune for this relative error as well")
    parser.add_argument("--minutes", type=float, default=18.0, help="when no model is begun more")
    parser.add_argument("--save", type=Path, help="keep what is measured here, as JSON")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write CSV files there")
    arguments = parser.parse_args()
    arguments.backends = arguments.backends.split(",")
    arguments.mixed = list(filter(None, arguments.mixed or ["onednn,openvino,onnxruntime,numpy"]))
    return arguments


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
    kinds = {
        path.stem: lambda path=path: Model(path, random_feeds(bind(path))) for path in _kinds()
    }
    lights = {f"light_{name}": lambda name=name: _light(name) for name in light.LIGHT_MODELS}
    reals = {name: lambda name=name: _real(name) for name in REAL}
    divided = {
        name: lambda made=made, feeds=feeds: Model(made(), feeds)
        for name, (made, feeds) in DIVIDED.items()
    }
    return {**exports, **kinds, **lights, **reals, **divided}


def _kinds() -> list[Path]:
    return sorted((cache_folder() / "other-kinds").glob("*.onnx"))


def _exported() -> Iterator[str]:
    for name in ARCHITECTURES:
        with suppress(FileNotFoundError):
            find_export(name)
            yield name


GROUPS: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "exports": lambda: list(ARCHITECTURES),
    "kinds": lambda: [path.stem for path in _kinds()],
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
        store_values(model.feeds, Path(folder) / "feeds")
        started = time.monotonic()
        plans, problems = _plans(path, settings, threads, arguments, Path(folder))
        spent = time.monotonic() - started
        schedule = Schedule(arguments.repeat, warmup=2, threads=threads, timeout_seconds=_PATIENCE)

        def measured(lists: Mapping[str, str], turns: int) -> dict[str, Any]:
            taken = replace(schedule, rounds=turns)
            candidates, allowed = [*lists.values()], arguments.max_error if SHORTER in lists else 0
            given = {**settings, "max_error": allowed}
            found = bench(path, model.feeds, candidates, schedule=taken, cache=False, **given)
            return dict(zip(lists, map(_figures, found.measured), strict=True))

        figures, near = _compared(measured, arguments, plans)
    figures |= problems
    return {"candidates": figures, "near": near, "tuning": spent}


def _plans(
    path: Path, settings: Mapping[str, Any], threads: int, arguments: Namespace, folder: Path
) -> tuple[dict[str, str], dict[str, Any]]:
    """Tune, once more for shorter floats if asked; return selections, and what failed."""
    errors = {TUNED: 0.0} | ({SHORTER: arguments.max_error} if arguments.max_error else {})
    plans, problems = {}, {}
    for label, max_error in errors.items():
        plan = folder / f"{max_error:g}.json"
        tuned = {**settings, "max_error": max_error}
        try:
            plan.write_text(_tuned(path, tuned, threads, arguments.seconds, folder))
            plans[label] = f"@{plan}"
        except (NoAnswer, RuntimeError) as error:
            problems[label] = {"error": f"{type(error).__name__}: {error}"}
    return plans, problems


def _compared(
    measured: Callable[[Mapping[str, str], int], dict[str, Any]],
    arguments: Namespace,
    plans: Mapping[str, str],
) -> tuple[dict[str, Any], list[str]]:
    """Measure all backends for a moment, then the quick ones beside `auto`, and name those."""
    singles = {one: one if one == BEHIND else f"{one},{BEHIND}" for one in arguments.backends}
    figures = measured(singles, _FIRST_TURNS)
    times = {label: one["seconds"] for label, one in figures.items() if one.get("agrees")}
    least = min(times.values())
    near = {one: singles[one] for one, taken in times.items() if taken <= _NEAR * least}
    others = {one: one for one in arguments.mixed} | {COLD: "auto"} | dict(plans)
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


if __name__ == "__main__":
    sys.exit(min(main(), 1))
