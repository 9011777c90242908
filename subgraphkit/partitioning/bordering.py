"""What may cross the edge of a property's regions, and which nodes may be copied into them.

A value that a backend cannot take or hand out at its edge (an int64 tensor, say) is no trouble
inside a region. So whether a node can be taken depends on what is taken beside it: the answer is
a greatest fixpoint: nodes with a forbidden value at the edge are dropped, which makes new edges,
until nothing changes.

Source: TF-TRT segmenter, input and output candidate functions.
"""

from collections.abc import Callable, Iterable, Sequence

from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.ir import Node
from subgraphkit.partitioning.asking import Inquiry
from subgraphkit.partitioning.refusing import RefusalColumn
from subgraphkit.partitioning.workspace import View, Workspace

__all__ = ["Borders", "refuse_unit"]

# Two runs of one of these differ, so a copy would change results.
_RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip

_Question = Callable[[Node, str], object]


def refuse_unit(
    workspace: Workspace, ranks: Sequence[int], at: int, reason: Refusal, refusals: RefusalColumn
) -> None:
    """Refuse one node for a reason and the rest of its atomic group with it."""
    node = Node(workspace.graph, workspace.order[at])
    for rank in ranks:
        if rank == at:
            refusals.refuse(node.id, reason)
        else:
            refusals.refuse(workspace.order[rank], _with_group(node, reason))


def _with_group(node: Node, reason: Refusal) -> Refusal:
    return Refusal("group", f"stays together with {node.label}, which was refused ({reason})")


class Borders:
    """One property's view of edges: asks ``accept_input``, ``accept_output`` and ``duplicable``.

    Attributes:
        active: Whether the property has anything to say at all.

    Args:
        inquiry: The property asked.
        workspace: The work table.
        selector: Any selector of the property; asked about nodes to be copied.
        barred: By rank, 1 for nodes that constraints keep from the backend.
    """

    def __init__(
        self,
        inquiry: Inquiry,
        workspace: Workspace,
        selector: SubgraphSelector,
        barred: bytearray,
    ) -> None:
        property_ = inquiry.claim.property
        self._inquiry = inquiry
        self._workspace = workspace
        self._selector = selector
        self._barred = barred
        self._inputs = _overrides(property_, "accept_input")
        self._outputs = _overrides(property_, "accept_output")
        self._duplicates = _overrides(property_, "duplicable")
        self._copies = self._duplicates or any(workspace.foreign)
        self._answers: dict[tuple[str, int, str], Refusal | None] = {}
        self._copyable: dict[int, bool] = {}

    @property
    def active(self) -> bool:
        """Whether some values may not cross."""
        return self._inputs or self._outputs or bool(self._workspace.unavailable)

    def peel(self, view: View, eligible: bytearray, refusals: RefusalColumn) -> None:
        """Drop every unit that has a forbidden value at an edge to what is not eligible."""
        unit_of, workspace = view.unit_of, self._workspace
        ranks = [r for r in range(workspace.count) if eligible[unit_of[r]]]

        def taken(rank: int) -> bool:
            return bool(eligible[unit_of[rank]])

        while ranks:
            rank = ranks.pop()
            if not taken(rank):
                continue
            refusal = self._violation(rank, taken, taken)
            if refusal is not None:
                unit = unit_of[rank]
                eligible[unit] = 0
                members = view.ranks_of(unit)
                refuse_unit(workspace, members, rank, refusal, refusals)
                ranks += self._neighbours(members)

    def forbidden(self, regions: Iterable[Sequence[int]]) -> list[tuple[int, int, Refusal]]:
        """Return region, rank and reason for every node with a forbidden value at an edge.

        Args:
            regions: For each region its ranks.
        """
        listed = list(regions)
        region_of = {rank: index for index, ranks in enumerate(listed) for rank in ranks}
        found = []
        for rank, index in region_of.items():

            def inside(other: int, index: int = index) -> bool:
                return region_of.get(other) == index

            def served(other: int, rank: int = rank, index: int = index) -> bool:
                reader = region_of.get(other)
                return reader == index or (reader is not None and self.is_copyable(rank))

            refusal = self._violation(rank, inside, served)
            if refusal is not None:
                found.append((index, rank, refusal))
        return found

    def copies_for(self, ranks: Sequence[int]) -> frozenset[int]:
        """Return the ranks to copy into a region: copyable producers of its inputs, and theirs."""
        if not self._copies:
            return frozenset()
        inside = frozenset(ranks)
        copies: set[int] = set()
        reading = list(ranks)
        while reading:
            for _, producer in self._dynamic_inputs(reading.pop()):
                if producer is None or producer in inside or producer in copies:
                    continue
                if self.is_copyable(producer):
                    copies.add(producer)
                    reading.append(producer)
        return frozenset(copies)

    def is_copyable(self, rank: int) -> bool:
        """Say whether a node may be copied into regions, with what it needs."""
        if not self._copies:
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
                for _, producer in self._dynamic_inputs(current)
                if producer is not None and producer not in self._copyable
            ]
            pending += unknown
            if not unknown:
                self._copyable[current] = self._can_feed(current)
        return self._copyable[rank]

    def _is_cheap(self, rank: int) -> bool:
        workspace, inquiry = self._workspace, self._inquiry
        node = Node(workspace.graph, workspace.order[rank])
        if self._barred[rank] or rank in workspace.in_atoms:
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
        node = Node(self._workspace.graph, self._workspace.order[rank])
        return all(
            (producer is not None and self._copyable[producer])
            or self._ask_input(node, value) is None
            for value, producer in self._dynamic_inputs(rank)
        )

    def _violation(
        self, rank: int, inside: Callable[[int], bool], served: Callable[[int], bool]
    ) -> Refusal | None:
        node = Node(self._workspace.graph, self._workspace.order[rank])
        for value, producer in self._dynamic_inputs(rank) if self._looks_at_inputs() else ():
            if producer is not None and (inside(producer) or self.is_copyable(producer)):
                continue
            refusal = self._ask_input(node, value)
            if refusal is not None:
                return refusal
        for value in node.outputs if self._outputs else ():
            if value and self._leaves(node, value, served):
                refusal = self._ask_output(node, value)
                if refusal is not None:
                    return refusal
        return None

    def _looks_at_inputs(self) -> bool:
        return self._inputs or bool(self._workspace.unavailable)

    def _leaves(self, node: Node, value: str, served: Callable[[int], bool]) -> bool:
        workspace = self._workspace
        if workspace.graph.is_output(value):
            return True
        return any(
            (workspace.rank_of[reader] < 0 or not served(workspace.rank_of[reader]))
            and value in workspace.read_by(reader)
            for reader in workspace.graph.adjacency.successors(node.id)
        )

    def _dynamic_inputs(self, rank: int) -> list[tuple[str, int | None]]:
        """Return the values a node reads that are not constant, with the ranks that make them."""
        workspace = self._workspace
        constants = workspace.graph.constants
        return [
            (value, workspace.producer(value))
            for value in workspace.read_by(workspace.order[rank])
            if value and value not in constants
        ]

    def _neighbours(self, ranks: Iterable[int]) -> list[int]:
        adjacency = self._workspace.adjacency
        found: list[int] = []
        for rank in ranks:
            found += adjacency.predecessors(rank)
            found += adjacency.successors(rank)
        return found

    def _ask_input(self, node: Node, value: str) -> Refusal | None:
        if value in self._workspace.unavailable:
            return Refusal(
                "border", f"value {value!r} would have to be computed here and cannot be"
            )
        if not self._inputs:
            return None
        return self._ask("accept_input", self._inquiry.claim.property.accept_input, node, value)

    def _ask_output(self, node: Node, value: str) -> Refusal | None:
        return self._ask("accept_output", self._inquiry.claim.property.accept_output, node, value)

    def _ask(self, question: str, ask: _Question, node: Node, value: str) -> Refusal | None:
        key = (question, node.id, value)
        if key not in self._answers:
            refusal = self._inquiry.ask(question, node, lambda: ask(node, value), "SGK122")
            if refusal is not None and refusal.code == "declined":
                verb = "enter" if question == "accept_input" else "leave"
                type_ = self._workspace.graph.types.get(value)
                text = f"value {value!r} ({type_}) may not {verb} a subgraph of the backend here"
                refusal = Refusal("border", text)
            self._answers[key] = refusal
        return self._answers[key]


def _overrides(property_: SubgraphProperty, name: str) -> bool:
    """Say whether a property answers a question itself, in its class or on the instance."""
    own = getattr(type(property_), name) is not getattr(SubgraphProperty, name)
    return own or name in vars(property_)
