"""The reasons for the place of a node: every backend asked, in order, with its answer."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import Node
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.texts import printable

__all__ = ["AskedProperty", "Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class AskedProperty:
    """The answer of one property for one node.

    Attributes:
        backend: Name of the backend.
        property: Name of its property.
        verdict: ``"refused"``, ``"claimed"``, ``"copied"`` (it runs a copy; the node is at home
            elsewhere) or ``"not asked"`` (the node was claimed before its turn came).
        refusal: The reason, where it refused.
    """

    backend: str
    property: str
    verdict: Literal["refused", "claimed", "copied", "not asked"]
    refusal: Refusal | None = None

    def __str__(self) -> str:
        """Render as ``tensorrt (main): refused, dtype: ...``."""
        reason = f", {self.refusal}" if self.refusal is not None else ""
        return f"{self.backend} ({self.property}): {self.verdict}{reason}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The subgraph of a node, and the answers that put it there.

    Attributes:
        node: Index of the node.
        label: How messages name it.
        subgraph: The subgraph it is at home in; empty if it was left out at bind.
        copies: Subgraphs that run a copy of it.
        is_constant: Whether it only states a constant; such a node travels with its first reader
            and nobody is asked about it. So is one that was left out.
        asked: Every property in the order of its turn.
        left_out: What became of it, if it was left out at bind, such as ``computed at bind``.
    """

    node: int
    label: str
    subgraph: str
    copies: tuple[str, ...]
    is_constant: bool
    asked: tuple[AskedProperty, ...]
    left_out: str = ""

    def __str__(self) -> str:
        """Render for people; what several properties of a backend refuse alike is one line."""
        if self.left_out:
            return f"{printable(self.label)}: in no subgraph\n  left out: {self.left_out}"
        lines = [f"{self.label}: in subgraph {self.subgraph}"]
        if self.is_constant:
            lines.append("  constant: travels with its first reader, nobody is asked about it")
        lines += [f"  {asked}" for asked in self._merged()]
        lines += [f"  copied into {name}" for name in self.copies]
        return "\n".join(map(printable, lines))

    def _merged(self) -> Iterable[AskedProperty]:
        """Return what was said, properties that refused for the same reason under one name."""
        lines: dict[object, AskedProperty] = {}
        for place, asked in enumerate(self.asked):
            said = (asked.backend, asked.refusal) if asked.verdict == "refused" else place
            if said in lines:
                names = f"{lines[said].property}, {asked.property}"
                asked = replace(asked, property=names)  # noqa: PLW2901 (what is shown of it)
            lines[said] = asked
        return lines.values()


def explain(partitioning: PartitioningData, node: int) -> Explanation:
    """Tell where a node is at home, which properties were asked about it, and what each said.

    Args:
        partitioning: The partitioning.
        node: Index of the node.

    Raises:
        ConfigError: The model has no such node (SGK123).
    """
    if left_out := partitioning.graph.left_out.get(node):
        label = partitioning.graph.nodes[node].label
        return Explanation(node, label, "", (), is_constant=True, asked=(), left_out=left_out)
    partitioning.check_node(node)
    view = partitioning.graph.nodes[node]
    home = partitioning.home_of(view.id)
    is_constant = partitioning.graph.is_constant_node(view.id)
    copying = partitioning.copied_into(view.id)
    asked = () if is_constant else _asked(partitioning, view, [one.id for one in copying])
    return Explanation(
        view.id, view.label, home.id, tuple(one.id for one in copying), is_constant, asked
    )


def _asked(
    partitioning: PartitioningData, node: Node, copying: list[str]
) -> tuple[AskedProperty, ...]:
    turns = partitioning.turns
    claimed = partitioning.claimed_by[partitioning.place_of(partitioning.home_of(node.id).id)]
    copied = {partitioning.claimed_by[partitioning.place_of(name)] for name in copying}
    found = []
    for index, (claim, column) in enumerate(zip(turns.claims, turns.columns, strict=True)):
        refusal = column.of(node.id) if column is not None else None
        verdict: Literal["refused", "claimed", "copied", "not asked"] = "not asked"
        if index == claimed:
            verdict, refusal = "claimed", None
        elif index in copied:
            verdict, refusal = "copied", None
        elif refusal is not None:
            verdict = "refused"
        found.append(AskedProperty(claim.backend.name, claim.property_name, verdict, refusal))
    return tuple(found)
