"""What may cross the edge of a property's regions.

A value that a backend cannot take or hand out at its edge (an int64 tensor, say) is no trouble
inside a region. So whether a node can be taken depends on what is taken beside it: the answer is
a greatest fixpoint: nodes with a forbidden value at the edge are dropped, which makes new edges,
until nothing changes. Every edge of the graph is looked at once when it is there and once more when
one of its ends is dropped, so the whole is linear.

Source: TF-TRT segmenter, input and output candidate functions.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import Node
from subgraphkit.partitioning.claiming.copies import Copying
from subgraphkit.partitioning.claiming.questioning import BorderQuestions
from subgraphkit.partitioning.claiming.refusals import RefusalColumn
from subgraphkit.partitioning.claiming.work_table import View, Workspace

__all__ = ["Borders", "refuse_unit"]


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
    """One property's view of edges.

    Attributes:
        copying: Which nodes may be copied into regions.

    Args:
        workspace: The work table.
        questions: The property's answers about values.
        copying: Which nodes may be copied into its regions.
    """

    def __init__(self, workspace: Workspace, questions: BorderQuestions, copying: Copying) -> None:
        self.copying = copying
        self._workspace = workspace
        self._questions = questions

    @property
    def active(self) -> bool:
        """Whether some values may not cross."""
        return self._questions.outputs or self._looks_at_inputs

    @property
    def _looks_at_inputs(self) -> bool:
        return self._questions.inputs or bool(self._workspace.unavailable)

    def peel(self, view: View, eligible: bytearray, refusals: RefusalColumn) -> None:
        """Drop every unit that has a forbidden value at an edge to what is not eligible."""
        unit_of, workspace = view.unit_of, self._workspace
        peeling = _Peeling(view.by_rank(eligible), set())
        ranks = range(workspace.count)
        for rank in ranks if self._questions.outputs else ():
            if not peeling.taken[rank]:
                peeling.leaving.update(value for value, _ in workspace.dynamic_inputs(rank))
        waiting: list[tuple[int, str | None]] = [(r, None) for r in ranks if peeling.taken[r]]
        while waiting:
            rank, value = waiting.pop()
            refusal = self._refusal_at(rank, value, peeling) if peeling.taken[rank] else None
            if refusal is None:
                continue
            members = view.ranks_of(unit_of[rank])
            eligible[unit_of[rank]] = 0
            refuse_unit(workspace, members, rank, refusal, refusals)
            for member in members:
                peeling.taken[member] = 0
            for member in members:
                waiting += self._edges_made(member, peeling)

    def forbidden(
        self, regions: Iterable[Sequence[int]], *, copies_serve: bool = True
    ) -> list[tuple[int, int, Refusal]]:
        """Return region, rank and reason for every node with a forbidden value at an edge.

        Args:
            regions: For each region its ranks.
            copies_serve: Whether a reader in another of the regions is served by a copy of the
                node, if the node may be copied. Without that, what is found is right whatever
                becomes of the other regions.
        """
        listed = list(regions)
        region_of = {rank: index for index, ranks in enumerate(listed) for rank in ranks}
        leaving = self._leaving(region_of, copies_serve=copies_serve)
        found = []
        for rank, index in region_of.items():
            refusal = self._refusal_in(rank, index, region_of)
            if refusal is None:
                refusal = self._refused_output(rank, leaving)
            if refusal is not None:
                found.append((index, rank, refusal))
        return found

    def _edges_made(self, rank: int, peeling: "_Peeling") -> list[tuple[int, str | None]]:
        """Return the ends of the edges that dropping a node made, with what crosses there."""
        made: list[tuple[int, str | None]] = []
        for value, producer in (
            self._workspace.dynamic_inputs(rank) if self._questions.outputs else ()
        ):
            if producer is not None and value not in peeling.leaving:
                peeling.leaving.add(value)
                made.append((producer, value))
        if self._looks_at_inputs:
            made += self._readers.get(rank, ())
        return made

    @cached_property
    def _readers(self) -> dict[int, list[tuple[int, str]]]:
        """By rank, who reads which value of it."""
        readers: dict[int, list[tuple[int, str]]] = {}
        for rank in range(self._workspace.count):
            for value, producer in self._workspace.dynamic_inputs(rank):
                if producer is not None:
                    readers.setdefault(producer, []).append((rank, value))
        return readers

    def _refusal_at(self, rank: int, value: str | None, peeling: "_Peeling") -> Refusal | None:
        """Look at one value that a taken node reads or makes, or at all of them."""
        if value is not None:
            if self._workspace.producer(value) == rank:
                return self._questions.may_leave(self._workspace.node(rank), value)
            return self._refused_input(rank, value)
        for read, producer in self._workspace.dynamic_inputs(rank) if self._looks_at_inputs else ():
            if producer is None or not peeling.taken[producer]:
                refusal = self._refused_input(rank, read)
                if refusal is not None:
                    return refusal
        return self._refused_output(rank, peeling.leaving)

    def _refusal_in(self, rank: int, index: int, region_of: dict[int, int]) -> Refusal | None:
        for value, producer in (
            self._workspace.dynamic_inputs(rank) if self._looks_at_inputs else ()
        ):
            if producer is None or region_of.get(producer) != index:
                refusal = self._refused_input(rank, value)
                if refusal is not None:
                    return refusal
        return None

    def _refused_input(self, rank: int, value: str) -> Refusal | None:
        """Say why a value from outside may not be read; None if it may, or can be made inside."""
        producer = self._workspace.producer(value)
        if producer is not None and self.copying.is_copyable(producer):
            return None
        return self.copying.may_enter(self._workspace.node(rank), value)

    def _refused_output(self, rank: int, leaving: set[str]) -> Refusal | None:
        if not self._questions.outputs:
            return None
        workspace = self._workspace
        node = workspace.node(rank)
        for value in node.outputs:
            if value and (
                value in leaving or value in workspace.wanted or workspace.graph.is_output(value)
            ):
                refusal = self._questions.may_leave(node, value)
                if refusal is not None:
                    return refusal
        return None

    def _leaving(self, region_of: dict[int, int], *, copies_serve: bool) -> set[str]:
        """Return the values that are read outside the region that makes them."""
        leaving: set[str] = set()
        for rank in range(self._workspace.count) if self._questions.outputs else ():
            reader = region_of.get(rank)
            for value, producer in self._workspace.dynamic_inputs(rank):
                if producer is None or region_of.get(producer, reader) == reader:
                    continue
                served = copies_serve and reader is not None and self.copying.is_copyable(producer)
                if not served:
                    leaving.add(value)
        return leaving


class _Peeling:
    """What is still taken while units are dropped.

    Attributes:
        taken: By rank, 1 for nodes that are.
        leaving: Values that somebody reads who is not.
    """

    __slots__ = ("leaving", "taken")

    def __init__(self, taken: bytearray, leaving: set[str]) -> None:
        self.taken = taken
        self.leaving = leaving
