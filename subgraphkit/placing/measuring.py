"""Candidates for a placement: opened in this process, held to a reference, timed in turns.

Candidates take turns, round by round, so a machine that slows down slows all of them. A turn starts
with a pause, in which threads go to sleep, and a run that wakes them and does not count. Its time
is the median of the runs after that.
"""

import math
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from subgraphkit.backend.differences import compare_values, relative_error
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.tolerances import EXACT, Tolerance, ToleranceOf
from subgraphkit.binding import BoundModel
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.errors import BackendUnavailableError, SubgraphkitError
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.finding.opening import result_tolerances
from subgraphkit.ir import Node
from subgraphkit.ir.costs import weight_of
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.partitioning.plan_files import Placement, first_output
from subgraphkit.partitioning.reports.explanation import Roots, find_causes
from subgraphkit.planning import plan
from subgraphkit.running import Session
from subgraphkit.types import DataType

_QUANTISING: Final = frozenset(
    {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"}
)
_EIGHT_BITS: Final = frozenset({DataType.INT8, DataType.UINT8})
# How many steps results behind a quantisation may be apart, and steps from 0 to the largest.
_STEPS: Final = 2
_STEPS_OF_RANGE: Final = 127


def tolerances_of(bound: BoundModel, backends: Sequence[str]) -> ToleranceOf:
    """Return the tolerances of results: the usual ones, or those that a backend declares.

    In a quantised model, the same number may round to the next step on any backend.
    """
    allowed = result_tolerances(backends, bound, bound.settings)
    is_quantised = not _QUANTISING.isdisjoint(bound.table.op_types)
    return partial(_by_steps, allowed) if is_quantised else allowed


def _by_steps(allowed: ToleranceOf, dtype: DataType) -> Tolerance:
    found = allowed(dtype)
    if found == EXACT:  # 8-bit numbers are steps themselves
        return found.widened(0.0, 1.0 if dtype in _EIGHT_BITS else 0.0)
    return replace(found, scaled=max(found.scaled, _STEPS / _STEPS_OF_RANGE))


WORTH: Final = 0.97
"""From this part of a time on there is no gain: the same session takes hundredths more or less
elsewhere."""

# Seconds before a turn, in which threads that wait by spinning go to sleep.
_PAUSE: Final = 0.05

_SECONDS_PER_TURN: Final = 0.05
# Seconds of a run from which on waking the threads is not seen in it.
_NO_WAKING: Final = 0.25

# Runs of a turn.
_MOST_RUNS: Final = 1000

# Seconds of a run that is too short for the clock.
_TICK: Final = 1e-9

# The part of the processors from which on other programs are in the way of measuring.
_BUSY: Final = 0.1


class Candidate:
    """A session that runs a model as a placement has it.

    Its times are CPU time where it runs in one thread, so that other programs do not count.

    Attributes:
        turns: Seconds of a run, turn by turn.
        results: What its first run computed.
        error: The relative L2 error of these, if it was asked for.
    """

    def __init__(
        self,
        label: str,
        bound: BoundModel,
        placement: Placement,
        progress: Progress,
        *,
        clocked: bool = False,
    ) -> None:
        self.label, self.placement = label, placement
        self.turns: list[float] = []
        self.results: Sequence[Any] = ()
        self.error = 0.0
        self._steps: dict[str, list[float]] = {}
        self._outside: list[float] = []
        partitioning = partition(_alone(bound, placement), placement)
        compiled = plan(partitioning, compile_subgraphs(partitioning, progress=progress))
        self._clocked = clocked
        is_here = bound.settings.threads == 1 and not bound.settings.isolate
        self._clock = time.process_time if is_here else time.perf_counter
        self.session = Session(compiled)

    @property
    def partitioning(self) -> Partitioning:
        """Which nodes run where."""
        return self.session.partitioning

    @property
    def median(self) -> float:
        """The median of its turns."""
        return statistics.median(self.turns)

    @property
    def failed(self) -> bool:
        """Whether it failed in a turn; then all its turns took for ever."""
        return math.inf in self.turns

    def part_on(self, name: str, nodes: Sequence[int], weights: Mapping[int, float]) -> float:
        """Return the part of nodes, by weight, that is at home on a backend."""
        homes = ((node, self.partitioning.home_of(node).backend) for node in nodes)
        here = sum(weights[node] for node, home in homes if home == name)
        return here / sum(weights[node] for node in nodes)

    def run(self, feeds: Mapping[str, Any], timeout_s: float | None = None) -> list[Any]:
        """Compute all outputs, within so many seconds."""
        return self.session.run(None, feeds, timeout_s=timeout_s)

    def own_part(self, name: str, feeds: Mapping[str, Any]) -> float:
        """Return the part of a run that a backend takes, without others' work for it."""
        with self.session.profile(1, inside=False) as profile:
            self.run(feeds)
        homes = {one.id: one.backend for one in self.partitioning.subgraphs}
        taken = profile.subgraph_seconds
        own = sum(seconds for subgraph, seconds in taken.items() if homes[subgraph] == name)
        return own / (sum(taken.values()) or 1.0)

    def difference(self, results: Sequence[Any], expected: Sequence[Any]) -> str:
        """Return the difference from a reference beyond the tolerance in words; empty if none."""
        allowed = tolerances_of(self.session.graph, self.partitioning.backends)
        found = map(compare_values, self.session.graph.outputs, results, expected, repeat(allowed))
        return next((one.text for many in found for one in many if not one.agrees), "")

    def nodes_of(self, name: str) -> frozenset[int]:
        """Return the nodes that a backend runs."""
        own = (one.nodes for one in self.partitioning.subgraphs if one.backend == name)
        return frozenset(chain.from_iterable(own))

    def first_cause(self, name: str) -> str:
        """Return why a backend takes no node, in words."""
        divided = self.partitioning
        refused = divided.refusals_by(name).items()
        causes = find_causes(divided.graph, name, refused, Roots(divided.graph))
        return causes[0].text if causes else "none is offered to it"

    def take_turn(self, feeds: Mapping[str, Any]) -> None:
        """Let threads go to sleep, wake them, run, and note the time; not once it failed."""
        if self.failed:
            self.turns.append(math.inf)
            return
        time.sleep(_PAUSE)
        if not self.turns or self.turns[-1] < _NO_WAKING:
            self.run(feeds)
        seconds: list[float] = []
        profile = self.session.profile(_MOST_RUNS, inside=False)
        with profile if self._clocked else nullcontext():
            while len(seconds) < _MOST_RUNS and sum(seconds) < _SECONDS_PER_TURN:
                started = self._clock()
                self.run(feeds)
                seconds.append(self._clock() - started)
        self.turns.append(statistics.median(seconds) or _TICK)
        if not self._clocked:
            return
        for name, spent in profile.subgraph_seconds.items():
            self._steps.setdefault(name, []).append(spent)
        self._outside.append(sum(row.seconds for row in profile.rows if row.kind == "hand-over"))

    def node_turns(self, weights: Mapping[int, float]) -> list[dict[int, float]]:
        """Return each node's time in each turn: its part, by weight, of its subgraph's."""
        turns: list[dict[int, float]] = [{} for _ in self.turns]
        for subgraph in self.partitioning.subgraphs:
            nodes = [node for node in subgraph.nodes if node in weights]
            whole = sum(weights[node] for node in nodes)
            for taken, seconds in zip(turns, self._steps.get(subgraph.id, ()), strict=False):
                taken |= {node: seconds * weights[node] / whole for node in nodes}
        return turns

    def between(self) -> float:
        """Return the median time of a turn outside of subgraphs, by subgraph."""
        return max(0.0, statistics.median(self._outside)) / max(1, len(self._steps))

    def close(self) -> None:
        """Release the operators; the times stay."""
        self.session.close()


class TuningRun:
    """A model and the shared means of its candidates: arrays, a reference, a budget of time.

    Candidates that are opened are closed on leaving it, if they were not before.

    Attributes:
        options: The options of the backends that take part, by name.
        weights: The nodes in order of running, with the rough cost of each; no constants.
        max_error: The relative L2 error that results may have in shorter floats.
        seconds: About how long all of it may take.
        timeout_s: How long the first run of a candidate may take.
    """

    def __init__(
        self,
        bound: BoundModel,
        options: Mapping[str, Mapping[str, Any]],
        feeds: Mapping[str, Any],
        progress: Progress,
        circumstances: Mapping[str, Any],
    ) -> None:
        self.bound, self.options, self.feeds = bound, options, feeds
        own = (node for node in bound.order if not bound.is_constant_node(node))
        self.weights = {node: weight_of(Node(bound, node)) for node in own}
        self.max_error = bound.settings.max_error
        self.began, self.seconds = time.monotonic(), math.inf
        self.timeout_s: float | None = None
        self.out: dict[str, str] = {}
        self.notes: list[str] = []
        self._progress, self._holds = progress, circumstances
        self._quiet = Progress(lambda _: progress.check())
        self._expected: Sequence[Any] | None = None
        self._stack = ExitStack()
        self._load = (time.perf_counter(), _others_seconds())

    def tell(self, phase: str, done: int, total: int | None = None, message: str = "") -> None:
        """Report the next step, unless it is to stop."""
        self._progress.check()
        self._progress(phase, done, total, message)

    def time_left(self) -> float:
        """Return the seconds that are left."""
        return self.began + self.seconds - time.monotonic()

    def busy_part(self) -> float:
        """Return the part of the processors that other programs took so far; 0 if not known."""
        began, before = self._load
        now, passed = _others_seconds(), time.perf_counter() - began
        if before is None or now is None or passed <= 0:
            return 0.0
        part = (now - before) / (passed * (os.cpu_count() or 1))
        return part if part > _BUSY else 0.0

    def place(
        self,
        nodes: Mapping[str, Sequence[int]],
        precisions: Mapping[str, str] = MappingProxyType({}),
    ) -> Placement:
        """Return a placement of nodes by backend; the last one takes refused nodes.

        ``precisions``: The option ``precision`` of backends that are to compute in another one.
        """
        backends = {name: dict(self.options.get(name, {})) for name in nodes}
        for name, precision in precisions.items():
            backends[name]["precision"] = precision
        name_of = partial(first_output, self.bound)
        named = {name: tuple(map(name_of, several)) for name, several in nodes.items()}
        return Placement(backends=backends, nodes=named, circumstances=self._holds, figures={})

    def open(
        self, label: str, placement: Placement, *, clocked: bool = False, max_error: float = 0.0
    ) -> Candidate | None:
        """Open a candidate and let it run once; None if it cannot, or its results differ.

        ``max_error``: The relative L2 error it may have; 0 for the tolerances of its types.
        """
        try:
            one = Candidate(label, self.bound, placement, self._quiet, clocked=clocked)
            self._stack.callback(one.close)
            one.results = one.run(self.feeds, self.timeout_s)
        except SubgraphkitError as error:
            self.out[label] = error.message
            return None
        if self._expected is not None and self.max_error:
            one.error = relative_error(one.results, self._expected)
        why = "" if max_error else self._wrong(one)
        if max_error and self._expected is None:
            why = "its error is not known, because results vary from run to run"
        elif one.error > max_error > 0:
            why = f"relative error {one.error:.2g}, and max_error is {max_error:g}"
        return None if self._is_out(one, why) else one

    def hear_majority(self, several: Sequence[Candidate], first: str) -> list[Candidate]:
        """Take the results of most for right, and return the candidates that agree.

        ``first``: The label of the one that is taken to be right where as many disagree.
        """
        agreeing = {
            one: [other for other in several if not one.difference(one.results, other.results)]
            for one in several
        }
        right = max(agreeing, key=lambda one: (len(agreeing[one]), one.label == first))
        most = len(agreeing[right])
        if right.difference(right.run(self.feeds), right.results):
            self.notes.append("results vary from run to run, so they are not compared")
            return list(several)
        self._expected = right.results
        kept = [one for one in several if not self._is_out(one, self._wrong(one))]
        if most == 1 and len(several) > 1:
            self.notes.append(f"no two agree, so {right.label} is taken to be right")
        return kept

    def _wrong(self, one: Candidate) -> str:
        wrong = "" if self._expected is None else one.difference(one.results, self._expected)
        return wrong and f"out, because its results differ: {wrong}"

    def _is_out(self, one: Candidate, why: str) -> bool:
        if why:
            self.out[one.label] = why
            one.close()
        return bool(why)

    def nobody(self) -> BackendUnavailableError:
        """Return the error that no backend can run the model, with the reason of each (SGK104)."""
        told = "; ".join(f"{name}: {why}" for name, why in self.out.items())
        return BackendUnavailableError(
            "SGK104",
            f"no backend can run {self.bound.name!r}: {told or 'there is none'}",
            backend=", ".join(self.options),
            hint="See who refuses which nodes: subgraphkit plan MODEL.",
        )

    def take_turns(self, several: Sequence[Candidate], at: int) -> None:
        """Let candidates take a turn each, in another order every round; a failing one is out."""
        at %= max(1, len(several))  # so that nobody always comes after the same neighbour
        for one in (*several[at:], *several[:at]):
            self._progress.check()
            try:
                one.take_turn(self.feeds)
            except SubgraphkitError as error:
                self.out[one.label] = error.message
                one.turns = [math.inf] * (len(one.turns) + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _others_seconds() -> float | None:
    """Return the CPU seconds of all programs but this one; None where nothing tells."""
    try:
        words = Path("/proc/stat").read_text("ascii").split(maxsplit=9)
    except OSError:
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, words[1:9])
    ticks = user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def _alone(bound: BoundModel, placement: Placement) -> BoundModel:
    """Return the model with no options for others than those in the placement, and no way out.

    Another backend's time must not count for one that failed. And a placement under trial needs no
    reports.
    """
    settings = bound.settings
    named = {settings.fallback, *placement.backends}
    options = {name: one for name, one in settings.option_sources.items() if name in named}
    raising: Any = {"on_run_error": "raise", "on_compile_error": "raise"}
    alone = replace(settings, option_sources=options, on_fallback="ok", require={}, **raising)
    return replace(bound, settings=alone, extensions=ExtensionManager(alone, bound.model.name))
