"""The tables of ``bench_placement.py``, from what it measured."""

import statistics
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from measuring import Table, machine

from subgraphkit.comparing.benchmark import ratio

BEHIND: Final = "numpy"
COLD, TUNED, SHORTER = "auto, cold", "auto, tuned", "auto, tuned, max_error"


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


def tables_of(rows: Mapping[str, Any], arguments: Namespace) -> Iterator[Table]:
    """Return ratios by model, their geometric means, and what opening costs."""
    read = [one for key, row in rows.items() if (one := _read(key, row, arguments)) is not None]
    shown = [*arguments.mixed, COLD, TUNED, *([SHORTER] if arguments.max_error else [])]
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
