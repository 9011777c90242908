"""Tuning: measure backends on a model, alone and composed, and keep the placement that won."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.comparing.benchmark import contender_table
from subgraphkit.comparing.feeding import make_feeds
from subgraphkit.configuration import messages
from subgraphkit.configuration.handing import plain_value
from subgraphkit.configuration.selection import AUTO, BackendChoice, Selection, parse_selection
from subgraphkit.errors import ConfigError
from subgraphkit.finding.opening import open_backends
from subgraphkit.ir.structure import NoKeyError
from subgraphkit.partitioning.placements import (
    Placement,
    circumstances,
    find_placement,
    keep_placement,
)
from subgraphkit.placing.course import Course
from subgraphkit.placing.measuring import Arena
from subgraphkit.texts import aligned, printable
from subgraphkit.viewing import Facts, Paged, Section, Table, Text
from subgraphkit.viewing.sections import Cell


@dataclass(frozen=True, slots=True, repr=False)
class Tuning(Paged):
    """What ``tune`` found.

    Attributes:
        placement: The placement that measured best; its ``figures`` hold what was measured.
        measured: Whether anything was measured for it now; False if it was in the cache.
        model: What the model is called.
    """

    placement: Placement
    measured: bool
    model: str

    @property
    def figures(self) -> Mapping[str, Any]:
        """What was measured, as plain data.

        Keys: ``contenders`` (what ran as a whole, the quickest first: ``label``, ``seconds``,
        ``ratio`` to the best single backend, ``subgraphs``), ``out`` (by label, why one is out),
        ``regions`` (``places`` of those that are equal, ``from`` and ``to`` the first and the
        last value made, ``nodes``, ``seconds`` by backend, ``chosen``), ``handing`` (by backend,
        seconds to hand over), ``single`` and ``best`` (labels), ``ratio`` of these, ``notes``,
        ``spent`` (seconds), ``asked`` (which backends) and ``complete``. A time or ratio is a
        median with the interval that holds the true one with a confidence of 95 %.
        """
        return self.placement.figures

    @property
    def gain(self) -> float:
        """The part of the best single backend's time that is saved; 0 if that is the placement."""
        median: float = self.figures["ratio"][0]
        return 1 - median

    def report(self, *, width: int | None = None) -> str:
        """Return what was measured and decided, for people.

        Args:
            width: Cells in a line, to which tables are fitted; None for lines without end.
        """
        return "\n".join(_report(self.figures, width)) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the placement, as in a plan file, and whether it was measured now."""
        return {"measured": self.measured, **json.loads(self.placement.to_json())}

    def page_title(self) -> str:
        """Return what the page is about."""
        return f"{self.model}: who runs it best"

    def sections(self) -> Iterator[Section]:
        """Go through the sections of a page: what runs where from now on, and why."""
        return _sections(self.figures)

    def __repr__(self) -> str:
        """Render as ``Tuning('m.onnx', 'numpy' at 1.000 (1.000 to 1.000) of 'numpy' alone)``."""
        figures = self.figures
        return (
            f"Tuning({self.model!r}, {figures['best']!r} at {_ratio(figures['ratio'])} of "
            f"{figures['single']!r} alone)"
        )


def _sections(figures: Mapping[str, Any]) -> Iterator[Section]:
    """Go through the sections of a page: the decision, who took part, regions, and how."""
    yield Text("\n".join(_reasons(figures)), "The decision")
    single = figures["single"]
    rows = [_contender(one, figures) for one in figures["contenders"]]
    what = (
        f"Everybody runs the whole model; the numbers behind a backend are the regions it has, as "
        f"listed below. A ratio is the time of a turn by that of {single} beside it: below 1 is "
        "faster. The true median is between from and to with a confidence of 95 %."
    )
    yield contender_table(single, rows, what, "subgraphs")
    if figures["regions"]:
        yield _regions(figures)
    out = [(label, why) for label, why in figures["out"].items()]
    if out:
        yield Table(("contender", "why"), out, "Out of the race")
    taken = [(f"handing a value to {n}, us", one * 1e6) for n, one in figures["handing"].items()]
    yield Facts([("seconds spent", figures["spent"]), *taken], "How it was measured")


def _reasons(figures: Mapping[str, Any]) -> Iterator[str]:
    single, best = figures["single"], figures["best"]
    several = len(figures["contenders"]) > 1
    if best != single:
        yield (
            f"Best is {best}, and auto runs the model so from now on: it takes "
            f"{_ratio(figures['ratio'])} of the time of {single}, the best backend alone, and the "
            "whole range is below 1."
        )
    elif several:
        yield (
            f"Best is {single} alone, and auto runs the model so from now on: nothing else was "
            "surely faster, which would mean that the whole range of its ratio is below 1."
        )
    else:
        yield f"Best is {single}, because nobody else took part."
    if not figures["complete"]:
        yield "Measuring was stopped early, so this is the best so far."
    yield from figures["notes"]


def _contender(one: Mapping[str, Any], figures: Mapping[str, Any]) -> Sequence[Cell]:
    seconds, found, label = one["seconds"], one["ratio"], one["label"]
    if label == figures["best"]:
        verdict = "chosen"
    elif label == figures["single"]:
        verdict = "best backend alone"
    elif found and found[1] > 1:
        verdict = "slower"
    else:
        verdict = "not surely faster" if found else "slower, seen at once"
    against = [1.0, None, None] if label == figures["single"] else found or [None] * 3
    return (label, verdict, *(each * 1e3 for each in seconds), *against, one["subgraphs"])


def _regions(figures: Mapping[str, Any]) -> Table:
    regions = figures["regions"]
    names = list(dict.fromkeys(name for one in regions for name in one["seconds"]))
    rows = [
        (
            ", ".join(map(str, one["places"])),
            one["from"],
            one["to"],
            one["nodes"],
            *(one["seconds"][name][0] * 1e3 if name in one["seconds"] else None for name in names),
            " and ".join(one["chosen"]),
        )
        for one in regions
    ]
    times = [f"{name}, ms" for name in names]
    what = (
        "Parts of the model, each run by every backend inside of the running whole. A backend that "
        "is faster here may not have it, since values then have to be handed over."
    )
    columns = ("region", "first value", "last value", "nodes", *times, "goes to")
    return Table(columns, rows, "Regions", what, bars=times)


def _report(figures: Mapping[str, Any], width: int | None) -> Iterator[str]:
    single, best = figures["single"], figures["best"]
    rows: list[Sequence[str]] = [("whole model", "median", "interval", f"of {single}", "subgraphs")]
    for one in figures["contenders"]:
        against = _ratio(one["ratio"]) if one["ratio"] else ""
        rows.append((one["label"], *_times(one["seconds"]), against, str(one["subgraphs"])))
    yield from aligned(rows, {1, 4}, width=width)
    yield from (printable(f"{label}: {why}") for label, why in figures["out"].items())
    if figures["regions"]:
        yield ""
        yield from _region_table(figures["regions"], width)
        handing = (f"{name} {taken * 1e6:.0f} us" for name, taken in figures["handing"].items())
        yield f"handing over, beside {single}: {', '.join(handing)}"
    yield from map(printable, figures["notes"])
    if best == single:
        yield f"decision: {single} alone; nothing else measured better"
    else:
        yield f"decision: {best}, at {_ratio(figures['ratio'])} of {single} alone"


def _region_table(regions: Sequence[Mapping[str, Any]], width: int | None) -> list[str]:
    names = list(dict.fromkeys(name for one in regions for name in one["seconds"]))
    rows: list[Sequence[str]] = [("region", "values", "nodes", *names, "goes to")]
    for one in regions:
        found = one["seconds"]
        cells = [" ".join(_times(found[name])) if name in found else "-" for name in names]
        where = f"{one['from']} .. {one['to']}"
        places = ",".join(map(str, one["places"]))
        rows.append((places, where, str(one["nodes"]), *cells, " and ".join(one["chosen"])))
    return aligned(rows, {2}, width=width)


def _times(seconds: Sequence[float]) -> tuple[str, str]:
    median, low, high = (one * 1e3 for one in seconds)
    return f"{median:.3g} ms", f"({low:.3g} to {high:.3g})"


def _ratio(ratio: Sequence[float]) -> str:
    median, low, high = ratio
    return f"{median:.3f} ({low:.3f} to {high:.3f})"


def tune(
    bound: BoundModel,
    *,
    seconds: float | None = None,
    backends: Selection | None = None,
    feeds: Mapping[str, Any] | None = None,
    again: bool = False,
    progress: Progress | None = None,
) -> Tuning:
    """Measure who runs a model best, and keep the result where ``auto`` finds it.

    Nothing is measured if the cache has a placement for these backends under the same
    circumstances: model, shapes, threads, options, machine and versions.

    Args:
        bound: The model, with the shapes it is to be measured with.
        seconds: About how long it may take; None for what suits the model, 17 to 90.
        backends: The backends that take part, as for ``partition``; None for all that ``auto``
            stands for.
        feeds: Arrays by input name; None for random ones.
        again: Whether to measure in any case.
        progress: Told how far it is. If it is cancelled, or Ctrl-C is pressed, the best so far is
            returned, and kept.

    Raises:
        ConfigError: Nodes are pinned or kept off, and a placement places them all (SGK123).
        BackendUnavailableError: No backend can run the model (SGK104).
        CallerError: Feeds are needed, because an input cannot be made up (SGK301).
        ConfigError: ``backends`` is a plan file (SGK107).
        SubgraphkitError: As ``partition``, for backends that are named and cannot be used.
        KeyboardInterrupt: It was stopped before anything was measured.
    """
    settings = bound.settings
    if settings.pin or settings.keep_off:
        raise ConfigError(
            "SGK123",
            "tune places every node, so none can be pinned or kept off",
            hint="Leave out pin and keep_off.",
        )
    origin = f"argument backends={backends!r}"
    choices = parse_selection(AUTO if backends is None else backends, origin)
    if any(one.plan is not None for one in choices):
        raise messages.bad_selection(origin, "tune measures backends, and a plan is none")
    asked = ",".join(map(str, choices))
    anybody = settings.selecting((BackendChoice(AUTO, origin=origin),), "call", origin)
    found = None if again else find_placement(bound, anybody)
    if found is not None and found.figures.get("asked") == asked and found.figures["complete"]:
        return Tuning(found, measured=False, model=bound.name)
    arena = Arena(
        bound,
        _options(bound, choices, origin),
        feeds if feeds is not None else _made_up(bound),
        bound.extensions.hearing(progress),
        _circumstances(bound),
    )
    placement = Course(arena, seconds).run()
    placement = replace(placement, figures={"asked": asked, **placement.figures})
    if placement.circumstances:
        keep_placement(placement, anybody)
    return Tuning(placement, measured=True, model=bound.name)


def _circumstances(bound: BoundModel) -> Mapping[str, Any]:
    try:
        return circumstances(bound, bound.settings)
    except NoKeyError:
        return {}


def _made_up(bound: BoundModel) -> dict[str, Any]:
    return {name: feed.array for name, feed in make_feeds(bound, {}, 0).items()}


def _options(
    bound: BoundModel, choices: tuple[BackendChoice, ...], origin: str
) -> dict[str, dict[str, Any]]:
    """Return the options of every backend that can be used, by name."""
    settings = bound.settings.selecting(choices, "call", origin)
    names = [backend.name for backend in open_backends(settings)]
    return {
        name: {key: plain_value(value) for key, (value, _) in settings.options_for(name).items()}
        for name in names
    }
