"""Benchmarks: the measurements of each candidate, in words, as a page and for a notebook.

Times and ratios of turns are medians with the interval that holds the true one.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import numpy as np

from subgraphkit.backend.differences import Difference
from subgraphkit.errors import CallerError
from subgraphkit.texts import count_of, in_seconds
from subgraphkit.viewing import Paged, Section, Table, Text
from subgraphkit.viewing.tables import Cell

_CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """A median, and the interval that holds the true one with a confidence of 95 %.

    Fewer than 6 values have none; then it is from the smallest to the largest.
    """

    median: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """Return the median of values and its interval, by order statistics."""
    ranked, count = sorted(values), len(values)
    below, tail = 0, 0.5**count  # the chance that fewer than ``below + 1`` are below the median
    while 2 * tail < 1 - _CONFIDENCE and below < count // 2:
        below += 1
        tail += math.comb(count, below) * 0.5**count
    at = max(below - 1, 0)
    return Interval(statistics.median(ranked), ranked[at], ranked[-1 - at])


def ratio(turns: Sequence[float], others: Sequence[float]) -> Interval:
    """Return the ratios of turns to others' turns, round by round."""
    return interval([one / other for one, other in zip(turns, others, strict=False)])


_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of a benchmark: rounds, warm-up, threads and time limit.

    Attributes:
        rounds: How many turns each candidate takes, of 3 counted runs or 50 ms, whichever is more.
        warmup: Runs after the first one that do not count.
        threads: The setting ``threads``, and the environment variables of OpenMP, OpenBLAS, MKL and
            TVM. None leaves it to the configuration.
        timeout_seconds: How long a bind, a first run with the warm-up, or a turn may take.

    Raises:
        CallerError: There is no round (SGK301).
    """

    rounds: int = 10
    warmup: int = 3
    threads: int | None = None
    timeout_seconds: float = 600.0

    def __post_init__(self) -> None:
        """Check that there is something to do."""
        if self.rounds < 1:
            raise CallerError("SGK301", f"nothing is measured in {self.rounds} rounds")


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a run that one subgraph takes.

    Attributes:
        subgraph: Its identifier.
        backend: Name of its backend.
        nodes: How many nodes it has.
        seconds: Median over the turns.
        part: Its part of the run with clocks, from 0 to 1.
    """

    subgraph: str
    backend: str
    nodes: int
    seconds: float
    part: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of one candidate.

    Attributes:
        selection: Its backends, as given or, where nothing was, as configured.
        seconds: The runs that count, in order; empty if it is out.
        turns: The median of every turn; those of two candidates belong together one by one.
        bind_seconds: From loading the model to a session that is ready, with imports and
            compilation.
        first_seconds: The first run.
        memory_bytes: The peak of its process's resident memory, less the memory before it loaded
            the model. That is libraries, weights, engines and values. None where the system does
            not tell.
        shares: What each subgraph takes, in their order; the rest of a run is the session's.
        differences: Its results against those of the first candidate that ran, one per tensor.
        code: Why it is out, as a code; empty if it is not.
        kind: Name of the class of that error in ``subgraphkit.errors``.
        text: What happened, as a user would be told.
        printed: The end of its output before that.
    """

    selection: str
    seconds: tuple[float, ...] = ()
    turns: tuple[float, ...] = ()
    bind_seconds: float = 0.0
    first_seconds: float = 0.0
    memory_bytes: int | None = None
    shares: tuple[Share, ...] = ()
    differences: tuple[Difference, ...] = ()
    code: str = ""
    kind: str = ""
    text: str = ""
    printed: str = ""

    @property
    def ran(self) -> bool:
        """Whether it was measured."""
        return not self.code

    @property
    def agrees(self) -> bool:
        """Whether its results are those of the first candidate, to the tolerance."""
        return all(one.agrees for one in self.differences)

    @property
    def median(self) -> float:
        """Median of the counted runs, in seconds."""
        return statistics.median(self.seconds)

    @property
    def throughput(self) -> float:
        """Runs per second, one after the other."""
        return len(self.seconds) / sum(self.seconds)

    @property
    def largest_difference(self) -> float:
        """Largest difference of any output by the largest value of that output."""
        if any(one.problem for one in self.differences):
            return float("inf")
        return max((one.scaled for one in self.differences), default=0.0)

    def percentile(self, percent: float) -> float:
        """Return a percentile of the counted runs, in seconds, between runs if need be."""
        return float(np.percentile(self.seconds, percent))

    def part_of(self, backend: str) -> float:
        """Return the part of a run that the subgraphs of a backend take, from 0 to 1."""
        return sum(share.part for share in self.shares if share.backend == backend)


@dataclass(frozen=True, slots=True, repr=False)
class Benchmark(Paged):
    """The candidates side by side.

    Attributes:
        model: What the model is called; empty if nobody could load it.
        schedule: How it was measured.
        measured: The candidates, in the order given.
    """

    model: str
    schedule: Schedule
    measured: tuple[Measured, ...]
    in_notebook: ClassVar[int | None] = 2

    @property
    def agrees(self) -> bool:
        """Whether all that ran have the same results, to the tolerance."""
        return all(one.agrees for one in self.measured)

    def ratio(self, one: Measured) -> float | None:
        """Return a candidate's time by the first one's; None if one of them is out.

        It is the median over the rounds, so a slowdown of the machine in one is in both times.
        """
        first = self.measured[0]
        return ratio(one.turns, first.turns).median if one.ran and first.ran else None

    @property
    def fastest(self) -> Measured | None:
        """The candidate with the smallest median of those that agree; None if nobody ran."""
        found = [one for one in self.measured if one.ran and one.agrees]
        return min(found, key=lambda one: one.median, default=None)

    def page_title(self) -> str:
        """Return the title of the page."""
        return f"{self.model or 'A model'}, measured"

    def sections(self) -> Iterator[Section]:
        """Go through the sections of a page: the winner, its gain, and its confidence."""
        return _sections(self)

    def __repr__(self) -> str:
        """Render as ``Benchmark('m.onnx', 10 turns: numpy 12.3 ms, openvino SGK104)``."""
        found = (
            f"{one.selection} {in_seconds(one.median) if one.ran else one.code}"
            for one in self.measured
        )
        turns = count_of(self.schedule.rounds, "turn")
        return f"Benchmark({self.model!r}, {turns}: {', '.join(found)})"


def _sections(found: Benchmark) -> Iterator[Section]:
    yield Text("\n".join(_verdict(found)), "Who is fastest")
    yield _candidates(found)
    yield _further(found)
    shares = [
        (one.selection, it.subgraph, it.backend, it.nodes, it.seconds * 1e3, it.part * 100)
        for one in found.measured
        for it in sorted(one.shares, key=lambda share: -share.seconds)
    ]
    columns = ("candidate", "subgraph", "backend", "nodes", "time, ms", "% of the run")
    what = "The rest of a run is the session's own: it checks feeds and hands values over."
    yield Table(columns, shares, "Where the time of a run goes", what, bars=("time, ms",))
    rows = [
        (one.selection, one.code, " ".join(one.text.removeprefix(f"[{one.code}] ").split()))
        for one in found.measured
        if not one.ran
    ]
    if rows:
        yield Table(("candidate", "code", "what happened"), rows, "Out of the race")
    schedule = found.schedule
    threads = "as many threads as each likes" if schedule.threads is None else schedule.threads
    yield Text(
        f"Every candidate has a process of its own. They took {schedule.rounds} turns each, one "
        f"after the other, after {schedule.warmup} runs that do not count; threads: {threads}. A "
        "time is the median of all counted runs. A ratio is a candidate's turn by the turn of the "
        "first one beside it, so what slows the machine down for a while is in both; its median "
        "comes with the interval that holds the true one with a confidence of 95 %.",
        "How it was measured",
    )


def _verdict(found: Benchmark) -> Iterator[str]:
    if (best := found.fastest) is None:
        yield "Nobody: no candidate ran with the results that were expected."
        return
    yield f"{best.selection} is fastest: {in_seconds(best.median)} a run."
    others = [one for one in found.measured if one.ran and one is not best]
    for one in sorted(others, key=lambda one: one.median):
        slower = ratio(one.turns, best.turns)
        if not one.agrees:
            yield f"{one.selection} does not count: its results differ from those of the first."
        elif slower.low <= 1:
            long = f"{_words(slower)} as long, a range that includes 1"
            yield f"{one.selection} may be as fast: it takes {long}."
        else:
            yield f"{one.selection} takes {_words(slower)} as long."


def _candidates(found: Benchmark) -> Table:
    first = found.measured[0]
    what = (
        f"A ratio below 1 is faster than {first.selection}, the first one. The true ratio is "
        "between from and to with a confidence of 95 %. Half of all runs take less than the median."
    )
    rows: list[Sequence[Cell]] = []
    for one in found.measured:
        if not one.ran:
            rows.append((one.selection, f"out: {one.code}", *[None] * 4))
            continue
        against: Sequence[Cell] = (1.0, None, None)
        if one is not first:
            against = ratio(one.turns, first.turns) if first.ran else (None,) * 3
        rows.append((one.selection, _word(found, one), *against, one.median * 1e3))
    return candidate_table(first.selection, rows, what)


def candidate_table(first: str, rows: Sequence[Sequence[Cell]], what: str, *more: str) -> Table:
    """Return the table of the candidates' times, with their ratios to the first one's.

    ``rows``: A name, a verdict, median and interval of the ratio, median in ms; and ``more``.
    """
    ratio_to = f"ratio to {first}"
    columns = ("candidate", "verdict", ratio_to, "from", "to", "median, ms", *more)
    best = [at for at, row in enumerate(rows) if row[1] in {"chosen", "fastest"}]
    return Table(columns, rows, "Candidates", what, ranges=(ratio_to,), marked=best)


def _further(found: Benchmark) -> Table:
    columns = (
        "candidate", "99 % of runs below, ms", "first run, ms", "to open, s", "memory, MiB",
        "largest difference",
    )  # fmt: skip
    rows = [
        (
            one.selection,
            one.percentile(99) * 1e3,
            one.first_seconds * 1e3,
            one.bind_seconds,
            None if one.memory_bytes is None else one.memory_bytes / _MEBIBYTE,
            one.largest_difference,
        )
        for one in found.measured
        if one.ran
    ]
    what = (
        "To open: from loading the model to a session that is ready, with the import of libraries. "
        "Memory: the most its process took for libraries, weights, engines and values. Difference: "
        "from the first one's results, by the largest number in them."
    )
    return Table(columns, rows, "What else was measured", what, bars=("memory, MiB",))


def _word(found: Benchmark, one: Measured) -> str:
    best = found.fastest
    if not one.agrees:
        return "results differ"
    if best is None or one is best:
        return "fastest"
    return "as fast, maybe" if ratio(one.turns, best.turns).low <= 1 else "slower"


def _words(found: Interval) -> str:
    return f"{found.median:.2f} times ({found.low:.2f} to {found.high:.2f})"
