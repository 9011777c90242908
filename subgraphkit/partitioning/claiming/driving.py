"""Driving a stateful selector: from units and integers to nodes and answers."""

from collections import deque
from collections.abc import Sequence
from functools import cached_property

from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.ir import Node
from subgraphkit.partitioning.claiming.borders import refuse_unit
from subgraphkit.partitioning.claiming.questions import Inquiry
from subgraphkit.partitioning.claiming.refusals import RefusalColumn
from subgraphkit.partitioning.claiming.work_table import View, Workspace

__all__ = ["SelectorDriver"]

# A group may be offered from every neighbour of every node in it. After it has taken this many
# questions per node to be told that some node of it is not wanted, it is offered no more.
_QUESTIONS_PER_NODE = 8


class SelectorDriver:
    """Puts the questions of the growing algorithm to selectors of one property.

    A unit of several nodes is taken only if the selector takes each of them; they are offered one
    by one along the edges between them. A selector that again and again takes the first nodes of a
    group and not the others is at last not asked about it any more, except as a seed.

    Args:
        inquiry: The property asked.
        workspace: The work table.
        view: The graph in units.
        refusals: Where to keep the reasons. What is said of a seed outweighs what is said of an
            offered node, since the seed question is about the node alone.
        selector: A selector that has not been asked anything yet, for the first seed.
    """

    def __init__(
        self,
        inquiry: Inquiry,
        workspace: Workspace,
        view: View,
        refusals: RefusalColumn,
        selector: SubgraphSelector,
    ) -> None:
        self._inquiry = inquiry
        self._workspace = workspace
        self._view = view
        self._refusals = refusals
        self._selector = selector
        self._is_fresh = True
        # By unit of several nodes, the questions that came to nothing.
        self._in_vain: dict[int, int] = {}

    @property
    def splittable(self) -> bool:
        """Whether a candidate may become several regions."""
        return self._inquiry.flag(self._selector, "splittable")

    def start(self, unit: int) -> bool:
        """Make a new selector and ask whether a region may start at the unit."""
        if not self._is_fresh:
            self._selector = self._inquiry.new_selector()
        self._is_fresh = False
        return self._seed(unit)

    def restart(self, unit: int) -> bool:
        """Make the selector forget what it has seen and ask about the seed again."""
        with self._inquiry.blame("SGK121", "reset"):
            self._selector.reset()
        return self._seed(unit)

    def offer_input(self, unit: int, producer: int) -> bool:
        """Offer a unit that feeds one taken before."""
        if self._is_hopeless(producer):
            return False
        offered, taken = self._edge(producer, unit)
        refusal = self._offer(self._node(taken), self._node(offered), is_input=True)
        return self._take(producer, offered, refusal, is_seed=False)

    def offer_output(self, unit: int, consumer: int) -> bool:
        """Offer a unit that reads from one taken before."""
        if self._is_hopeless(consumer):
            return False
        taken, offered = self._edge(unit, consumer)
        refusal = self._offer(self._node(taken), self._node(offered), is_input=False)
        return self._take(consumer, offered, refusal, is_seed=False)

    def filter(self, units: Sequence[int]) -> list[int]:
        """Show the selector all that was taken, and return what it keeps.

        Raises:
            SelectorContractError: It raised or returned something that was not a candidate
                (SGK121).
        """
        ranks = self._view.ranks(units)
        candidates = [self._node(rank) for rank in ranks]
        kept = self._inquiry.filter(self._selector, candidates)
        order = self._workspace.order
        return [unit for unit in units if all(order[r] in kept for r in self._view.ranks_of(unit))]

    def _seed(self, unit: int) -> bool:
        first = self._view.ranks_of(unit)[0]
        return self._take(unit, first, self._select(first), is_seed=True)

    def _take(self, unit: int, rank: int, refusal: Refusal | None, *, is_seed: bool) -> bool:
        """Take the rest of a unit whose first node was asked about, or refuse all of it."""
        ranks = self._view.ranks_of(unit)
        at = rank
        if refusal is None and len(ranks) > 1:
            refusal, at, asked = self._take_rest(ranks, rank)
            if refusal is not None:
                self._in_vain[unit] = self._in_vain.get(unit, 0) + asked
        if refusal is None:
            return True
        if is_seed or self._refusals.of(self._workspace.order[at]) is None:
            refuse_unit(self._workspace, ranks, at, refusal, self._refusals)
        return False

    def _is_hopeless(self, unit: int) -> bool:
        limit = _QUESTIONS_PER_NODE * len(self._view.ranks_of(unit))
        return self._in_vain.get(unit, 0) > limit

    def _take_rest(self, ranks: Sequence[int], first: int) -> tuple[Refusal | None, int, int]:
        """Offer the other nodes of a group.

        Returns:
            The first refusal, where it was met, and how many nodes were asked about.
        """
        waiting = set(ranks) - {first}
        adjacency = self._workspace.adjacency
        frontier = deque([first])
        unreached = iter(ranks)
        while waiting:
            if not frontier:
                # The group is not connected, so that no edge leads to the rest.
                rank = next(rank for rank in unreached if rank in waiting)
                refusal = self._select(rank)
                if refusal is not None:
                    return refusal, rank, len(ranks) - len(waiting)
                waiting.discard(rank)
                frontier.append(rank)
            rank = frontier.popleft()
            node = self._node(rank)
            steps = [(other, True) for other in adjacency.predecessors(rank)]
            steps += [(other, False) for other in adjacency.successors(rank)]
            for other, is_input in steps:
                if other not in waiting:
                    continue
                refusal = self._offer(node, self._node(other), is_input=is_input)
                if refusal is not None:
                    return refusal, other, len(ranks) - len(waiting)
                waiting.discard(other)
                frontier.append(other)
        return None, first, len(ranks)

    def _select(self, rank: int) -> Refusal | None:
        node, selector = self._node(rank), self._selector
        return self._inquiry.ask("select", node, lambda: selector.select(node), "SGK121")

    def _offer(self, node: Node, other: Node, *, is_input: bool) -> Refusal | None:
        question = "select_input" if is_input else "select_output"
        ask = self._selector.select_input if is_input else self._selector.select_output
        return self._inquiry.ask(question, other, lambda: ask(node, other), "SGK121")

    def _edge(self, producer: int, consumer: int) -> tuple[int, int]:
        """Return the first edge between two units, as ranks."""
        view = self._view
        if view.members is None:
            return producer, consumer
        if len(view.members[producer]) == 1 and len(view.members[consumer]) == 1:
            return view.members[producer][0], view.members[consumer][0]
        return self._edges_of_groups[producer, consumer]

    @cached_property
    def _edges_of_groups(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The first edge between any two units of which one has several nodes."""
        unit_of, members = self._view.unit_of, self._view.members or ()
        predecessors = self._workspace.adjacency.predecessors
        first: dict[tuple[int, int], tuple[int, int]] = {}
        for reader, consumer in enumerate(unit_of):
            for rank in predecessors(reader):
                producer = unit_of[rank]
                if len(members[consumer]) > 1 or len(members[producer]) > 1:
                    first.setdefault((producer, consumer), (rank, reader))
        return first

    def _node(self, rank: int) -> Node:
        return Node(self._workspace.graph, self._workspace.order[rank])
