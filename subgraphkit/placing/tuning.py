"""Tuning: measure backends on a model, alone and composed, and keep the placement that won."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.comparing.feeding import make_feeds
from subgraphkit.configuration.selection import AUTO, BackendChoice, Selection, parse_selection
from subgraphkit.errors import BackendError, ConfigError, SubgraphkitError
from subgraphkit.finding.opening import open_backends
from subgraphkit.ir.structure import NoKeyError
from subgraphkit.partitioning.claiming.placements import (
    Placement,
    circumstances,
    find_placement,
    keep_placement,
)
from subgraphkit.partitioning.costs import Costs
from subgraphkit.placing.measuring import Contender, interval

__all__ = ["Tuning", "tune"]

_USUAL_SECONDS: Final = 20.0
_SLOW: Final = 3.0
"""How many times the time of the quickest a backend may take and still be considered."""

_FIRST_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Tuning:
    """What ``tune`` found.

    Attributes:
        placement: The placement that measured best; its ``figures`` hold what was measured.
        measured: Whether anything was measured for it now; False if it was in the cache.
    """

    placement: Placement
    measured: bool

    @property
    def contenders(self) -> Sequence[Mapping[str, Any]]:
        """What ran as a whole, the best first: ``label``, ``seconds``, ``subgraphs``, ``out``.

        ``seconds`` is a median with its interval of confidence; ``out`` says why one is out.
        """
        found: Sequence[Mapping[str, Any]] = self.placement.figures["contenders"]
        return found

    def report(self) -> str:
        """Return what was measured and decided, for people."""
        return "\n".join(f"{one['label']}: {_text_of(one)}" for one in self.contenders) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the placement and what was measured as plain data."""
        return {"measured": self.measured, **json.loads(self.placement.to_json())}


def _text_of(one: Mapping[str, Any]) -> str:
    if one["out"]:
        return str(one["out"])
    median, low, high = (seconds * 1e3 for seconds in one["seconds"])
    return f"{median:.3g} ms ({low:.3g} to {high:.3g})"


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
        seconds: About how long to measure, not counting the first run of each backend; None for 20.
        backends: The backends that take part, as for ``partition``; None for all that ``auto``
            stands for.
        feeds: Arrays by input name; None for random ones.
        again: Whether to measure in any case.
        progress: Told how far it is. If it is cancelled, or Ctrl-C is pressed, the best so far is
            returned, and kept.

    Raises:
        ConfigError: Nodes are pinned or kept off, and a placement places them all (SGK123).
        BackendError: No backend can run the model (SGK105), with what became of each.
        CallerError: Feeds are needed, because an input cannot be made up (SGK301).
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
    asked = ",".join(map(str, choices))
    anybody = settings.selecting((BackendChoice(AUTO, origin=origin),), "call", origin)
    found = None if again else find_placement(bound, anybody)
    if found is not None and found.figures.get("asked") == asked and found.figures["complete"]:
        return Tuning(found, measured=False)
    course = _Course(
        bound,
        _options(bound, choices, origin),
        seconds or _USUAL_SECONDS,
        feeds if feeds is not None else _made_up(bound),
        progress or Progress(),
    )
    with course.stack:
        placement = course.run()
    placement = replace(placement, figures={"asked": asked, **placement.figures})
    if placement.circumstances:
        keep_placement(placement, anybody)
        Costs(bound, anybody).learn(_of_one_backend(placement))
    return Tuning(placement, measured=True)


def _of_one_backend(placement: Placement) -> dict[str, float]:
    """Return the seconds of the backends that ran the whole model."""
    return {
        one["label"]: one["seconds"][0]
        for one in placement.figures["contenders"]
        if one["subgraphs"] == 1 and one["seconds"] and one["label"].isidentifier()
    }


def _made_up(bound: BoundModel) -> dict[str, Any]:
    return {name: feed.array for name, feed in make_feeds(bound, {}, 0).items()}


def _options(
    bound: BoundModel, choices: tuple[BackendChoice, ...], origin: str
) -> dict[str, dict[str, Any]]:
    """Return the options of every backend that can be used, by name."""
    settings = bound.settings.selecting(choices, "call", origin)
    names = [backend.name for backend in open_backends(settings)]
    return {
        name: {key: _plain(value) for key, (value, _) in settings.options_for(name).items()}
        for name in names
    }


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)


@dataclass(eq=False)
class _Course:
    """The order of events: backends alone, then composed."""

    bound: BoundModel
    options: dict[str, dict[str, Any]]
    seconds: float
    feeds: Mapping[str, Any]
    progress: Progress
    stack: ExitStack = field(default_factory=ExitStack)
    contenders: list[Contender] = field(default_factory=list)
    out: dict[str, str] = field(default_factory=dict)
    expected: list[Any] | None = None
    complete: bool = True

    def __post_init__(self) -> None:
        table = self.bound.table
        self.names = tuple(
            table.outputs[node][0]
            for node in self.bound.order
            if not self.bound.is_constant_node(node) and table.outputs[node]
        )
        try:
            self.holds = circumstances(self.bound, self.bound.settings)
        except NoKeyError:
            self.holds = {}

    def run(self) -> Placement:
        """Measure, and return the placement that won with the figures."""
        started = time.monotonic()
        try:
            self._run_alone()
        except KeyboardInterrupt:
            if not any(one.turns for one in self.contenders):
                raise
            self.complete = False
        ranked = sorted(
            (one for one in self.contenders if one.turns),
            key=lambda one: interval(one.turns).median,
        )
        figures = {
            "complete": self.complete,
            "spent": round(time.monotonic() - started, 3),
            "contenders": [self._row(one) for one in ranked]
            + [
                {"label": name, "seconds": [], "subgraphs": 0, "out": why}
                for name, why in self.out.items()
            ],
        }
        return replace(ranked[0].placement, figures=figures)

    def _row(self, one: Contender) -> dict[str, Any]:
        count = len(one.partitioning.subgraphs)
        return {
            "label": one.label,
            "seconds": list(interval(one.turns)),
            "subgraphs": count,
            "out": "",
        }

    def _placed(self, nodes: Mapping[str, tuple[str, ...]]) -> Placement:
        backends = {name: self.options[name] for name in nodes}
        return Placement(backends=backends, nodes=nodes, circumstances=self.holds, figures={})

    def _run_alone(self) -> None:
        """Open every backend with the whole model and let those that are not slow take turns."""
        # the fallback first: it is what all others are held to
        last = self.bound.settings.fallback
        names = sorted(self.options, key=lambda name: name != last)
        for at, name in enumerate(names):
            self._tell("opening", at, len(names), name)
            self._enter(name, self._placed({name: self.names}))
        if not self.contenders:
            told = "; ".join(f"{name}: {why}" for name, why in self.out.items())
            raise BackendError("SGK105", f"no backend can run {self.bound.name!r}: {told}")
        self._drop_slow()
        for at in range(_FIRST_ROUNDS):
            self._tell("measuring", at, _FIRST_ROUNDS)
            self._take_turns(self.contenders, at)

    def _tell(self, phase: str, done: int, total: int | None = None, message: str = "") -> None:
        self.progress.check()
        self.progress(phase, done, total, message)

    def _enter(self, label: str, placement: Placement) -> Contender | None:
        """Open a contender that computes what the others do; None if it is out."""
        try:
            one = Contender(label, self.bound, placement, self.progress)
            self.stack.enter_context(one)
            results = one.run(self.feeds)
        except SubgraphkitError as error:
            self.out[label] = error.message
            return None
        if self.expected is None:
            self.expected = results
        elif difference := one.difference(results, self.expected):
            self.out[label] = f"its results differ: {difference}"
            one.close()
            return None
        self.contenders.append(one)
        return one

    def _drop_slow(self) -> None:
        """Leave those out that are slow by nature, after one run that is no first one."""
        for one in self.contenders:
            started = time.perf_counter()
            one.run(self.feeds)
            one.turns.append(time.perf_counter() - started)
        best = min(self.contenders, key=lambda one: one.turns[0])
        for one in list(self.contenders):
            ratio = one.turns.pop() / best.turns[0] if one is not best else 1.0
            if ratio > _SLOW:
                self.out[one.label] = f"{ratio:.2g} times slower than {best.label}"
                self.contenders.remove(one)
                one.close()
        best.turns.clear()

    def _take_turns(self, several: Sequence[Contender], at: int) -> None:
        at %= len(several)  # so that nobody always comes after the same neighbour
        for one in (*several[at:], *several[:at]):
            self.progress.check()
            one.take_turn(self.feeds)
