"""Driving a stateful selector: from units and integers to nodes and answers."""

from collections.abc import Sequence

from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.ir import Node
from subgraphkit.partitioning.asking import Inquiry
from subgraphkit.partitioning.bordering import refuse_unit
from subgraphkit.partitioning.refusing import RefusalColumn
from subgraphkit.partitioning.workspace import View, Workspace

__all__ = ["SelectorDriver"]


class SelectorDriver:
    """Puts the questions of the growing algorithm to selectors of one property.

    A unit of several nodes is taken only if the selector takes each of them; they are offered one
    by one along the edges between them.

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

    @property
    def splittable(self) -> bool:
        """Whether a candidate may become several regions."""
        return bool(self._selector.splittable)

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
        offered, taken = self._edge(producer, unit)
        refusal = self._offer(self._node(taken), self._node(offered), is_input=True)
        return self._take(producer, offered, refusal, is_seed=False)

    def offer_output(self, unit: int, consumer: int) -> bool:
        """Offer a unit that reads from one taken before."""
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
        with self._inquiry.blame("SGK121", "filter", candidates[0] if candidates else None):
            answer = list(self._selector.filter(list(candidates)))
        allowed = {node.id for node in candidates}
        for node in answer:
            place = getattr(node, "id", None)
            if place not in allowed:
                shown = repr(node) if place is None else node.label
                raise self._inquiry.claim.fault(
                    "SGK121",
                    f"filter returned {shown}, which was not among its {len(candidates)} "
                    "candidates",
                    "filter may drop candidates and must not add nodes.",
                )
        kept = {node.id for node in answer}
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
            refusal, at = self._take_rest(ranks, rank)
        if refusal is None:
            return True
        if is_seed or self._refusals.of(self._workspace.order[at]) is None:
            refuse_unit(self._workspace, ranks, at, refusal, self._refusals)
        return False

    def _take_rest(self, ranks: Sequence[int], first: int) -> tuple[Refusal | None, int]:
        """Offer the other nodes of a group; return the first refusal and where it was met."""
        waiting = set(ranks) - {first}
        adjacency = self._workspace.adjacency
        frontier = [first]
        while waiting:
            if not frontier:
                # The group is not connected, so that no edge leads to the rest.
                rank = min(waiting)
                refusal = self._select(rank)
                if refusal is not None:
                    return refusal, rank
                waiting.discard(rank)
                frontier.append(rank)
            rank = frontier.pop(0)
            node = self._node(rank)
            steps = [(other, True) for other in adjacency.predecessors(rank)]
            steps += [(other, False) for other in adjacency.successors(rank)]
            for other, is_input in steps:
                if other not in waiting:
                    continue
                refusal = self._offer(node, self._node(other), is_input=is_input)
                if refusal is not None:
                    return refusal, other
                waiting.discard(other)
                frontier.append(other)
        return None, first

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
        inside = set(view.ranks_of(producer))
        predecessors = self._workspace.adjacency.predecessors
        return next(
            (rank, reader)
            for reader in view.ranks_of(consumer)
            for rank in predecessors(reader)
            if rank in inside
        )

    def _node(self, rank: int) -> Node:
        return Node(self._workspace.graph, self._workspace.order[rank])
