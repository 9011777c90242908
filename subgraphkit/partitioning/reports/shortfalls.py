"""Shortfalls: backends that you named and that have little of a model, in one sentence.

A backend you named falls short if it takes less than ``LITTLE`` of the work offered to it, and the
rest is ``NOTICEABLE``. For the first one you named, the bound is ``HALF``. A backend that was left
out falls short, too. If none takes little, but a fallback that you did not name has noticeable
work, the backend that refused most of it falls short. Work is FLOPs, or nodes where a model has
none. Nodes that you placed elsewhere do not count, nor do those of backends before it in the list.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from subgraphkit.backend.hookspecs import FallbackEvent
from subgraphkit.backend.messages import PLACEMENT_LOG
from subgraphkit.backend.refusal import Refusal
from subgraphkit.errors import UnclaimedNodesError
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.constraints import nodes_that_lose_nan
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.reports.explanation import (
    Cause,
    Roots,
    example_sizes,
    find_causes,
    symbol_words,
)
from subgraphkit.partitioning.reports.quality import NOTICEABLE, working_nodes
from subgraphkit.texts import count_of, printable

LITTLE: Final = 0.1
"""A backend has little if it takes less than this share of the work offered to it."""

HALF: Final = 0.5
"""The same for the backend that you named first, on which you count."""

_LONGEST: Final = 300
_LONGEST_REASON: Final = 90
_LONGEST_REMEDY: Final = 200
_ACCEPTED: Final = 'on_fallback="ok" accepts it.'
_WILLED: Final = frozenset({"pinned", "excluded"})
_SHOWN_SIZES: Final = 3
_SHOWN_BACKENDS: Final = 3

# The backends whose loss of NaN was reported in this process.
_reported: set[str] = set()


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The facts for you on a placement that is not as asked.

    Attributes:
        message: The backends' shares of the work, and the main reason.
        remedy: What to do about it.
        events: For each backend that falls short, the event that extensions hear.
    """

    message: str
    remedy: str
    events: tuple[FallbackEvent, ...]

    def __str__(self) -> str:
        """Render in one line of 300 characters at most, with the remedy; the message is cut."""
        remedy = _clip_text(printable(self.remedy), _LONGEST_REMEDY)
        message = _clip_text(printable(self.message), _LONGEST - len(remedy) - 2)
        return f"{message.removesuffix('.')}. {remedy}"

    def report(self, partitioning: PartitioningData) -> None:
        """Write one warning to the log, and tell extensions."""
        PLACEMENT_LOG.warning("%s", self)
        extensions = partitioning.graph.extensions
        for event in self.events if extensions.implements("subgraphkit_fallback") else ():
            extensions.notify("subgraphkit_fallback", event=event)

    def as_error(self) -> UnclaimedNodesError:
        """Return it as an error (SGK125)."""
        return UnclaimedNodesError("SGK125", self.message, hint=self.remedy)


def find_shortfall(partitioning: PartitioningData) -> Shortfall | None:
    """Compare a placement with the selection; None if all is as asked.

    UnclaimedNodesError (SGK125): a backend has less of the work than ``require`` says, or there is
    something to report and ``on_fallback`` is ``"error"``.
    """
    settings = partitioning.graph.settings
    work = _Work(partitioning)
    for name, least in settings.require.items():
        if work.total and work.share(name) < least:
            raise work.missing(name, least).as_error()
    if settings.on_fallback == "ok":
        return None
    found = work.shortfall()
    if found is not None and settings.on_fallback == "error":
        raise found.as_error()
    return found


def report_lost_nan(partitioning: PartitioningData) -> None:
    """Write to the log that a backend loses NaN, and where; once per process and backend."""
    found: dict[str, set[str]] = {}
    for one in partitioning.subgraphs:
        losing = partitioning.claim_of(one).backend.traits.loses_nan
        if losing and one.backend not in _reported:
            lost = nodes_that_lose_nan(partitioning.graph, one.nodes, losing)
            found.setdefault(one.backend, set()).update(operator for _, operator in lost)
    for name, operators in found.items():
        if operators:
            _reported.add(name)
            PLACEMENT_LOG.warning(
                "there is NaN in this run, and %s turns NaN into ordinary numbers in %s. "
                'nan_policy="propagate" runs such nodes elsewhere; nan_policy="ignore" accepts it.',
                name,
                ", ".join(sorted(operators)),
            )


class _Work:
    """The work of a model, by backend that has it or refused it."""

    def __init__(self, partitioning: PartitioningData) -> None:
        self._partitioning = partitioning
        self._graph = partitioning.graph
        self._nodes: dict[str, list[int]] = {name: [] for name in partitioning.backends}
        for one in partitioning.subgraphs:
            self._nodes[one.backend] += working_nodes(self._graph, one)

    @cached_property
    def _flops(self) -> int:
        return sum(map(self._partitioning.flops_of, self._nodes.values()))

    @cached_property
    def _count(self) -> int:
        return sum(map(len, self._nodes.values()))

    @property
    def total(self) -> int:
        """All work: FLOPs, or nodes where a model has none."""
        return self._flops or self._count

    @cached_property
    def _shares_of(self) -> dict[str, float]:
        return {name: self._weight(nodes) for name, nodes in self._nodes.items()}

    def share(self, name: str) -> float:
        """Return the share of the work that a backend has."""
        return self._shares_of.get(name, 0.0)

    def missing(self, name: str, least: float) -> Shortfall:
        """Describe a backend that has less than is required of it."""
        refused = self._refused_by(name)
        cause = self._main_cause(name, refused) if refused else None
        said = f"{least * 100:.4g}% of the work is required of {name!r}, and "
        found = self._shortfall([said + self._shares((name,))], cause, ())
        remedy = found.remedy.removesuffix(_ACCEPTED).removesuffix("; ")
        return replace(found, remedy=f"{remedy or 'Name it among the backends'}.")

    def shortfall(self) -> Shortfall | None:
        """Describe the backends that fall short; None if there is none."""
        named = self._partitioning.named
        left_out = {name: why for name, why in named.items() if why}
        refused = {name: self._refused_by(name) for name in named if not named[name]}
        if not (left_out or any(refused.values())):  # before anything is counted
            return None
        little = [name for name, nodes in refused.items() if self._has_little(name, nodes)]
        stray = self._stray(refused)
        by_most = sorted(refused, key=lambda name: -len({*stray}.intersection(refused[name])))
        short = little or (by_most[:1] if stray else [])
        if not (left_out or short):
            return None
        causes = {name: self._main_cause(name, refused[name]) for name in short}
        events = [
            FallbackEvent(
                model=self._partitioning.model,
                session=self._partitioning.session,
                level="partition",
                backend=name,
                target=self._taker(refused[name]),
                code=cause.code,
                reason=cause.text,
                node_count=len(refused[name]),
            )
            for name, cause in causes.items()
        ]
        heads = [
            f"{name} was left out: {_clip_text(why, _LONGEST_REASON)}"
            for name, why in left_out.items()
        ]
        cause = next(iter(causes.values()), None)
        return self._shortfall([*heads, self._shares(short)], cause, tuple(events))

    def _shortfall(
        self, sentences: Sequence[str], cause: Cause | None, events: tuple[FallbackEvent, ...]
    ) -> Shortfall:
        message, remedy = "; ".join(sentences), ""
        if cause is not None:
            reason = _clip_text(cause.text, _LONGEST_REASON)
            nodes = count_of(len(cause.nodes), "node")
            message += f". Main reason: {reason} ({nodes}, {cause.backend})"
            remedy = "partitioning.report() or 'subgraphkit plan' says more; "
        if cause is not None and cause.sizes:
            sizes = example_sizes(self._graph, cause.sizes[:_SHOWN_SIZES])
            given = symbol_words(sizes)
            remedy = f"Give shapes={json.dumps(sizes, ensure_ascii=False)} ({given}); "
        return Shortfall(message, f"{remedy}{_ACCEPTED}", events)

    def _shares(self, first: Iterable[str]) -> str:
        """Write the backends' shares, those that fall short first, then by work."""
        others = sorted(self._nodes, key=lambda name: -self.share(name))
        have = [name for name in others if self._nodes[name]]
        names = list(dict.fromkeys([*first, *have]))
        count = {name: len(self._nodes.get(name, ())) for name in names}
        shown = [
            f"{name} has {count[name]} of {self._count} nodes "
            f"({_percent_of(self.share(name))} of FLOPs)"
            if place == 0
            else f"{name} {count[name]} ({_percent_of(self.share(name))})"
            for place, name in enumerate(names[:_SHOWN_BACKENDS])
        ]
        return ", ".join(shown)

    def _refused_by(self, name: str) -> dict[int, Refusal]:
        """Return the nodes that a backend itself refused and that run elsewhere."""
        return {
            node: refusal
            for node, refusal in self._partitioning.refusals_by(name).items()
            if refusal.code not in _WILLED and self._partitioning.home_of(node).outputs
        }

    def _weight(self, nodes: Collection[int]) -> float:
        amount = self._partitioning.flops_of(nodes) if self._flops else len(nodes)
        return amount / (self.total or 1)

    def _has_little(self, name: str, refused: Collection[int]) -> bool:
        left, had = self._weight(refused), self.share(name)
        least = HALF if name == next(iter(self._partitioning.named)) else LITTLE
        return left > NOTICEABLE and had < least * (had + left)

    def _stray(self, refused: Mapping[str, Collection[int]]) -> list[int]:
        """Return the nodes on a fallback that nobody named, if they are noticeable."""
        if self._graph.settings.sources["fallback"][0] != "default":
            return []
        claims, home = self._partitioning.passes.claims, self._partitioning.home_of
        last = {one.backend.name for one in claims if one.is_fallback}
        nodes = {node for several in refused.values() for node in several}
        stray = [node for node in nodes if home(node).backend in last]
        return stray if self._weight(stray) > NOTICEABLE else []

    def _taker(self, nodes: Iterable[int]) -> str:
        """Return the backend that has most of some nodes."""
        by_home: dict[str, list[int]] = {}
        for node in nodes:
            by_home.setdefault(self._partitioning.home_of(node).backend, []).append(node)
        return max(by_home, key=lambda name: (self._weight(by_home[name]), len(by_home[name])))

    def _main_cause(self, name: str, refused: Mapping[int, Refusal]) -> Cause:
        causes = find_causes(self._graph, name, refused.items(), Roots(self._graph))
        return max(causes, key=lambda one: self._weight(one.nodes))


def _percent_of(share: float) -> str:
    """Return a share in percent; neither all nor nothing where it is not."""
    if share in {0, 1}:
        return f"{share:.0%}"
    return f"{min(max(share, 0.001), 0.999):.1%}"


def _clip_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3].rstrip()}..."
