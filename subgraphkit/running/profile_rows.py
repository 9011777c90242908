"""The rows of a profile, in means over the runs, and their texts, tables and traces."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from subgraphkit.backend.hookspecs import RunEvent, StepEvent
from subgraphkit.backend.operator import InnerTime
from subgraphkit.ir import Subgraph
from subgraphkit.texts import count_of
from subgraphkit.viewing import Span, Table, Timeline


@dataclass(slots=True)
class StepTimes:
    """One step of a run.

    Attributes:
        event: The event of its end.
        inner: The records of its operator.
        heard: The end of the listener's work on it, on the clock of the event.
    """

    event: StepEvent
    inner: list[InnerTime]
    heard: float


@dataclass(slots=True)
class RunTimes:
    """One run: the event of its end, and its steps in order."""

    event: RunEvent
    steps: list[StepTimes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A part of the time of a run.

    Rows of other kinds than ``"subgraph"``, and subgraphs with nothing inside, add up to the whole
    run.

    Attributes:
        kind: A ``"subgraph"``, or a part ``"inside"`` of one, such as a kernel. ``"unattributed"``
            is the rest of a subgraph, negative where its parts overlap. A ``"hand-over"`` is the
            session's own work around subgraphs: it checks, copies, moves between devices and waits.
            ``"clocks"`` are those of the profile itself.
        name: The name of a subgraph, or of the two at a hand-over, or the library's name for a
            part.
        seconds: How long it takes in a run.
        part: Which part of the run that is.
        calls: How often it happens in a run.
        subgraph: Identifier of the subgraph it belongs to, or an empty string.
        backend: Name of the backend, or an empty string.
        nodes: Labels of the nodes of the model it computes. Where there are none inside of a
            subgraph, the name is the library's own.
        numbers: The numbers of these nodes.
    """

    kind: Literal["subgraph", "inside", "unattributed", "hand-over", "clocks"]
    name: str
    seconds: float
    part: float
    calls: float
    subgraph: str = ""
    backend: str = ""
    nodes: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """Its name in reports."""
        if self.kind == "inside":
            return " + ".join(self.nodes) or f"{self.backend}: {self.name}"
        return {
            "subgraph": f"{self.name}, {count_of(len(self.nodes), 'node')}",
            "unattributed": "unattributed",
            "hand-over": self.name,
            "clocks": "the clocks of this profile",
        }[self.kind]


def profile_rows(
    runs: Sequence[RunTimes], subgraphs: Mapping[str, Subgraph]
) -> tuple[ProfileRow, ...]:
    """Return the rows: subgraphs in order, each before its parts, then all others."""
    sums = _Sums(len(runs), sum(run.event.seconds or 0.0 for run in runs))
    looked_into = {s.event.subgraph for run in runs for s in run.steps if s.inner}
    for run in runs:
        _add_run(sums, run, looked_into)
    return tuple(_order_rows(sums.rows(subgraphs)))


_Key = tuple[str, str, str, tuple[int, ...]]
"""Kind, subgraph, name, and nodes by number."""


class _Sums:
    """Seconds and calls over all runs, by the keys of rows."""

    def __init__(self, runs: int, wall: float) -> None:
        self._runs, self._wall = runs, wall
        self._seconds: dict[_Key, float] = {}
        self._calls: dict[_Key, int] = {}
        self.backends: dict[str, str] = {}

    def add(
        self, seconds: float, kind: str, subgraph: str, name: str, nodes: tuple[int, ...] = ()
    ) -> None:
        key = (kind, subgraph, name, nodes)
        self._seconds[key] = self._seconds.get(key, 0.0) + seconds
        self._calls[key] = self._calls.get(key, 0) + 1

    def rows(self, subgraphs: Mapping[str, Subgraph]) -> Iterator[ProfileRow]:
        for key, seconds in self._seconds.items():
            kind, subgraph, name, numbers = key
            region = subgraphs.get(subgraph)
            if kind == "subgraph" and region is not None:
                numbers = region.nodes
            graph = None if region is None else region.graph
            if graph is not None:  # a kernel computes no constants
                numbers = tuple(at for at in numbers if not graph.is_constant_node(at)) or numbers
            labels = () if graph is None else (graph.nodes[at].label for at in numbers)
            yield ProfileRow(
                kind,  # type: ignore[arg-type]  # one of those that are added below
                name,
                seconds / self._runs,
                seconds / self._wall,
                self._calls[key] / self._runs,
                subgraph,
                self.backends.get(subgraph, ""),
                tuple(labels),
                numbers,
            )


def _add_run(sums: _Sums, run: RunTimes, looked_into: Collection[str]) -> None:
    end = run.event.start + (run.event.seconds or 0.0)
    at, before = run.event.start, "inputs"
    for step in run.steps:
        event = step.event
        name = event.subgraph
        sums.backends[name] = event.backend
        sums.add(event.start - at, "hand-over", "", f"{before} -> {name}")
        sums.add(event.seconds, "subgraph", name, name)
        for inner in step.inner:
            sums.add(inner.seconds, "inside", name, inner.name, inner.nodes)
        if name in looked_into:
            known = sum(inner.seconds for inner in step.inner)
            sums.add(event.seconds - known, "unattributed", name, name)
        sums.add(step.heard - event.start - event.seconds, "clocks", "", "clocks")
        at, before = step.heard, name
    sums.add(end - at, "hand-over", "", f"{before} -> outputs")


def _order_rows(rows: Iterable[ProfileRow]) -> Iterator[ProfileRow]:
    by_subgraph: dict[str, list[ProfileRow]] = {}
    for row in rows:
        by_subgraph.setdefault(row.subgraph, []).append(row)
    others = by_subgraph.pop("", [])
    for several in by_subgraph.values():
        yield from sorted(several, key=lambda row: row.kind != "subgraph")
    yield from others


_MICRO: Final = 1e6
_ROUNDING: Final = 1e-9
_MOST_TRACKS: Final = 1000
"""Tracks of a thread."""


def totals(rows: Sequence[ProfileRow]) -> dict[str, tuple[float, float]]:
    """Return seconds and share of a run by operator, or by those fused, the largest first."""
    sums: dict[str, tuple[float, float]] = {}
    for row in rows:
        if row.kind == "inside" and row.nodes:
            kinds = " + ".join(dict.fromkeys(label.split()[1] for label in row.nodes))
            seconds, part = sums.get(kinds, (0.0, 0.0))
            sums[kinds] = (seconds + row.seconds, part + row.part)
    return dict(sorted(sums.items(), key=lambda item: -item[1][0]))


def profile_tables(rows: Sequence[ProfileRow]) -> Iterator[Table]:
    """Return the rows as tables: totals by operator, inside of subgraphs, and around them."""
    columns = (
        "subgraph", "backend", "what", "ms", "% of a run", "calls", "as the library calls it",
    )  # fmt: skip
    sums = [(kinds, one * 1e3, part * 100) for kinds, (one, part) in totals(rows).items()]
    if sums:
        yield Table(("operator", *columns[3:5]), sums, "By operator", bars=columns[3:4])
    inside = [
        (
            row.subgraph,
            row.backend,
            " + ".join(row.nodes) if row.nodes else row.label,
            row.seconds * 1e3,
            row.part * 100,
            row.calls,
            row.name if row.kind == "inside" and row.name != " + ".join(row.nodes) else None,
        )
        for row in sorted(rows, key=lambda one: -one.seconds)
        if row.kind in {"inside", "unattributed"}
    ]
    if inside:
        caption = "One row for each kernel or layer, the longest first; fused, with all its nodes."
        yield Table(columns, inside, "Inside of subgraphs", caption, columns[3:4]).drop_empty()
    around = [
        (row.label, row.seconds * 1e3, row.part * 100, row.calls)
        for row in sorted(rows, key=lambda one: -one.seconds)
        if not row.subgraph
    ]
    caption = "What the session does before, between and after subgraphs: checks, copies, waiting."
    yield Table(("what", *columns[3:6]), around, "Around subgraphs", caption, columns[3:4])


def timeline(runs: Sequence[RunTimes], subgraphs: Mapping[str, Subgraph]) -> Timeline:
    """Return the run of median length over time: its subgraphs, and their parts below."""
    ranked = sorted(runs, key=lambda run: run.event.seconds or 0.0)
    spans = [
        Span(one["tid"] % _MOST_TRACKS, one["name"], one["args"]["backend"], *_seconds(one))
        for one in trace("", ranked[len(ranked) // 2 :][:1], subgraphs)["traceEvents"]
        if "backend" in one["args"]
    ]
    caption = "The run of median length. Where a library gives no start, kernels follow each other."
    return Timeline(spans, "Over time", caption)


def _seconds(event: Mapping[str, Any]) -> tuple[float, float]:
    return event["ts"] / _MICRO, event["dur"] / _MICRO


def trace(
    model: str, runs: Sequence[RunTimes], subgraphs: Mapping[str, Subgraph]
) -> dict[str, Any]:
    """Return runs as events in Chrome's trace format, in microseconds from the first run on.

    Each thread of the caller has a track with its runs and their steps, and one with their parts.
    If a library does not say when a part began, it follows the part before it, and has
    ``"start": "unknown"``. A part that would overlap has a further track.
    """
    begun = sorted(runs, key=lambda run: run.event.start)
    tracks = _Tracks(model, begun[0].event.start if begun else 0.0)
    for run in begun:
        event = run.event
        thread = run.steps[0].event.thread if run.steps else 0
        tracks.add(thread, 0, f"run {event.run}", (event.start, event.seconds or 0.0), {})
        for step in run.steps:
            told, graph = step.event, subgraphs[step.event.subgraph].graph
            facts: dict[str, Any] = {"backend": told.backend}
            tracks.add(thread, 0, told.subgraph, (told.start, told.seconds), facts)
            for inner, start, seconds in _place_inner(step):
                labels = [graph.nodes[node].label for node in inner.nodes]
                more: dict[str, Any] = {"kernel": inner.name, "nodes": labels}
                if inner.start is None:
                    more |= {"start": "unknown", "seconds": inner.seconds}
                name = " + ".join(labels) or inner.name
                tracks.add(thread, 1, name, (start, seconds), facts | more)
    return {"traceEvents": tracks.events, "displayTimeUnit": "ms"}


class _Tracks:
    """Events on tracks, one for the steps of a thread, and as many inside as need be."""

    def __init__(self, model: str, first: float) -> None:
        self.events: list[dict[str, Any]] = []
        self._name("process_name", 0, model)
        self._first = first
        self._threads: dict[int, int] = {}
        self._ends: dict[int, float] = {}

    def add(
        self, thread: int, level: int, name: str, span: tuple[float, float], facts: dict[str, Any]
    ) -> None:
        start, seconds = span
        place = self._threads.setdefault(thread, len(self._threads) + 1)
        track = place * _MOST_TRACKS + level
        while level and self._ends.get(track, start) > start + _ROUNDING:
            track += 1
        if track not in self._ends:
            level = track % _MOST_TRACKS
            inside = "" if not level else ", inside" if level == 1 else f", inside {level}"
            self._name("thread_name", track, f"thread {place}{inside}")
        self._ends[track] = max(self._ends.get(track, 0.0), start + seconds)
        times = {"ts": (start - self._first) * _MICRO, "dur": seconds * _MICRO}
        where = {"ph": "X", "pid": 1, "tid": track}
        self.events.append(
            {"name": name, "cat": "subgraphkit", **where, **times, "args": dict(facts)}
        )

    def _name(self, kind: str, track: int, name: str) -> None:
        facts = {"name": name}
        self.events.append({"name": kind, "ph": "M", "pid": 1, "tid": track, "args": facts})


def _place_inner(step: StepTimes) -> Iterator[tuple[InnerTime, float, float]]:
    """Return the parts of a step, each with its place in the drawing."""
    unknown = sum(inner.seconds for inner in step.inner if inner.start is None)
    scale = min(1.0, step.event.seconds / unknown) if unknown else 1.0
    at = step.event.start
    for inner in sorted(step.inner, key=lambda one: one.start or 0.0):
        if inner.start is not None:
            yield inner, inner.start, inner.seconds
        else:
            yield inner, at, inner.seconds * scale
            at += inner.seconds * scale
