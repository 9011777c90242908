"""Profiles written out: as lines of text, and as a trace in the format of Chrome."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from subgraphkit.ir import Subgraph
from subgraphkit.running.profile_rows import ProfileRow, RunTimes, StepTimes

__all__ = ["clock", "profile_lines", "trace"]

_COLUMNS: Final = 80
_HEAD: Final = f"{'TIME':>9} {'SHARE':>6} {'CALLS':>6}  "
_MICRO: Final = 1e6


def clock(seconds: float) -> str:
    """Write a time with three digits."""
    if abs(seconds) >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if abs(seconds) >= 1e-3 else f"{seconds * _MICRO:.3g} us"  # noqa: PLR2004 (a millisecond)


def profile_lines(rows: Sequence[ProfileRow], most: int) -> Iterator[str]:
    """Write rows as lines of 80 columns.

    Subgraphs come in the order in which they ran, the largest parts inside of each below it; then
    what is handed over, the largest first.

    Args:
        rows: The rows.
        most: How many to write inside of each subgraph, and how many of the rest; what is left is
            summed up.
    """
    yield f"{_HEAD}WHAT"
    groups: dict[str, list[ProfileRow]] = {}
    for row in rows:
        groups.setdefault(row.subgraph, []).append(row)
    others = groups.pop("", [])
    for whole, *inner in groups.values():
        yield _line(whole.seconds, whole.part, whole.calls, whole.label)
        yield from _largest(inner, most, "  ")
    yield from _largest(others, most, "")


def _largest(rows: Sequence[ProfileRow], most: int, indent: str) -> Iterator[str]:
    ranked = sorted(rows, key=lambda row: -row.seconds)
    kept = ranked[:most] + [row for row in ranked[most:] if row.kind in {"unattributed", "clocks"}]
    for row in kept:
        yield _line(row.seconds, row.part, row.calls, indent + row.label)
    rest = [row for row in ranked if row not in kept]
    if rest:
        sums = (sum(row.seconds for row in rest), sum(row.part for row in rest))
        yield _line(*sums, sum(row.calls for row in rest), f"{indent}{len(rest)} more")


def _line(seconds: float, part: float, calls: float, label: str) -> str:
    head = f"{clock(seconds):>9} {part:>6.1%} {calls:>6.4g}  "
    text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in label)
    room = _COLUMNS - len(head)
    return head + (text if len(text) <= room else f"{text[: room - 3]}...")


def trace(
    model: str, runs: Sequence[RunTimes], subgraphs: Mapping[str, Subgraph]
) -> dict[str, Any]:
    """Return runs as events in Chrome's trace format, in microseconds from the first run on.

    Each thread of the caller has a track of its own with its runs and their steps. Below it is one
    with what is inside of them; where a library does not say when something began, it is put right
    behind what came before it, and said so. What overlaps has a further track.

    Args:
        model: Name of the model.
        runs: The runs.
        subgraphs: The subgraphs that ran, by identifier.
    """
    events = [_named("process_name", 0, model)]
    tracks: dict[tuple[int, int], int] = {}
    ends: dict[int, float] = {}
    first = min((run.event.start for run in runs), default=0.0)

    def add(track: tuple[int, int], name: str, start: float, seconds: float, **facts: Any) -> None:
        if track not in tracks:
            tracks[track] = len(tracks) + 1
            thread = len({one for one, _ in tracks})
            level = "" if track[1] == 0 else f", inside {track[1]}" if track[1] > 1 else ", inside"
            events.append(_named("thread_name", tracks[track], f"thread {thread}{level}"))
        number = tracks[track]
        ends[number] = start + seconds
        times = {"ts": (start - first) * _MICRO, "dur": seconds * _MICRO}
        place = {"ph": "X", "pid": 1, "tid": number}
        events.append({"name": name, "cat": "subgraphkit", **place, **times, "args": facts})

    def free(thread: int, start: float) -> tuple[int, int]:
        level = 1
        while ends.get(tracks.get((thread, level), 0), start) > start:
            level += 1
        return thread, level

    for run in sorted(runs, key=lambda run: run.event.start):
        event = run.event
        thread = run.steps[0].event.thread if run.steps else threading.get_ident()
        add((thread, 0), f"run {event.run}", event.start, event.seconds or 0.0)
        for step in run.steps:
            told = step.event
            add((thread, 0), told.subgraph, told.start, told.seconds, backend=told.backend)
            graph = subgraphs[told.subgraph].graph
            for inner, start, seconds in _placed(step):
                labels = [graph.nodes[node].label for node in inner.nodes]
                name = " + ".join(labels) or inner.name
                facts = {"kernel": inner.name, "nodes": labels, "backend": told.backend}
                if inner.start is None:
                    facts |= {"start": "unknown", "seconds": inner.seconds}
                add(free(thread, start), name, start, seconds, **facts)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _named(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}


def _placed(step: StepTimes) -> Iterator[tuple[Any, float, float]]:
    """Return what is inside of a step, each with where it is to be drawn."""
    unknown = sum(inner.seconds for inner in step.inner if inner.start is None)
    scale = min(1.0, step.event.seconds / unknown) if unknown else 1.0
    at = step.event.start
    for inner in sorted(step.inner, key=lambda one: one.start or 0.0):
        if inner.start is not None:
            yield inner, inner.start, inner.seconds
        else:
            yield inner, at, inner.seconds * scale
            at += inner.seconds * scale
