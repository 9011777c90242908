"""Backends on one model, measured in one sitting.

Every candidate has a process of its own, started once. Candidates take turns, round by round, so a
machine that slows down slows all of them. A turn starts with a pause, in which threads go to sleep.
A run wakes them and does not count. Then come the runs that count, and one with clocks around the
operators.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.differences import compare_results
from subgraphkit.backend.messages import PLACEMENT_LOG
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.tolerances import Tolerance, ToleranceOf
from subgraphkit.binding import bind
from subgraphkit.comparing.benchmark import Benchmark, Measured, Schedule, Share
from subgraphkit.comparing.candidates import BenchEntry, MeasuredCandidate
from subgraphkit.comparing.stored_values import random_feeds, restore_values, store_values
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import parse_selection
from subgraphkit.errors import CallerError
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.onnx_io import ModelSource, read_model
from subgraphkit.types import DataType

_PAUSE: Final = 0.05
"""Seconds before a turn, in which threads that wait by spinning go to sleep."""

_TURN: Final = 3, 0.05
"""Runs, and seconds, that a turn has at least."""
_USUAL: Final = Schedule()


def bench(
    source: ModelSource,
    feeds: Mapping[str, Any] | None = None,
    backends: Sequence[str | None] = (None,),
    *,
    schedule: Schedule = _USUAL,
    tolerance: ToleranceOf | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Benchmark:
    """Measure backends on one model, taking turns.

    The candidates' processes know the environment and files. They do not know settings of a call or
    a context manager, or backends registered by a call.

    Args:
        source: A path, the bytes of a model, or a ``ModelProto``.
        feeds: Arrays by input name, the same for all; None for seeded random ones.
        backends: A selection of backends for each candidate, such as
            ``["numpy", "openvino,numpy"]``; None for the configured ones.
        schedule: How often and how long.
        tolerance: From an element type to its tolerance. The default is ``tolerance_for``, widened
            for each candidate by its backends' declarations. The setting ``max_error`` allows
            results that are so near as a whole.
        progress: Told before every step; stops the work.
        **settings: What else ``bind`` takes: ``shapes``, ``options`` and other settings; values
            that JSON can hold.

    Returns:
        The measurements. A candidate that cannot run says why and does not stop the others.

    Raises:
        ConfigError: A selection cannot be read (SGK107).
        CallerError: There is nobody to measure (SGK301).
    """
    if not backends:
        raise CallerError("SGK301", "nothing is to be measured: there are no backends")
    for selection in backends:
        if selection is not None:
            parse_selection(selection, f"backends={selection!r}")
    with tempfile.TemporaryDirectory(prefix="subgraphkit-bench-") as folder, ExitStack() as stack:
        fed = random_feeds(bind(source, **settings)) if feeds is None else feeds
        store_values(fed, Path(folder) / "feeds")
        model, place = file_of(source, Path(folder)), os.fspath(Path(folder) / "feeds")
        told = {"settings": settings, "threads": schedule.threads}
        job = {"model": model, "feeds": place, **told}
        heard = ExtensionManager(resolve(), Path(model).name).hearing(progress)

        def tell(phase: str, done: int, total: int, message: str = "") -> None:
            heard.check()
            heard(phase, done, total, message)

        entries = []
        for number, one in enumerate(backends):
            tell("binding", number, len(backends), one or "as configured")
            own = Path(folder) / str(number)
            entry = stack.enter_context(BenchEntry(one, job, own, schedule))
            entry.bind()  # alone, so nobody is disturbed
            if entry.facts.get("warning"):
                PLACEMENT_LOG.warning("%s", entry.facts["warning"])
            entries.append(entry)
        _run(entries, schedule, tell)
        name = next((one.facts["model"] for one in entries if "model" in one.facts), "")
        return Benchmark(name, schedule, tuple(_timings_of(entries, tolerance)))


def file_of(source: Any, folder: Path) -> str:
    """Return the path of the model, stored now if it is not in a file."""
    if isinstance(source, str | os.PathLike):
        return os.path.abspath(source)  # noqa: PTH100 (a path-like of any kind)
    path = folder / "model.onnx"
    path.write_bytes(read_model(source).proto.SerializeToString())
    return os.fspath(path)


def _run(entries: Sequence[BenchEntry], schedule: Schedule, tell: Callable[..., None]) -> None:
    """Let all candidates run once, take turns, and report the memory they took."""
    for number, entry in enumerate(entries):
        tell("first run", number, len(entries), entry.label)
        doing = "running for the first time"
        entry.facts |= entry.ask(MeasuredCandidate.first, schedule.warmup, doing=doing)
    for number in range(schedule.rounds):
        tell("measuring", number, schedule.rounds)
        at = number % len(entries)  # so that nobody always comes after the same neighbour
        for entry in (*entries[at:], *entries[:at]):
            if not entry.failed:
                time.sleep(_PAUSE)
                taken = entry.ask(MeasuredCandidate.turn, *_TURN, doing="running")
                entry.turns += [taken] if taken else []
    for entry in entries:
        entry.facts |= entry.ask(MeasuredCandidate.memory, doing="telling its memory")


def _timings_of(entries: Sequence[BenchEntry], tolerance: ToleranceOf | None) -> Iterator[Measured]:
    expected: dict[str, Any] | None = None
    for entry in entries:
        if entry.failed:
            yield Measured(entry.label, **entry.failed)
            continue
        results = restore_values(entry.results)
        expected = results if expected is None else expected
        allowed, max_error = tolerance, 0.0
        if allowed is None:
            allowed = partial(_tolerance_of, entry.facts["tolerances"])
            max_error = entry.facts["max_error"]
        yield Measured(
            entry.label,
            seconds=tuple(one for turn in entry.turns for one in turn["seconds"]),
            turns=tuple(statistics.median(turn["seconds"]) for turn in entry.turns),
            bind_seconds=entry.facts["bind_seconds"],
            first_seconds=entry.facts["first_seconds"],
            memory_bytes=entry.facts["bytes"],
            shares=tuple(_shares(entry)),
            differences=tuple(compare_results(results, expected, allowed, max_error)),
        )


def _tolerance_of(told: Mapping[str, Sequence[float]], dtype: DataType) -> Tolerance:
    return Tolerance(*told[dtype.label])


def _shares(entry: BenchEntry) -> Iterator[Share]:
    for subgraph in entry.facts["subgraphs"]:
        name = subgraph["id"]
        seconds = statistics.median(turn["subgraphs"][name] for turn in entry.turns)
        part = statistics.median(turn["subgraphs"][name] / turn["clocked"] for turn in entry.turns)
        yield Share(name, subgraph["backend"], subgraph["nodes"], seconds, part)
