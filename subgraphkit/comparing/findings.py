"""Findings of a comparison: of each subgraph and of the whole, as data and as a page."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from subgraphkit.backend.differences import Difference
from subgraphkit.viewing import Arrow, Box, Drawing, Paged, Section, Table, Text

Outcome = Literal["agrees", "differs", "means nothing"]
"""The outcome of a comparison."""


@dataclass(frozen=True, slots=True)
class SubgraphFinding:
    """The results of one subgraph on the reference's values.

    Attributes:
        subgraph: Its identifier.
        backend: Name of its backend.
        nodes: How many nodes it has.
        first: Label of its first node.
        last: Label of its last node.
        differences: One finding per tensor it hands out.
        error: What it failed with, as text; empty if it did not.
        reads: The values that it is fed.
        makes: The values that it hands out.
    """

    subgraph: str
    backend: str
    nodes: int
    first: str
    last: str
    differences: tuple[Difference, ...]
    error: str = ""
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether the subgraph is right."""
        return not self.error and all(one.agrees for one in self.differences)


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Paged):
    """The comparison of a backend with a reference on one model and one set of inputs.

    Attributes:
        model: What the model is called.
        backend: The selection under test.
        reference: The selection that is believed.
        nodes: By backend that took part in the test, how many nodes are at home there.
        idle: Those of the backends selected that took no node, so that nothing was learned of them.
        outputs: One finding per tensor among the outputs; empty if the run failed.
        subgraphs: One finding per subgraph, in their order; None if they were not asked for.
        error: What the run failed with, as text; empty if it did not.
    """

    model: str
    backend: str
    reference: str
    nodes: Mapping[str, int]
    idle: tuple[str, ...]
    outputs: tuple[Difference, ...]
    subgraphs: tuple[SubgraphFinding, ...] | None = None
    error: str = ""

    @property
    def outcome(self) -> Outcome:
        """The outcome: something differs or failed, or all agrees, or it means nothing.

        It means nothing if no compared value could have shown a fault. These are the outputs and,
        if compared, the results of subgraphs.
        """
        if self.error or any(self.at_fault) or not all(one.agrees for one in self.outputs):
            return "differs"
        inner = (found for one in self.subgraphs or () for found in one.differences)
        if self.outputs and all(one.nothing for one in (*self.outputs, *inner)):
            return "means nothing"
        return "agrees"

    @property
    def agrees(self) -> bool:
        """Whether nothing differs beyond the tolerances or failed, and this means something."""
        return self.outcome == "agrees"

    @property
    def at_fault(self) -> tuple[SubgraphFinding, ...]:
        """The subgraphs that are wrong on right inputs; empty if they were not asked for."""
        return tuple(one for one in self.subgraphs or () if not one.agrees)

    @property
    def conclusion(self) -> str:
        """The outcome, in a sentence."""
        if self.outcome == "means nothing":
            return "Nothing was verified: that these outputs agree means nothing."
        if self.outcome == "agrees":
            return "All agree."
        if self.subgraphs is None:
            return "They do not agree. --per-subgraph, or per_subgraph=True, finds the subgraph"
        if not self.at_fault:
            return (
                "They do not agree, though every subgraph is right on the reference's values: "
                "small differences add up, or the model turns them into large ones."
            )
        named = ", ".join(map(_name_with_nodes, self.at_fault[:_NAMED]))
        more = len(self.at_fault) - _NAMED
        return f"At fault, on right inputs: {named}" + (f" and {more} more" if more > 0 else "")

    def sections(self) -> Iterator[Section]:
        """Go through the sections of a page.

        They are the outcome and the outputs with signal and error. With subgraphs, their graph with
        those at fault follows, and the results of each.
        """
        mark = "\N{CHECK MARK}" if self.agrees else "\N{BALLOT X}"
        yield Text(f"{mark} {self.conclusion}", passed=self.agrees)
        shares = ", ".join(f"{name} {count:,}" for name, count in self.nodes.items())
        facts = [
            ("under test", self.backend),
            ("reference", self.reference),
            ("nodes", shares),
            ("took no node", ", ".join(self.idle)),
            ("the run failed", self.error),
        ]
        yield Table(("what", "value"), [one for one in facts if one[1]])
        if self.outputs:
            what = (
                "RMS and range describe the reference. 'nothing' means that a constant output "
                "would also pass."
            )
            yield Table(_COLUMNS, [*map(_row, self.outputs)], "Outputs", what, give=_GIVE)
        if self.subgraphs:
            yield _drawing(self.subgraphs)
            parts = [
                (one.subgraph, one.nodes, *row)
                for one in sorted(self.subgraphs, key=lambda one: one.agrees)
                for row in _rows(one)
            ]
            what = "Each subgraph gets the reference's values. Those at fault come first."
            yield Table(("subgraph", "nodes", *_COLUMNS), parts, _TITLE, what, give=_GIVE)

    def page_title(self) -> str:
        """Return which backend is compared with which reference."""
        return f"{self.model}: {self.backend} against {self.reference}"

    def __repr__(self) -> str:
        """Render as ``Verification('m.onnx', tvm against numpy: All agree.)``."""
        return (
            f"Verification({self.model!r}, {self.backend} against {self.reference}: "
            f"{self.conclusion})"
        )


_NAMED = 3
_TITLE = "Subgraphs on right inputs"
_COLUMNS = (
    *("output", "result", "type", "wrong", "max abs", "max rel", "cosine", "RMS", "range", "worst"),
)
_GIVE = ("worst", "output", "type", "range")


def _name_with_nodes(one: SubgraphFinding) -> str:
    if one.nodes == 1:
        return f"{one.subgraph} ({one.first})"
    return f"{one.subgraph} ({one.nodes} nodes, {one.first} .. {one.last})"


def _rows(one: SubgraphFinding) -> list[tuple[str | int | float | None, ...]]:
    nothing = [None] * (len(_COLUMNS) - 3)
    failed = [("", "FAIL", *nothing, one.error.splitlines()[0])] if one.error else []
    return [*failed, *map(_row, one.differences)]


def _row(one: Difference) -> tuple[str | int | float | None, ...]:
    figures = (one.wrong, one.max_abs, one.max_rel, one.cosine, one.rms)
    if one.problem:
        shown: list[float | None] = [None] * len(figures)
    else:  # text has none of those that are not a number
        shown = [None if math.isnan(figure) else figure for figure in figures]
    span = "" if one.problem or math.isnan(one.low) else f"{one.low:.4g} to {one.high:.4g}"
    return one.name, one.result, one.type, *shown, span, one.remark


def _drawing(subgraphs: Sequence[SubgraphFinding]) -> Drawing:
    """Draw the subgraphs, with marks on those at fault and on those with wrong inputs."""
    makers = {name: at for at, one in enumerate(subgraphs) for name in one.makes}
    sources = [dict.fromkeys(makers[n] for n in one.reads if n in makers) for one in subgraphs]
    spoilt: set[int] = set()
    boxes = []
    for at, one in enumerate(subgraphs):
        inherits = not spoilt.isdisjoint(sources[at])
        if inherits or not one.agrees:
            spoilt.add(at)
        note = "at fault" if not one.agrees else "right, but fed wrong values" if inherits else ""
        group = "matches the reference" if one.agrees else "at fault"
        facts = [("backend", one.backend), ("from", one.first), ("to", one.last)]
        size, marked = float(one.nodes), not one.agrees
        boxes.append(Box(one.subgraph, group, size, note, facts, marked=marked))
    sizes = {found.name: found.nbytes for one in subgraphs for found in one.differences}
    arrows = [
        Arrow(source, at, sum(sizes.get(n, 0) for n in one.reads if makers.get(n) == source))
        for at, one in enumerate(subgraphs)
        for source in sources[at]
    ]
    what = "A box is a subgraph, and its area is its number of nodes. "
    at_fault = "It is at fault if it differs on reference inputs, not if it inherits an error."
    is_right = all(one.agrees for one in subgraphs)
    right = "Every subgraph matches when fed reference inputs."
    return Drawing(
        boxes,
        arrows,
        title="Subgraph by subgraph" if is_right else "Where it goes wrong",
        caption=what + (right if is_right else at_fault),
        colours={"matches the reference": "#bbbbbb", "at fault": "#e8825a"},
        opens=_TITLE,
    )
