"""Which cheap nodes a property's regions may run besides their own, so that values need not cross.

A node may be copied if the property says so, its selector takes the node, and everything it needs
may be had: each of its inputs either comes from a node that may be copied along, or may enter the
region and may leave wherever it is made. That last holds for regions claimed before as well: what
was inside one of them stays inside unless its own property agrees.
"""

from collections.abc import Collection, Iterator, Sequence

from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.ir import Node
from subgraphkit.partitioning.claiming.claimants import Claim
from subgraphkit.partitioning.claiming.questioning import BorderQuestions, overrides
from subgraphkit.partitioning.claiming.questions import Inquiry
from subgraphkit.partitioning.claiming.work_table import Region, Workspace

__all__ = ["Copying", "most_copies"]

# Two runs of one of these differ, so a copy would change results.
_RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip

# A chain of n cheap nodes, each read by a region of its own, would be copied n * n / 2 times.
_COPIES_PER_NODE = 2
_COPIES_AT_LEAST = 1_000


def most_copies(node_count: int) -> int:
    """Return how many copies one pass makes at most: 1000 and two for every node of the model.

    The regions are served in their order. The first for which they do not last gets as many as are
    left, all after it get none. A region that cannot do without more is refused.
    """
    return _COPIES_AT_LEAST + _COPIES_PER_NODE * node_count


class Copying:
    """Decides which nodes may be copied into the regions of one property.

    Args:
        inquiry: The property asked.
        workspace: The work table.
        selector: Any selector of the property; asked about nodes to be copied.
        barred: By rank, 1 for nodes that are kept from the backend.
        together: Ranks of groups that stay together, so that none of them runs a second time alone.
        takes: By rank, 1 for what the property may take.
        claims: All properties in order.
        questions: What this one says of values at edges.
    """

    def __init__(  # noqa: PLR0913 (all that a decision depends on)
        self,
        inquiry: Inquiry,
        workspace: Workspace,
        selector: SubgraphSelector,
        *,
        barred: bytearray,
        together: Collection[int],
        takes: bytearray,
        claims: Sequence[Claim],
        questions: BorderQuestions,
    ) -> None:
        self._inquiry = inquiry
        self._workspace = workspace
        self._selector = selector
        self._barred = barred
        self._together = frozenset(together)
        self._takes = takes
        self._claims = claims
        self._questions = questions
        self._duplicates = overrides(inquiry.claim.property, "duplicable")
        self._copyable: dict[int, bool] = {}
        self.active = self._duplicates or any(workspace.foreign)
        """Whether anything may be copied at all."""

    def is_copyable(self, rank: int) -> bool:
        """Say whether a node may be copied into regions, with what it needs."""
        if not self.active:
            return False
        pending = [rank]
        while pending:
            current = pending[-1]
            if current in self._copyable:
                pending.pop()
                continue
            if not self._is_cheap(current):
                self._copyable[current] = False
                continue
            unknown = [
                producer
                for _, producer in self._workspace.dynamic_inputs(current)
                if producer is not None and producer not in self._copyable
            ]
            pending += unknown
            if not unknown:
                self._copyable[current] = self._can_feed(current)
        return self._copyable[rank]

    def all_copies(self, ranks: Sequence[int], room: int) -> frozenset[int] | None:
        """Return what to copy into a region: copyable producers of its inputs, and theirs.

        Args:
            ranks: The region.
            room: Most copies to make.

        Returns:
            The ranks, or None if they are more than there is room for.
        """
        copies: set[int] = set()
        inside = frozenset(ranks)
        wished = self._producers(ranks, inside)
        if not all(self._add(copies, producer, inside, room) for producer in wished):
            return None
        return frozenset(copies)

    def fitting_copies(self, ranks: Sequence[int], room: int) -> frozenset[int] | None:
        """Return those copies that a region cannot do without, and others as far as there is room.

        A region cannot do without a copy where the value may not cross, here or where it is made.

        Args:
            ranks: The region.
            room: Most copies to make.

        Returns:
            The ranks, or None if not even those fit that it cannot do without.
        """
        copies: set[int] = set()
        inside = frozenset(ranks)
        wished = self._producers(ranks, inside)
        required = self._required(ranks, wished)
        if not all(self._add(copies, producer, inside, room) for producer in required):
            return None
        for producer in wished:
            if not self._add(copies, producer, inside, room):
                break
        return frozenset(copies)

    def may_enter(self, node: Node, value: str) -> Refusal | None:
        """Say why a value may not enter a region at a node; None if it may."""
        if value in self._workspace.unavailable:
            return Refusal(
                "border", f"value {value!r} would have to be computed here and cannot be"
            )
        return self._questions.may_enter(node, value)

    def _producers(self, ranks: Sequence[int], inside: frozenset[int]) -> dict[int, None]:
        """List the copyable nodes outside that a region reads from, each once, as they are read."""
        return dict.fromkeys(
            producer
            for rank in (ranks if self.active else ())
            for _, producer in self._workspace.dynamic_inputs(rank)
            if producer is not None and producer not in inside and self.is_copyable(producer)
        )

    def _required(self, ranks: Sequence[int], producers: Collection[int]) -> Iterator[int]:
        """Go through the producers of values that may not cross."""
        workspace = self._workspace
        for rank in ranks:
            node = workspace.node(rank)
            for value, producer in workspace.dynamic_inputs(rank):
                if producer is None or producer not in producers:
                    continue
                if self.may_enter(node, value) is not None or (
                    self._takes[producer]
                    and self._questions.may_leave(workspace.node(producer), value) is not None
                ):
                    yield producer

    def _add(self, copies: set[int], producer: int, inside: frozenset[int], room: int) -> bool:
        """Add a node and all it needs to copies, if there is room; say whether there was."""
        added: set[int] = set()
        pending = [producer]
        while pending:
            current = pending.pop()
            if current in copies or current in added:
                continue
            if len(copies) + len(added) >= room:
                return False
            added.add(current)
            pending += [
                source
                for _, source in self._workspace.dynamic_inputs(current)
                if source is not None and source not in inside and self.is_copyable(source)
            ]
        copies |= added
        return True

    def _is_cheap(self, rank: int) -> bool:
        workspace, inquiry = self._workspace, self._inquiry
        node = workspace.node(rank)
        if self._barred[rank] or rank in self._together:
            return False
        if node.bodies or node.op_type in _RANDOM:
            return False
        # A foreign node was copied before, so it is known to be cheap.
        if not workspace.foreign[rank] and not self._is_duplicable(node):
            return False
        selector = self._selector if self._selector.stateless else inquiry.new_selector()
        return inquiry.ask("select", node, lambda: selector.select(node), "SGK121") is None

    def _is_duplicable(self, node: Node) -> bool:
        ask, inquiry = self._inquiry.claim.property.duplicable, self._inquiry
        return (
            self._duplicates
            and inquiry.ask("duplicable", node, lambda: ask(node), "SGK122") is None
        )

    def _can_feed(self, rank: int) -> bool:
        node = self._workspace.node(rank)
        return all(
            (producer is not None and self._copyable[producer])
            or (self.may_enter(node, value) is None and self._may_be_had(value, producer))
            for value, producer in self._workspace.dynamic_inputs(rank)
        )

    def _may_be_had(self, value: str, producer: int | None) -> bool:
        """Say whether a value may leave the region that makes it, or is to make it."""
        workspace = self._workspace
        if producer is None or workspace.foreign[producer]:
            return True
        if workspace.graph.is_output(value) or value in workspace.wanted:
            return True
        node = workspace.node(producer)
        if workspace.free[producer]:
            # Where nobody has it yet, whoever takes it later is asked then.
            return not self._takes[producer] or self._questions.may_leave(node, value) is None
        owner = workspace.region_of(producer)
        if owner is None or self._leaves(owner, producer, value):
            return True
        inquiry = Inquiry(self._claims[owner.claimant], workspace.graph)
        return BorderQuestions(inquiry, owner.claimant, workspace).may_leave(node, value) is None

    def _leaves(self, owner: Region, producer: int, value: str) -> bool:
        """Say whether somebody outside a region reads a value of it without a copy of its own."""
        workspace = self._workspace
        for node in workspace.graph.adjacency.successors(workspace.order[producer]):
            rank = workspace.rank_of[node]
            reader = workspace.region_of(rank) if rank >= 0 else None
            if reader is owner or (reader is not None and producer in reader.copies):
                continue
            if value in workspace.read_by(node):
                return True
        return False
