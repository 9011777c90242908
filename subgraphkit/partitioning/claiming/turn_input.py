"""Everything that one property's turn depends on, asked for before its regions grow."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np

from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.algorithms.arrays import Nets
from subgraphkit.partitioning.algorithms.components import weak_components
from subgraphkit.partitioning.claiming.questions import Inquiry
from subgraphkit.partitioning.claiming.refusals import RefusalColumn
from subgraphkit.partitioning.claiming.work_table import View, WorkTable


class Groups(NamedTuple):
    """Sets of ranks that a property wants kept together.

    Attributes:
        parted: What is left of groups of which a node was claimed before.
        loose: Ranks of groups that do not hang together by themselves.
        together: Ranks of all groups and atoms; none of them runs a second time alone.
    """

    named: Sequence[Sequence[int]]
    parted: Sequence[Sequence[int]]
    loose: frozenset[int]
    together: frozenset[int]


@dataclass(frozen=True, eq=False)
class TurnInput:
    """The input that the phases of one property's turn read, with a place for its refusals.

    Attributes:
        work: The work table; no region is entered into it before the turn ends.
        torn: Atoms that could not be made one unit; a property after this one can take what this
            one would part.
        barred: By rank, 1 for nodes that are kept from the backend.
        takes: By unit, 1 for what the property may take.
    """

    work: WorkTable
    index: int
    refusals: RefusalColumn
    groups: Groups
    torn: Sequence[Sequence[int]]
    view: View
    selector: SubgraphSelector
    splittable: bool
    barred: bytearray
    takes: bytearray

    @property
    def inquiry(self) -> Inquiry:
        """The property, to be asked."""
        return self.work.inquiries[self.index]

    @property
    def property_(self) -> SubgraphProperty:
        """The property whose turn it is."""
        return self.inquiry.claim.property

    @cached_property
    def nets(self) -> Nets:
        """Which unit makes each value, how large it is, and which units read it."""
        return self.work.nets(self.view)

    @cached_property
    def readers(self) -> Mapping[int, Sequence[tuple[int, str]]]:
        """By rank, who reads which value of it."""
        readers: dict[int, list[tuple[int, str]]] = {}
        for rank in range(self.work.count):
            for value, producer in self.work.dynamic_inputs(rank):
                if producer is not None:
                    readers.setdefault(producer, []).append((rank, value))
        return readers

    @property
    def watches_inputs(self) -> bool:
        """Whether some values may not enter a region."""
        return self.inquiry.watches_inputs

    @property
    def watches_edges(self) -> bool:
        """Whether some values may not cross the edge of a region."""
        return self.inquiry.watches_outputs or self.watches_inputs

    def refuse(self, ranks: Collection[int], refusal: Refusal) -> None:
        """Keep a reason for nodes."""
        for rank in ranks:
            self.refusals.refuse(self.work.order[rank], refusal)

    def refuse_group(self, ranks: Collection[int], at: int, reason: Refusal) -> None:
        """Refuse one node for a reason, and others because they stay together with it."""
        self.refuse((at,), reason)
        others = [rank for rank in ranks if rank != at]
        if others:
            text = f"stays together with {self.work.node(at).label}, which was refused ({reason})"
            self.refuse(others, Refusal("group", text))


def open_turn(work: WorkTable, index: int, refusals: RefusalColumn, barred: bytearray) -> TurnInput:
    """Ask a property what it wants kept together and, where that is simple, what it takes.

    Raises:
        SelectorContractError: A selector (SGK121) or the property (SGK122) broke its contract.
    """
    inquiry = work.inquiries[index]
    groups = _groups(work, inquiry)
    view, dropped = work.view(groups.named)
    named = {rank for group in groups.named for rank in group}
    apart = [(ranks, "another node of the group was claimed before") for ranks in groups.parted]
    apart += [
        (ranks, "the group cannot stay together: a path leaves it and comes back")
        for ranks in dropped
        if not named.isdisjoint(ranks)
    ]
    barred = bytearray(barred)
    for ranks, text in apart:
        for rank in ranks:
            barred[rank] = 1
            refusals.refuse(work.order[rank], Refusal("group", text))
    selector = inquiry.new_selector()
    wanted = bytearray((np.array(work.free, np.uint8) & ~np.array(barred, np.uint8)).tobytes())
    if selector.stateless:
        wanted = inquiry.ask_each(selector, work.order, wanted, refusals)
    turn = TurnInput(
        work,
        index,
        refusals,
        groups,
        # What the last property parts, nobody is left to keep together.
        [r for r in dropped if named.isdisjoint(r)] if index + 1 < len(work.inquiries) else (),
        view,
        selector,
        inquiry.flag(selector, "splittable"),
        barred,
        view.whole_units(wanted),
    )
    _refuse_parts(turn, wanted)
    return turn


def _groups(work: WorkTable, inquiry: Inquiry) -> Groups:
    named, parted = [], []
    loose: set[int] = set()
    together = set(work.in_atoms)
    for nodes in inquiry.groups():
        ranks = {work.rank_of[node] for node in nodes}
        inside = sorted(rank for rank in ranks if rank >= 0 and not work.constant[rank])
        if len(ranks) > 1:
            together.update(inside)
        free = [rank for rank in inside if work.free[rank]]
        if min(ranks, default=0) < 0 or len(free) < len(inside):
            parted.append(free)
        elif free:
            named.append(free)
            if len(weak_components(work.adjacency, free)) > 1:
                loose.update(free)
    return Groups(named, parted, frozenset(loose), frozenset(together))


def _refuse_parts(turn: TurnInput, wanted: bytearray) -> None:
    """Refuse what is wanted of groups that are not wanted as a whole."""
    view = turn.view
    missing: dict[int, int] = {}
    for rank in compress(range(len(wanted)), wanted) if view.members is not None else ():
        unit = view.unit_of[rank]
        if turn.takes[unit]:
            continue
        if unit not in missing:
            missing[unit] = next(r for r in view.ranks_of(unit) if not wanted[r])
        reason = turn.refusals.of(turn.work.order[missing[unit]])
        if reason is not None:
            turn.refuse_group([missing[unit], rank], missing[unit], reason)
