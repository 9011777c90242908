"""Tuning: measure backends on a model, alone and composed, and keep the placement that won."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel, bind
from subgraphkit.comparing.benchmark import candidate_table
from subgraphkit.comparing.stored_values import random_feeds
from subgraphkit.configuration import messages
from subgraphkit.configuration.config import ResolvedConfig, plain_value
from subgraphkit.configuration.selection import AUTO, BackendChoice, Selection, parse_selection
from subgraphkit.errors import ConfigError, SubgraphkitError
from subgraphkit.finding.opening import open_backends
from subgraphkit.finding.registry import find_record, probe_record
from subgraphkit.ir.structure import NoKeyError
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import partition
from subgraphkit.partitioning.placements import circumstances, find_placement, keep_placement
from subgraphkit.partitioning.plan_files import Placement
from subgraphkit.placing.measuring import TuningRun
from subgraphkit.placing.tuning_loop import TuningLoop
from subgraphkit.texts import printable
from subgraphkit.viewing import Paged, Section, Table, Text, lines_of
from subgraphkit.viewing.tables import Cell


@dataclass(frozen=True, slots=True, repr=False)
class Tuning(Paged):
    """The result of ``tune``.

    Attributes:
        placement: The placement that measured best; its ``figures`` hold the measurements.
        measured: Whether anything was measured for it now; False if it was in the cache.
        model: The name of the model.
    """

    placement: Placement
    measured: bool
    model: str

    @property
    def figures(self) -> Mapping[str, Any]:
        """The measurements, as plain data.

        Keys: ``best`` (label of the choice), ``single`` (of the quickest backend alone),
        ``present`` (of the choice so far, or None), ``times`` (by label, also of plain ONNX
        Runtime, the time by the best one's), ``ratio`` (the best one's time by ``single``'s),
        ``error`` and ``max_error`` (relative L2), ``candidates`` (whole runs by speed, each with
        ``label``, ``seconds``, ``ratio`` to the present choice, ``error``, ``subgraphs``), ``out``
        (by label, why one is out), ``regions`` (``places`` of equal ones, ``from`` and ``to`` the
        first and the last value made, ``nodes``, ``seconds`` by backend, ``chosen``), ``errors``
        (``from``, ``to`` and ``error`` of regions in shorter floats), ``handing`` (by backend,
        seconds to hand over), ``busy`` (the part of the processors that other programs took),
        ``sizes`` (of open dimensions), ``notes``, ``spent`` (seconds), ``asked`` (which backends)
        and ``complete``. A time or ratio is a median with the interval that holds the true one with
        a confidence of 95 %.
        """
        return self.placement.figures

    @property
    def answer(self) -> str:
        """The choice, its gain and its error, in a few short sentences."""
        return " ".join(_answer(self.figures))

    @property
    def gain(self) -> float:
        """The part of the best single backend's time that is saved; 0 if that is the placement."""
        return 1 - float(self.figures["ratio"][0])

    def report(self, *, width: int | None = None) -> str:
        """Return measurements and decision, for people.

        Args:
            width: Cells in a line, to which tables are fitted; None for lines without end.
        """
        return "\n".join(lines_of(self.sections(), width)) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the placement, as in a plan file, and whether it was measured now."""
        return {"measured": self.measured, **json.loads(self.placement.to_json())}

    def page_title(self) -> str:
        """Return the title of the page."""
        return f"{self.model}: the fastest backend"

    def sections(self) -> Iterator[Section]:
        """Go through the sections of a page: the new places of nodes, and the reasons."""
        return _sections(self.figures)

    def __repr__(self) -> str:
        """Render as ``Tuning('m.onnx', 'numpy' at 1.000 (1.000 to 1.000) of 'numpy' alone)``."""
        figures = self.figures
        return (
            f"Tuning({self.model!r}, {figures['best']!r} at {_ratio(figures['ratio'])} of "
            f"{figures['single']!r} alone)"
        )


def _sections(figures: Mapping[str, Any]) -> Iterator[Section]:
    """Go through the sections of a page: the answer, the candidates, regions, and the method."""
    said = map(printable, (*_answer(figures), *figures["notes"]))
    yield Text("\n".join(said), "The answer")
    against = _reference(figures)
    rows = [_candidate(one, figures) for one in figures["candidates"]]
    what = (
        f"Each row runs the whole model; numbers behind a backend are its parts, listed below. A "
        f"ratio below 1 is faster than {against} in the same turns. The true ratio is between "
        "from and to with a confidence of 95 %."
    )
    yield candidate_table(against, rows, what, "subgraphs")
    if figures["regions"]:
        yield _regions(figures)
    if figures["errors"]:
        spent = [(one["from"], one["to"], one["error"]) for one in figures["errors"]]
        yield Table(("first value", "last value", "relative error"), spent, "Error by region")
    if out := [(label, why) for label, why in figures["out"].items()]:
        yield Table(("candidate", "why"), out, "Out of the race")
    taken = [(f"handing a value to {n}, us", one * 1e6) for n, one in figures["handing"].items()]
    facts = [("seconds spent", figures["spent"]), *taken]
    yield Table(("what", "value"), facts, "How it was measured")


def _reference(figures: Mapping[str, Any]) -> str:
    """Return the label of the candidate that all others are compared with."""
    return str(figures["present"] or figures["single"])


def _answer(figures: Mapping[str, Any]) -> Iterator[str]:
    best, single, present = figures["best"], figures["single"], figures["present"]
    times = {label: found for label, found in figures["times"].items() if label != best}
    ahead = ", ".join(f"{_times_as_fast(found)} as {label}" for label, found in times.items())
    if best == present:
        yield f"{best} stays: no other is reliably faster." + (f" It is {ahead}." if ahead else "")
    elif ahead:
        yield f"{best} is {ahead}."
    else:
        yield f"{best} is chosen: no other takes part."
    if figures["max_error"]:
        yield (
            f"Its relative error is {figures['error']:.2g}, and you allow "
            f"{figures['max_error']:g}; in float32 {single} is the fastest backend."
        )
    elif best == single and len(figures["candidates"]) > 1 and best != present:
        yield "No mix of backends is faster."
    if figures["sizes"]:
        sizes = ", ".join(f"{name}={size}" for name, size in figures["sizes"].items())
        yield f"This was measured for {sizes} only."
    if not figures["complete"]:
        yield "Measuring was stopped early, so this is the best so far."
    if figures["busy"]:
        busy = f"{figures['busy']:.0%} of the processors while this was measured"
        yield f"Other programs took {busy}."
        yield (
            "It is kept, as you asked." if figures["kept"] else "So it is not kept (--keep does)."
        )


def _times_as_fast(found: Sequence[float]) -> str:
    median, low, high = found
    return f"{median:.2f} times ({low:.2f} to {high:.2f}) as fast"


def _candidate(one: Mapping[str, Any], figures: Mapping[str, Any]) -> Sequence[Cell]:
    seconds, found, label = one["seconds"], one["ratio"], one["label"]
    if label == figures["best"]:
        verdict = "chosen"
    elif label == figures["present"]:
        verdict = "present choice"
    elif found and found[1] > 1:
        verdict = "slower"
    else:
        verdict = "not reliably faster"
    against = [1.0, None, None] if label == _reference(figures) else found or [None] * 3
    return (label, verdict, *against, seconds[0] * 1e3, one["subgraphs"])


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
        "Each backend runs each part of the model, while the others run the rest. A backend that "
        "is faster on a part may still lose it, because handing values over takes time."
    )
    columns = ("region", "first value", "last value", "nodes", *times, "goes to")
    return Table(columns, rows, "Regions", what, bars=times)


def _ratio(ratio: Sequence[float]) -> str:
    median, low, high = ratio
    return f"{median:.3f} ({low:.3f} to {high:.3f})"


def tune(  # noqa: PLR0913 (keywords)
    model: BoundModel | ModelSource | Model,
    *,
    seconds: float | None = None,
    backends: Selection | None = None,
    feeds: Mapping[str, Any] | None = None,
    again: bool = False,
    keep: bool | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Find the best backends for a model by measuring, and keep the result for ``auto``.

    Nothing is measured if the cache has a placement for these backends under the same
    circumstances: model, shapes, threads, options, ``max_error``, machine and versions. With the
    setting ``max_error`` above 0, shorter floats take part where the machine computes in them.

    Args:
        model: The model, bound with the shapes to measure, or a source that ``bind`` takes.
        seconds: About how long it may take; None for a time that suits the model, 17 to 90.
        backends: The backends that take part, as for ``partition``; None for all that ``auto``
            stands for. A placement of some does not take the place of one of all.
        feeds: Arrays by input name; None for random ones.
        again: Whether to measure in any case.
        keep: Whether the result is kept; None for unless other programs were in the way.
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
    bound = model if isinstance(model, BoundModel) else bind(model)
    settings = bound.settings
    if settings.pin or settings.keep_off:
        raise ConfigError(
            "SGK123",
            "tune places every node, so none can be pinned or kept off",
            hint="Leave out pin and keep_off.",
        )
    origin = f"argument backends={backends!r}"
    choices = parse_selection(AUTO if backends is None else backends, origin)
    asked = ",".join(map(str, choices))
    if any(one.plan is not None for one in choices):
        raise messages.bad_selection(origin, "tune measures backends, and a plan is none")
    anybody = settings.selecting((BackendChoice(AUTO, origin=origin),), "call", origin)
    found, holds = find_placement(bound, anybody), _circumstances(bound)
    now = found.figures if found is not None and found.circumstances == holds else {}
    if found is not None and now.get("asked") == asked and now["complete"] and not again:
        return Tuning(found, measured=False, model=bound.name)
    chosen = settings.selecting(choices, "call", origin)
    opened = open_backends(chosen)
    fed = random_feeds(bound) if feeds is None else feeds
    options = {
        one.name: {key: plain_value(it) for key, (it, _) in chosen.options_for(one.name).items()}
        for one in opened
    }
    run = TuningRun(bound, options, fed, bound.extensions.hearing(progress), holds)
    shorter = _precisions(opened, run) if settings.max_error else {}
    made_up = feeds is None and settings.max_error
    run.notes += ["the error was measured on random inputs"] if made_up else []
    stays = now.get("asked") == AUTO != asked
    run.notes += ["auto stays with what was measured for all backends"] if stays else []
    placement = TuningLoop(run, seconds, found or _divided_now(bound, run, anybody), shorter).run()
    figures = {"asked": asked, "sizes": _sizes(bound, fed), **placement.figures}
    kept = not stays and (keep if keep is not None else not figures["busy"])
    placement = replace(placement, figures={**figures, "kept": kept})
    if placement.circumstances and kept:
        keep_placement(placement, anybody)
    return Tuning(placement, measured=True, model=bound.name)


def _precisions(opened: Sequence[Backend], run: TuningRun) -> dict[str, tuple[str, ...]]:
    """Return by backend the shorter floats in which it computes natively here."""
    found, settings = {}, run.bound.settings
    for name in (one.name for one in opened):
        try:
            record = find_record(BackendChoice(name), settings)
            raising = settings.raise_plugin_errors
            found[name] = probe_record(record, deep=True, raise_errors=raising).precisions
        except SubgraphkitError as error:
            run.notes.append(f"{name} takes part in float32 alone: {error.message}")
    return found


def _divided_now(bound: BoundModel, run: TuningRun, settings: ResolvedConfig) -> Placement | None:
    """Return the placement that ``auto`` predicts; None if no backend takes the model."""
    undemanding = replace(settings, on_fallback="ok", require={})
    try:
        divided = partition(replace(bound, settings=undemanding))
    except SubgraphkitError:
        return None
    nodes: dict[str, list[int]] = {}
    for subgraph in divided.subgraphs:
        nodes.setdefault(subgraph.backend, []).extend(subgraph.nodes)
    order = [name for name in divided.backends if name in nodes]
    return run.place({name: nodes[name] for name in order}) if order else None


def _sizes(bound: BoundModel, feeds: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes that were measured for dimensions which the file leaves open."""
    sizes = dict(bound.symbols)
    for name in bound.inputs:
        for axis, dim in enumerate(bound.shape(name) or ()):
            if not isinstance(dim, int) and hasattr(feeds.get(name), "shape"):
                sizes[dim if isinstance(dim, str) else f"{name}[{axis}]"] = feeds[name].shape[axis]
    return sizes


def _circumstances(bound: BoundModel) -> Mapping[str, Any]:
    try:
        return circumstances(bound, bound.settings)
    except NoKeyError:
        return {}
