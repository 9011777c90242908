"""The work table of the pass: claimed nodes, free nodes, and the graph in between.

Nodes are worked on by *rank*, their place in the topological order; a *unit* is what the algorithms
see as one: a free node, an atomic group, or a region claimed before.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding import BoundModel
from subgraphkit.ir import Adjacency, BoundGraph, Node
from subgraphkit.partitioning.algorithms.arrays import Nets, as_ints
from subgraphkit.partitioning.algorithms.quotient import (
    Contraction,
    CyclicGroupsError,
    contract,
    cyclic_groups,
    run_order,
)
from subgraphkit.partitioning.claiming.claimants import Claim
from subgraphkit.partitioning.claiming.questions import Inquiry
from subgraphkit.partitioning.claiming.values import nets_of_units, nets_of_values

_QUANTIZE = "QuantizeLinear"
_DEQUANTIZE = "DequantizeLinear"

# How often one group per strong component is dropped, before half of those that are left are.
_ROUNDS_ONE_BY_ONE = 8


@dataclass(slots=True)
class Region:
    """A region while the pass is running.

    Attributes:
        claimant: Place of the property that claimed it among those asked.
        ranks: Its nodes by rank, ascending; never a constant node.
    """

    claimant: int
    ranks: list[int]
    connected: bool = False


class View(NamedTuple):
    """The graph as one property sees it.

    Attributes:
        members: The ranks of each unit, ascending; None if every unit is the rank of its number.
    """

    adjacency: Adjacency
    unit_of: "array[int]"
    members: Sequence[Sequence[int]] | None

    def ranks(self, units: Iterable[int]) -> list[int]:
        """Return the ranks of some units, ascending."""
        if self.members is None:
            return sorted(units)
        return sorted(rank for unit in units for rank in self.members[unit])

    def node_count(self, units: Collection[int]) -> int:
        """Return the number of ranks of some units."""
        if self.members is None:
            return len(units)
        return sum(len(self.members[unit]) for unit in units)

    def ranks_of(self, unit: int) -> Sequence[int]:
        """Return the ranks of one unit, ascending."""
        return (unit,) if self.members is None else self.members[unit]

    def by_rank(self, flags: bytearray) -> bytearray:
        """Return, by rank, the flag of its unit."""
        if self.members is None:
            return bytearray(flags)
        return bytearray(np.frombuffer(flags, np.uint8)[as_ints(self.unit_of)].tobytes())

    def whole_units(self, wanted: bytearray) -> bytearray:
        """Return, by unit, whether every one of its ranks is wanted."""
        if self.members is None:
            return bytearray(wanted)
        missing = np.frombuffer(wanted, np.uint8) == 0
        lacking = np.bincount(as_ints(self.unit_of)[missing], minlength=self.adjacency.count)
        return bytearray((lacking == 0).astype(np.uint8).tobytes())


class WorkTable:
    """The state of one partition pass over a graph or over one convex region of it.

    Attributes:
        inquiries: The properties that claim, in order, to be asked.
        rank_of: The rank of each node; -1 for nodes the pass does not work on.
        in_file_order: Whether every rank is the number of its node.
        constant: By rank, 1 for nodes that only state a constant.
        free: By rank, 1 for nodes that are neither claimed nor constant.
        wanted: Values that are read outside the part that is worked on.
        atoms: Sets of ranks that no property may cut: each QuantizeLinear with the
            DequantizeLinear nodes it feeds. Where a path leaves one and comes back, so that it is
            whole only in a region that takes the path as well, the last property may cut it.
        worth: Says why a region is not worth handing over, None if it is; itself None where nobody
            weighs regions.

    ``nodes``: Nodes of a convex region to work on, in an order in which they can run that is part
    of the graph's own; None for all.
    """

    def __init__(
        self,
        graph: BoundModel,
        claims: Iterable[Claim] = (),
        nodes: Sequence[int] | None = None,
        *,
        wanted: Collection[str] = (),
    ) -> None:
        self.graph = graph
        self.inquiries = [Inquiry(claim, graph) for claim in claims]
        self.order, self.rank_of = _ranking(graph, nodes)
        self.adjacency = _by_rank(graph, self.order, self.rank_of)
        self.in_file_order = self.adjacency is graph.adjacency
        self.constant = self._constant_ranks()
        self.wanted = frozenset(wanted)
        self.free = bytearray((1 - np.frombuffer(self.constant, np.uint8)).tobytes())
        self.regions: list[Region] = []
        self.worth: Callable[[WorkTable, Region], Refusal | None] | None = None
        self.atoms = self._quantized_pairs()
        self.in_atoms = frozenset(rank for atom in self.atoms for rank in atom)
        self._value_nets: Nets | None = None

    @property
    def count(self) -> int:
        """Number of nodes worked on."""
        return len(self.order)

    def view(self, groups: Sequence[Sequence[int]] = ()) -> tuple[View, list[Sequence[int]]]:
        """Contract the claimed regions, the atoms and the groups of a property.

        Returns:
            The view, and those groups and atoms that cannot stay together because a path leaves
            and comes back; they are not contracted.
        """
        claimed: list[Sequence[int]] = [region.ranks for region in self.regions]
        loose = _merged([*(a for a in self.atoms if self.free[a[0]]), *groups])
        if not claimed and not loose:
            return View(self.adjacency, array("i", range(self.count)), None), []
        contraction, dropped = _contract(self.adjacency, claimed, loose)
        return View(contraction.adjacency, contraction.unit_of, contraction.members), dropped

    def claim(self, region: Region) -> None:
        """Take the nodes of a region off the free ones."""
        self.regions.append(region)
        for rank in region.ranks:
            self.free[rank] = 0

    def in_run_order(self) -> list[Region]:
        """Return the regions claimed so far in an order in which they can run."""
        order = run_order(self.adjacency, [region.ranks for region in self.regions])
        return [self.regions[index] for index in order]

    def nets(self, view: View) -> Nets:
        """Return which unit makes each value, how large it is, and which units read it."""
        if self._value_nets is None:
            self._value_nets = nets_of_values(self.graph, self.adjacency, self.order)
        if view.members is None:
            # A copy, because nets keep large indices from first use on.
            return replace(self._value_nets)
        return nets_of_units(self._value_nets, view.unit_of, view.adjacency.count)

    def dynamic_inputs(self, rank: int) -> list[tuple[str, int | None]]:
        """Return the values a node reads that are not constant, with the ranks that make them."""
        graph, node = self.graph, self.order[rank]
        read = graph.read_by(node) if node in graph.table.bodies else graph.table.inputs[node]
        constants, producer = graph.constants, self.producer
        return [(value, producer(value)) for value in read if value and value not in constants]

    def nodes_of(self, region: Region, also: Collection[int] = ()) -> list[int]:
        """Return the nodes a region runs, with those of other ranks, in running order."""
        ranks = sorted({*region.ranks, *also}) if also else region.ranks
        return ranks if self.in_file_order else [self.order[rank] for rank in ranks]

    def node(self, rank: int) -> Node:
        """Return the node of a rank."""
        return Node(self.graph, self.order[rank])

    def producer(self, value: str) -> int | None:
        """Return the rank that makes a value; None for graph inputs and values from outside."""
        made_by = self.graph.producers.get(value)
        rank = -1 if made_by is None else self.rank_of[made_by]
        return rank if rank >= 0 else None

    def _constant_ranks(self) -> bytearray:
        graph = self.graph
        constant = bytearray(self.count)
        for rank in self._ranks_of("Constant"):
            node = self.order[rank]
            if graph.is_constant_node(node):
                constant[rank] = all(name in graph.constants for name in graph.table.outputs[node])
        return constant

    def _ranks_of(self, operator: str) -> list[int]:
        types: Sequence[str] = self.graph.table.op_types
        if not self.in_file_order:
            types = list(map(types.__getitem__, self.order))
        # Looking for one first is ten times as fast as comparing each, and most models have none.
        return [r for r, name in enumerate(types) if name == operator] if operator in types else []

    def _quantized_pairs(self) -> list[list[int]]:
        operators = self.graph.table.op_types
        pairs = []
        for rank in self._ranks_of(_QUANTIZE):
            readers = self.adjacency.successors(rank)
            fed = [r for r in readers if operators[self.order[r]] == _DEQUANTIZE]
            if fed:
                pairs.append([rank, *fed])
        return pairs


def _ranking(graph: BoundGraph, nodes: Sequence[int] | None) -> "tuple[array[int], array[int]]":
    order = array("i", graph.order if nodes is None else nodes)
    rank_of = array("i", [-1]) * len(graph.table.op_types)
    as_ints(rank_of)[as_ints(order)] = np.arange(len(order), dtype=np.int32)
    return order, rank_of


def _by_rank(graph: BoundGraph, order: "array[int]", rank_of: "array[int]") -> Adjacency:
    adjacency = graph.adjacency
    if len(order) == adjacency.count and np.array_equal(as_ints(order), np.arange(len(order))):
        return adjacency
    return Adjacency.from_predecessors(
        [rank_of[p] for p in adjacency.predecessors(node) if rank_of[p] >= 0] for node in order
    )


def _merged(groups: Iterable[Sequence[int]]) -> list[list[int]]:
    """Unite groups that share a rank; drop those of one rank."""
    leader: dict[int, int] = {}

    def find(rank: int) -> int:
        while leader[rank] != rank:
            leader[rank] = leader[leader[rank]]
            rank = leader[rank]
        return rank

    for group in groups:
        for rank in group:
            leader.setdefault(rank, rank)
            low, high = sorted((find(group[0]), find(rank)))
            leader[high] = low
    merged: dict[int, list[int]] = {}
    for rank in sorted(leader):
        merged.setdefault(find(rank), []).append(rank)
    return [ranks for ranks in merged.values() if len(ranks) > 1]


def _contract(
    adjacency: Adjacency, claimed: list[Sequence[int]], loose: list[list[int]]
) -> tuple[Contraction, list[Sequence[int]]]:
    """Contract all that can be contracted together, dropping the latest group on every cycle.

    Strong components do not touch each other, so one round sees to all of them. One that is left
    after some rounds loses half of its groups at a time, so the whole takes near-linear time.
    """
    dropped: list[Sequence[int]] = []
    attempt = 0
    while True:
        try:
            return contract(adjacency, [*claimed, *loose]), dropped
        except CyclicGroupsError:
            at_fault: set[int] = set()
            for cyclic in cyclic_groups(adjacency, [*claimed, *loose]):
                own = [group - len(claimed) for group in cyclic if group >= len(claimed)]
                most = 1 if attempt < _ROUNDS_ONE_BY_ONE else -(-len(own) // 2)
                at_fault.update(own[-most:])
            if not at_fault:
                raise
            dropped += [loose[group] for group in sorted(at_fault, reverse=True)]
            loose = [group for index, group in enumerate(loose) if index not in at_fault]
            attempt += 1
