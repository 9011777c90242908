"""A profile: the times of some runs of a session, taken by a listener to its steps."""

import json
import os
import statistics
import threading
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from subgraphkit.backend.hookspecs import RunEvent, StepEvent, hookimpl
from subgraphkit.backend.operator import InnerTime, SubgraphOperator
from subgraphkit.compiling import close_all
from subgraphkit.errors import describe_exception
from subgraphkit.ir import Subgraph
from subgraphkit.partitioning.reports.sections import sections_of
from subgraphkit.planning import Plan
from subgraphkit.running.profile_rows import (
    ProfileRow,
    RunTimes,
    StepTimes,
    profile_rows,
    profile_tables,
    timeline,
    trace,
)
from subgraphkit.texts import count_of, in_seconds
from subgraphkit.viewing import Paged, Section, Table, Text
from subgraphkit.viewing.sections import lines_of

_TURNS: Final = 5


class Recorder:
    """Listens to the runs of one session, and keeps the times of as many as are wanted.

    Attributes:
        taken: The runs that are over, in the order in which they ended; none that failed.
        twins: By operator, the one that runs in its place.
        notes: What there is to say.
        counting: Whether runs that begin now are kept.

    Thread-safety: safe.
    """

    def __init__(self, runs: int) -> None:
        self.taken: list[RunTimes] = []
        self.twins: dict[SubgraphOperator, SubgraphOperator] = {}
        self.notes: list[str] = []
        self.counting = False
        self._made: dict[SubgraphOperator, SubgraphOperator] = {}
        self._made_of: int | None = None
        self._most = runs
        self._begun: dict[int, list[StepTimes]] = {}
        self._inner: dict[tuple[int, str], list[InnerTime]] = {}
        self._lock = threading.Lock()

    @hookimpl
    def subgraphkit_run_start(self, event: RunEvent) -> None:
        """Keep the run if there is room."""
        with self._lock:
            if self.counting and len(self._begun) + len(self.taken) < self._most:
                self._begun[event.run] = []

    @hookimpl
    def subgraphkit_step(self, event: StepEvent) -> None:
        """Keep the step, with its operator's records on this thread."""
        inner = self._inner.pop((event.thread, event.subgraph), [])
        if (steps := self._begun.get(event.run)) is not None:
            steps.append(StepTimes(event, inner, time.perf_counter()))

    @hookimpl
    def subgraphkit_run_end(self, event: RunEvent) -> None:
        """Keep the run unless it failed."""
        with self._lock:
            steps = self._begun.pop(event.run, None)
            if steps is not None and event.error is None:
                self.taken.append(RunTimes(event, steps))

    def look_inside(self, plan: Plan) -> None:
        """Ask the operators of a plan for those that take times inside."""
        for step in plan.steps:
            name = step.subgraph.id
            try:
                twin = step.operator.profiled(self._taker(name))
            except Exception as error:  # noqa: BLE001 (any error of a library)
                self.notes.append(f"{name}: no times from inside: {describe_exception(error)}")
                continue
            if twin is not None:
                self._made[step.operator] = twin

    def take_twins(self, state: int) -> None:
        """Have the twins that were made run from now on, unless they have the weights of before.

        ``state``: Stands for the operators and weights of the session, and is another with others.
        """
        if self._made_of not in (None, state):
            self.forget_twins()
        self._made_of = state
        self.twins = self._made

    def forget_twins(self) -> None:
        """Have the operators run themselves from now on: the twins have the weights of before."""
        if self._made:
            self._close_twins()
            self.notes.append("weights or operators changed; no times from inside after that")

    def close(self) -> None:
        """Close the twins, and put their late records where they belong."""
        self._close_twins()
        self._settle()

    def _close_twins(self) -> None:
        close_all(self._made.values())
        self._made = self.twins = {}

    def _settle(self) -> None:
        """Give times that were recorded after the runs to the steps in which they began."""
        for (_, name), late in self._inner.items():
            steps = [s for run in self.taken for s in run.steps if s.event.subgraph == name]
            steps.sort(key=lambda step: step.event.start)
            starts = [step.event.start for step in steps]
            for inner in late:
                place = bisect(starts, inner.start or 0.0) - 1
                if place >= 0:
                    event = steps[place].event
                    if inner.start is not None and inner.start < event.start + event.seconds:
                        steps[place].inner.append(inner)
        self._inner = {}

    def _taker(self, subgraph: str) -> Callable[[InnerTime], None]:
        def take(inner: InnerTime) -> None:
            self._inner.setdefault((threading.get_ident(), subgraph), []).append(inner)

        return take


class Profile(Paged):
    """Where the time of a session's runs goes; ``Session.profile`` makes it.

    Between entering and leaving, it measures runs of the session on any thread, until there are
    enough. Failed runs do not count. You can ask for the findings afterwards.

    Args:
        plan: The session's plan.
        listen: Has the session report to a recorder, or to nobody; returns its plan.
        run: The session's ``run``.
        runs: How many runs to measure.
        inside: Whether to look into operators.

    Attributes:
        model: Name of the model.
        overhead: By which part measuring makes a run longer; None unless ``run`` has found out.
        notes: What else there is to say.

    Thread-safety: runs may come from any thread; the rest is for one.
    """

    in_notebook: ClassVar[int | None] = 3

    def __init__(
        self,
        plan: Plan,
        listen: Callable[[Any], Plan],
        run: Callable[..., list[Any]],
        runs: int,
        *,
        inside: bool,
    ) -> None:
        self._listen, self._run, self._count, self._inside = listen, run, runs, inside
        self._recorder = Recorder(runs)
        self._subgraphs: dict[str, Subgraph] = {}
        self._know(plan)
        self.overhead: float | None = None

    def __enter__(self) -> Self:
        """Measure the runs of the session from now on.

        Raises:
            CallerError: The session is closed (SGK144), or is being measured already (SGK146).
        """
        plan = self._listen(self._recorder)
        try:
            if self._inside:
                self._recorder.look_inside(plan)
                plan = self._listen(self._recorder)
        except BaseException:
            self.__exit__()
            raise
        self._know(plan)
        self._recorder.counting = True
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the session as it was before."""
        self._know(self._listen(None))
        self._recorder.close()

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run until enough runs are measured, in turns with runs that are not.

        So the cost of measuring is known. Runs that wake the threads up go before each turn and do
        not count.

        Args:
            feeds: Arrays by input name.

        Returns:
            The outputs of the last run.
        """
        recorder = self._recorder
        plain: list[float] = []
        results: list[Any] = []
        for turn in range(_TURNS):
            runs = self._count // _TURNS + (turn < self._count % _TURNS)
            for listener in (None, recorder) if runs else ():
                recorder.counting = False
                self._listen(listener)
                results = self._run(None, feeds)
                recorder.counting = listener is recorder
                for _ in range(runs):
                    started = time.perf_counter()
                    results = self._run(None, feeds)
                    plain += [time.perf_counter() - started] if listener is None else []
        if measured := [run.event.seconds or 0.0 for run in recorder.taken]:
            self.overhead = statistics.median(measured) / statistics.median(plain) - 1
        return results

    @property
    def notes(self) -> tuple[str, ...]:
        """Further remarks, such as why there are no times from inside of a subgraph."""
        return tuple(self._recorder.notes)

    @property
    def walls(self) -> tuple[float, ...]:
        """The seconds of every run that was measured."""
        return tuple(run.event.seconds or 0.0 for run in self._recorder.taken)

    @property
    def rows(self) -> tuple[ProfileRow, ...]:
        """The parts of a run; empty if none was measured."""
        return profile_rows(self._recorder.taken, self._subgraphs)

    @property
    def subgraph_seconds(self) -> dict[str, float]:
        """The mean seconds of a run in each subgraph, by identifier."""
        return {row.subgraph: row.seconds for row in self.rows if row.kind == "subgraph"}

    def to_dict(self) -> dict[str, Any]:
        """Return all of it in plain values for JSON."""
        walls = self.walls
        return {
            "model": self.model,
            "runs": len(walls),
            "seconds": sum(walls) / len(walls) if walls else None,
            "overhead": self.overhead,
            "notes": list(self.notes),
            "rows": [asdict(row) | {"label": row.label} for row in self.rows],
        }

    def table(self, most: int = 10, *, width: int | None = 80) -> str:
        """Return the profile as text.

        Args:
            most: How many rows to show of each table.
            width: Cells in a line, to which tables are fitted; None for lines without end.
        """
        rows = self.rows
        parts = [
            (row.subgraph, row.backend, len(row.nodes), row.seconds * 1e3, row.part * 100)
            for row in rows
            if row.kind == "subgraph"
        ]
        whole = Table(("subgraph", "backend", "nodes", "ms", "% of a run"), parts)
        tables = (_first_rows(one, most) for one in (whole, *profile_tables(rows)) if one.rows)
        head, notes = f"{self.model}\n{self._summary()}", (f"note: {one}" for one in self.notes)
        return "\n".join(lines_of((Text(head), *tables, *map(Text, notes)), width)) + "\n"

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write every run in Chrome's trace format, which Perfetto and ``chrome://tracing`` open.

        Args:
            path: The file; it is replaced.
        """
        found = trace(self.model, self._recorder.taken, self._subgraphs)
        Path(path).write_text(json.dumps(found), encoding="utf-8")

    def page_title(self) -> str:
        """Return the title of the page."""
        return f"{self.model}: {self._summary()}"

    def sections(self) -> Iterator[Section]:
        """Go through the sections of a page.

        They are the picture of the subgraphs, with times as areas, and the rows as tables. You can
        sort, filter and search these. The time of a fused kernel stands at the first of its nodes.
        """
        rows, partitioning = self.rows, self._plan.partitioning
        times: dict[str | int, float] = dict(self.subgraph_seconds.items())
        for row in rows:
            if row.kind == "inside" and row.numbers:
                first = row.numbers[0]
                times[first] = times.get(first, 0.0) + row.seconds
        who, picture, *others = sections_of(partitioning, partitioning.quality, times)
        operators, *tables = profile_tables(rows)
        over_time = timeline(self._recorder.taken, self._subgraphs)
        yield from (who, operators, over_time, picture, *tables, *map(Text, self.notes), *others)

    def __repr__(self) -> str:
        """Render as ``Profile('m.onnx', 20 runs of 1.3 ms (1.2 ms to 1.5 ms))``."""
        return f"Profile({self.model!r}, {self._summary()})"

    def _summary(self) -> str:
        if not (walls := self.walls):
            return "no run was measured"
        span = f"{in_seconds(min(walls))} to {in_seconds(max(walls))}"
        cost = "" if self.overhead is None else f"; measuring costs {max(self.overhead, 0.0):.1%}"
        mean = in_seconds(sum(walls) / len(walls))
        return f"{count_of(len(walls), 'run')} of {mean} ({span}){cost}"

    def _know(self, plan: Plan) -> None:
        self._plan, self.model = plan, plan.graph.name
        self._subgraphs |= {step.subgraph.id: step.subgraph for step in plan.steps}


def _first_rows(table: Table, most: int) -> Table:
    more = len(table.rows) - most
    caption = f"{table.caption} {count_of(more, 'more row')}." if more > 0 else table.caption
    return replace(table, rows=table.rows[:most], caption=caption.strip()).scale_units()
