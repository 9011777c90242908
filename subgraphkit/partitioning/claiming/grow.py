"""Growth of candidates, node by node, by the selectors of a property that keep a state.

The order of the questions is MXNet's: seeds in topological order, breadth first from each,
producers before consumers. A selector without a state has been asked about every node before.

Some candidates must stay whole and cannot. These are grown again, by the same selector, within the
part of the seed. One division of all candidates keeps them from waiting on each other.

Source:
    MXNet subgraph API, ``SelectSubgraphNodes`` and ``LabelSubgraph``.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import Final

from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.partitioning.claiming.graph import Pass
from subgraphkit.partitioning.claiming.merge import Grown, divide, divide_one

# How often a candidate that must stay whole is grown again, before it is left out.
_REPLAYS: Final = 8
# The budget of questions and edges: so many per node and edge of the graph, and a constant part.
# After it, no node is grown over again.
_LOOKS_PER_EDGE: Final = 50
_LOOKS_AT_LEAST: Final = 1_000_000
# A group may be offered from every neighbour of every node in it. After this many questions per
# node that end in a refusal, it is not offered any more.
_QUESTIONS_PER_NODE: Final = 8

_NOT_CONVEX: Final = Refusal(
    "not_convex", "taking the node would make subgraphs wait on each other"
)
_FILTERED: Final = Refusal("filtered", "the selector's filter dropped the node")


def grow(pass_: Pass) -> Grown:
    """Let selectors with a state take eligible nodes."""
    growth = _Growth(pass_)
    growth.seed(range(pass_.state.count))
    for attempt in count():
        divided = growth.divided_candidates() if growth.whole else {}
        if not divided:
            break
        growth.grow_again(divided, give_up=attempt >= _REPLAYS)
    growth.refuse_dropped()
    return Grown(growth.labels, bool(growth.whole), growth.complete)


class _Growth:
    """The state of the growth.

    Attributes:
        whole: The numbers of the candidates that must stay whole.
    """

    def __init__(self, pass_: Pass) -> None:
        self.labels = [0] * pass_.state.count
        self.whole: set[int] = set()
        self.complete = True
        self._pass = pass_
        self._open = bytearray(pass_.eligible)
        self._count = 0
        self._noted: dict[int, Refusal] = {}
        # For nodes of candidates that were divided: which division, and which part of it.
        self._part_of: dict[int, tuple[int, int]] = {}
        self._looks = 0
        size = pass_.state.count + len(pass_.state.adjacency.preds)
        self._most_looks = _LOOKS_AT_LEAST + _LOOKS_PER_EDGE * size
        # By the first node of a group, the questions that came to nothing.
        self._in_vain: dict[int, int] = {}

    def seed(self, ranks: Iterable[int]) -> None:
        """Grow a candidate from every open node that a new selector takes."""
        for rank in ranks:
            group = self._group(rank)
            if self._open[rank] and rank == group[0]:
                selector = self._pass.asked.new_selector()
                if self._take_seed(selector, rank):
                    self._count += 1
                    self._grow(self._count, selector, rank)

    def divided_candidates(self) -> dict[int, list[list[int]]]:
        """Return, by number, the parts of the candidates that must stay whole and cannot."""
        parts: dict[int, list[list[int]]] = {}
        for ranks in divide(self._pass, self.labels, from_start=True).regions:
            if self.labels[ranks[0]] in self.whole:
                parts.setdefault(self.labels[ranks[0]], []).append(ranks)
        return {number: several for number, several in parts.items() if len(several) > 1}

    def grow_again(self, divided: dict[int, list[list[int]]], *, give_up: bool) -> None:
        """Grow the parts of divided candidates anew, or leave them out."""
        left: list[int] = []
        for number, parts in divided.items():
            self.whole.discard(number)
            self._part(number, parts, _NOT_CONVEX)
            for rank in (rank for part in parts for rank in part):
                self.labels[rank], self._open[rank] = 0, not give_up
                left.append(rank)
        self.seed(sorted(left))

    def refuse_dropped(self) -> None:
        """Keep the reasons for nodes that a selector took and that are in no candidate."""
        for rank, refusal in self._noted.items():
            if not self.labels[rank]:
                self._pass.refusals.refuse(self._pass.state.order[rank], refusal)

    def _group(self, rank: int) -> Sequence[int]:
        return self._pass.group_of.get(rank) or (rank,)

    def _note(self, ranks: Iterable[int], refusal: Refusal) -> None:
        """Remember why nodes were left out; a more precise reason stays."""
        for rank in ranks:
            if refusal is not _FILTERED or rank not in self._noted:
                self._noted[rank] = refusal

    def _part(self, number: int, parts: Sequence[Sequence[int]], refusal: Refusal) -> None:
        for place, part in enumerate(parts):
            self._note(part, refusal)
            self._part_of.update(dict.fromkeys(part, (number, place)))

    def _grow(self, number: int, selector: SubgraphSelector, seed: int) -> None:
        """Make a candidate of the nodes that a selector takes and keeps, whole if it wants that."""
        pass_ = self._pass
        splittable = pass_.asked.flag(selector, "splittable")
        kept = self._reach(selector, seed, range(pass_.state.count))
        for _ in range(_REPLAYS):
            if splittable or not kept or self._looks > self._most_looks:
                break
            parts, way, work = divide_one(pass_, kept)
            self._looks += work
            if len(parts) == 1:
                break
            self._part(number, parts, _not_convex(pass_, way) if way else _FILTERED)
            own = next((part for part in parts if seed in part), parts[0])
            with pass_.asked.blame("SGK121", "reset"):
                selector.reset()
            is_taken = self._take_seed(selector, seed)
            kept = self._reach(selector, seed, frozenset(own)) if is_taken else []
        for rank in kept:
            self.labels[rank], self._open[rank] = number, 0
        if kept and not splittable:
            self.whole.add(number)

    def _reach(self, selector: SubgraphSelector, seed: int, allowed: Collection[int]) -> list[int]:
        """Ask breadth first from a seed that was taken; return the nodes that the filter keeps."""
        ranks = sorted(self._flood(selector, seed, allowed))
        nodes = [self._pass.state.node(rank) for rank in ranks]
        answer = self._pass.asked.filter(selector, nodes)
        missing = (rank for rank, node in zip(ranks, nodes, strict=True) if node.id not in answer)
        if gone := {other for rank in missing for other in self._group(rank)}:
            self._note(gone, _FILTERED)
            self._looks += len(ranks)
            self.complete = self.complete and self._looks <= self._most_looks
            for rank in gone if not self.complete else ():
                self._open[rank] = 0
        return [rank for rank in ranks if rank not in gone]

    def _flood(self, selector: SubgraphSelector, seed: int, allowed: Collection[int]) -> list[int]:
        """Offer neighbours of the nodes taken, over and over; return all taken."""
        own = self._part_of.get(seed)
        queue = list(self._group(seed))
        taken = set(queue)
        for rank in queue:
            for other, question in self._neighbours(rank):
                self._looks += 1
                if not self._open[other] or other in taken or other not in allowed:
                    continue
                # Growing into other parts of the last division would only lead to it again.
                part = self._part_of.get(other)
                if own is not None and part is not None and own[0] == part[0] and own != part:
                    continue
                if self._offer(selector, question, rank, other):
                    taken.update(self._group(other))
                    queue += self._group(other)
        return queue

    # -- questions ---------------------------------------------------------------------------

    def _ask(self, selector: SubgraphSelector, question: str, *ranks: int) -> Refusal | None:
        nodes = [self._pass.state.node(rank) for rank in ranks]
        return self._pass.asked.ask(selector, question, *nodes, about=nodes[-1])

    def _take_seed(self, selector: SubgraphSelector, rank: int) -> bool:
        return self._take(selector, rank, self._ask(selector, "select", rank), is_seed=True)

    def _offer(self, selector: SubgraphSelector, question: str, taken: int, offered: int) -> bool:
        group = self._group(offered)
        if self._in_vain.get(group[0], 0) > _QUESTIONS_PER_NODE * len(group):
            return False
        said = self._ask(selector, question, taken, offered)
        return self._take(selector, offered, said, is_seed=False)

    def _take(
        self, selector: SubgraphSelector, rank: int, refusal: Refusal | None, *, is_seed: bool
    ) -> bool:
        """Take the rest of a group whose first node was asked about, or refuse all of it.

        The answer for a seed outweighs that for an offered node, as it is about the node alone.
        """
        group, at = self._group(rank), rank
        if refusal is None and len(group) > 1:
            refusal, at, asked = self._take_rest(selector, group, rank)
            if refusal is not None:
                self._in_vain[group[0]] = self._in_vain.get(group[0], 0) + asked
        if refusal is None:
            return True
        refusals, order = self._pass.refusals, self._pass.state.order
        if is_seed or refusals.of(order[at]) is None:
            refusals.refuse(order[at], refusal)
            for other, reason in self._pass.group_refusals(at, refusal).items():
                refusals.refuse(order[other], reason)
        return False

    def _take_rest(
        self, selector: SubgraphSelector, group: Sequence[int], first: int
    ) -> tuple[Refusal | None, int, int]:
        """Offer the other nodes of a group one by one, along the edges between them.

        This returns the first refusal, its node, and the number of questions.
        """
        waiting, queue = set(group) - {first}, deque([first])
        while waiting:
            taken = [queue.popleft()] if queue else []
            # No edge leads to the rest of a group that does not hang together.
            offers = self._neighbours(*taken) if taken else [(min(waiting), "select")]
            for other, question in offers:
                if other in waiting:
                    refusal = self._ask(selector, question, *taken, other)
                    if refusal is not None:
                        return refusal, other, len(group) - len(waiting)
                    waiting.discard(other)
                    queue.append(other)
        return None, first, len(group)

    def _neighbours(self, rank: int) -> list[tuple[int, str]]:
        adjacency = self._pass.state.adjacency
        makers = [(other, "select_input") for other in adjacency.predecessors(rank)]
        return makers + [(other, "select_output") for other in adjacency.successors(rank)]


def _not_convex(pass_: Pass, way: Sequence[int]) -> Refusal:
    shown = " > ".join(pass_.state.node(rank).label for rank in way)
    return Refusal(_NOT_CONVEX.code, f"{_NOT_CONVEX.text}: {shown}")
