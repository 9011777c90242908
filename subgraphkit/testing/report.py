"""The report of a run: the headline, the levels, the operators; as text, and as JSON."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from subgraphkit import __version__
from subgraphkit.lazy import cached_property
from subgraphkit.testing.cases import LEVELS, Finding, Outcome

SCHEMA: Final = "subgraphkit.conformance/1"
"""Name and version of the JSON document; members may be added within it, none changes or goes."""


LEVEL_COLUMNS: Final = (
    "level", "right", "unclaimed", "passed", "refused", "xfail", "skip", "untried", "wrong",
    "seconds", "result",
)  # fmt: skip
"""The columns of the table of levels; all but the first and the last two are counts."""

NOTHING_CLAIMED: Final = "nothing claimed"
IN_PART: Final = "passed in part"
CUT_SHORT: Final = "cut short"
LEAST_TRIED: Final = 0.6
"""The share of a level's cases that must have been tried before it is passed."""
_RUNNING_TOGETHER: Final = frozenset({3, 4, 5})
"""Levels whose large models come after all others, so that none is at its end before them."""
_ADVICE: Final = {
    NOTHING_CLAIMED: "it took no node of what it was offered, so nothing was learned about it; "
    "`subgraphkit plan MODEL --backend NAME` says why it refuses nodes, and `suite.skip` declares "
    "a level that is not for it",
    IN_PART: "less than 60 % of it was tried, and that was right; give more by --within SECONDS, "
    "or try it --all",
    CUT_SHORT: "the run ended before the level did; what was tried of it was right",
    "not begun": "the time had passed; give more by --within SECONDS, or try it --all",
    "nothing offered": "every case was left out, for the reasons counted as skipped",
}


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """The result of a level: how many cases ended in each way, and how long they took."""

    level: int
    name: str
    counts: Mapping[Outcome, int]
    seconds: float
    is_over: bool = True

    @property
    def tried(self) -> float:
        """The share of its cases that were tried."""
        return 1 - self.counts.get(Outcome.UNTRIED, 0) / sum(self.counts.values())

    @property
    def wrong(self) -> int:
        """How many cases went wrong."""
        return sum(count for outcome, count in self.counts.items() if outcome.is_wrong)

    @property
    def result(self) -> str:
        """``passed`` or ``wrong``, or in which way it is neither."""
        if self.wrong:
            return "wrong"
        if not any(map(self.counts.get, (Outcome.RIGHT, Outcome.XFAIL))):
            if self.counts.get(Outcome.UNCLAIMED):
                return NOTHING_CLAIMED
            if not self.counts.get(Outcome.PASSED):
                return "not begun" if self.counts.get(Outcome.UNTRIED) else "nothing offered"
        if not self.is_over:
            return CUT_SHORT
        return "passed" if self.tried >= LEAST_TRIED else IN_PART

    @property
    def text(self) -> str:
        """The result, and the share that was tried if that is not all."""
        share = f", {100 * self.tried:.0f} % tried" if self.counts.get(Outcome.UNTRIED) else ""
        return self.result + share

    @property
    def advice(self) -> str:
        """The remedy if the level is neither passed nor wrong; else empty."""
        if self.result == NOTHING_CLAIMED and self.counts.get(Outcome.UNTRIED):
            return "it took no node of what there was time for; give more by --within SECONDS"
        return _ADVICE.get(self.result, "")

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        names = ("level", "name", "result", "advice", "seconds")
        members = {name: getattr(self, name) for name in names}
        outcomes = {outcome.value: count for outcome, count in self.counts.items()}
        return {**members, "tried": round(self.tried, 3), "outcomes": outcomes}


class Report:
    """The findings of a run.

    Args:
        backend: What was tested, as it was named.
        findings: What was found; of several for one case the last counts. The attribute has them
            by level, and within it by case.
        seconds: How long each level took, by number, where that was measured.
        seed: What drew the random cases, and the order.
        cut_short: Why the run ended before its end; empty if it did not.
    """

    def __init__(
        self,
        backend: str,
        findings: Iterable[Finding],
        *,
        seconds: Mapping[int, float] | None = None,
        seed: int = 0,
        cut_short: str = "",
    ) -> None:
        self.backend = backend
        last = {finding.case: finding for finding in findings}
        self.findings = tuple(sorted(last.values(), key=lambda one: (one.level, one.case)))
        self.seed = seed
        self.cut_short = cut_short
        self._seconds = seconds or {}

    @property
    def offered(self) -> int:
        """How many cases offered nodes to the backend and came to an end that counts."""
        return sum(finding.is_offer for finding in self.findings)

    @property
    def right(self) -> int:
        """How many of those it claimed and got right."""
        return sum(one.is_offer and one.outcome is Outcome.RIGHT for one in self.findings)

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The findings that are wrong."""
        return tuple(finding for finding in self.findings if finding.is_wrong)

    @cached_property
    def levels(self) -> tuple[LevelSummary, ...]:
        """The levels that were tried."""
        counts: dict[int, Counter[Outcome]] = {}
        seconds: dict[int, float] = defaultdict(float)
        for finding in self.findings:
            counts.setdefault(finding.level, Counter())[finding.outcome] += 1
            seconds[finding.level] += finding.seconds
        seconds |= self._seconds
        last = max(counts, default=0)
        together = _RUNNING_TOGETHER if last in _RUNNING_TOGETHER else {last}
        cut = together if self.cut_short else frozenset()
        return tuple(
            LevelSummary(n, LEVELS[n], counts[n], round(seconds[n], 1), n not in cut)
            for n in sorted(counts)
        )

    @property
    def level_passed(self) -> int | None:
        """The highest level that is passed with all below it; None if not even the first is.

        A level is passed if nothing went wrong, the backend took a node where nodes are offered,
        and at least 60 % was tried. One of which every case was left out counts for nothing.
        """
        passed = None
        for summary in self.levels:
            if summary.result == "passed":
                passed = summary.level
            elif summary.result != "nothing offered":
                break
        return passed

    @property
    def is_passed(self) -> bool:
        """Whether the run came to its end, and every level is passed but for those left out."""
        return not self.cut_short and self._results == {"passed"}

    @property
    def is_passed_in_part(self) -> bool:
        """Whether nothing is wrong, and of some level less than 60 % was tried."""
        return not self.cut_short and self._results - {"passed"} == {IN_PART}

    @property
    def _results(self) -> set[str]:
        return {summary.result for summary in self.levels} - {"nothing offered"}

    @property
    def sample(self) -> str:
        """How much was tried, in words; empty if that is all."""
        untried = sum(one.outcome is Outcome.UNTRIED for one in self.findings)
        if not untried:
            return ""
        count = len(self.findings)
        return f"{count - untried} of {count} cases, seed {self.seed}; --all for the rest"

    @property
    def headline(self) -> str:
        """The result in one line."""
        share = "no nodes were offered"
        if self.offered:
            percent = 100 * self.right / self.offered
            share = f"claimed and right: {self.right} of {self.offered} offered ({percent:.1f} %)"
            share += "; it claims nothing, which scores nothing" if not self._claims else ""
        passed = self.level_passed
        verdict = "not passed" if passed is None else f"level {passed} passed"
        parts = [f"level {one.level} {one.text}" for one in self.levels if one.result == IN_PART]
        remarks = [f"cut short: {self.cut_short}"] if self.cut_short else []
        remarks += [f"a sample of {self.sample}"] if self.sample else []
        partly = sum(one.outcome is Outcome.RIGHT and bool(one.detail) for one in self.findings)
        remarks += [f"cases of which a part was tried: {partly}"] if partly else []
        return "; ".join([f"{self.backend}: {verdict}", *parts, share, *remarks])

    @property
    def _claims(self) -> bool:
        return any(finding.is_offer and finding.is_claimed for finding in self.findings)

    @property
    def skips(self) -> Mapping[str, int]:
        """How many cases were skipped, by reason, the commonest first."""
        reasons = Counter(one.detail for one in self.findings if one.outcome is Outcome.SKIP)
        return dict(reasons.most_common())

    def to_dict(self) -> dict[str, Any]:
        """Return everything, JSON-able."""
        plain = ("level_passed", "cut_short", "sample", "seed", "offered", "right")
        return {
            "schema": SCHEMA,
            "version": __version__,
            "backend": self.backend,
            "headline": self.headline,
            **{name: getattr(self, name) for name in plain},
            "passed": self.is_passed,
            "wrong": len(self.wrong),
            "levels": [one.to_dict() for one in self.levels],
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def level_rows(self) -> list[list[str]]:
        """Return a row of text per level, in the columns of ``LEVEL_COLUMNS``."""
        plain = [Outcome(word) for word in LEVEL_COLUMNS[1:-3]]
        rows = []
        for one in self.levels:
            counts = [*(one.counts.get(outcome, 0) for outcome in plain), one.wrong]
            ends = f"{one.seconds:.1f}", one.text
            rows.append([f"{one.level} {one.name}", *map(str, counts), *ends])
        return rows
