"""The state of a partition pass: the region of each node, and the graph in between.

Nodes are worked on by *rank*, their place in the topological order. An indivisible set, such as a
region claimed before or a group, is one vertex of the contracted graph.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

import numpy as np

from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.binding import BoundModel
from subgraphkit.ir import Adjacency, BoundGraph, Node
from subgraphkit.ir.adjacency import unite_groups
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.algorithms.levels import (
    Nets,
    as_ints,
    nets_of_values,
    nets_of_vertices,
)
from subgraphkit.partitioning.algorithms.quotient import contract_groups, run_order
from subgraphkit.partitioning.claiming.ask import CheckedProperty, RefusalColumn
from subgraphkit.partitioning.claims import Claim

_QUANTIZE = "QuantizeLinear"
_DEQUANTIZE = "DequantizeLinear"


@dataclass(frozen=True, slots=True)
class Region:
    """A region that a property has claimed.

    Attributes:
        claim: Place of the property among those asked.
        ranks: Its nodes by rank, ascending; never a constant node.
        connected: Whether it was promised to hang together.
    """

    claim: int
    ranks: list[int]
    connected: bool = False


class ContractedGraph(NamedTuple):
    """The graph with every claimed region, and every group, as one vertex.

    Attributes:
        vertex_of: By rank, the vertex.
        members: The ranks of each vertex, ascending; None if every rank is a vertex by itself.
        groups: The groups that are one vertex each.
    """

    adjacency: Adjacency
    vertex_of: "array[int]"
    members: Sequence[Sequence[int]] | None
    groups: Sequence[Sequence[int]]

    def ranks(self, vertices: Iterable[int]) -> list[int]:
        """Return the ranks of some vertices, ascending."""
        if self.members is None:
            return sorted(vertices)
        return sorted(rank for vertex in vertices for rank in self.members[vertex])

    def by_vertex(self, labels: Sequence[int]) -> Sequence[int]:
        """Return labels of ranks by vertex, where all ranks of a group have the same."""
        if self.members is None:
            return labels
        return [labels[ranks[0]] for ranks in self.members]


class PartitionState:
    """The state of one partition pass over a graph or over one convex region of it.

    Attributes:
        properties: Those that claim, in order, to be asked.
        count: Number of nodes worked on.
        rank_of: The rank of each node; -1 for nodes the pass does not work on.
        in_file_order: Whether every rank is the number of its node.
        constant: By rank, 1 for nodes that only state a constant.
        free: By rank, 1 for nodes that are neither claimed nor constant.
        wanted: Values that are read outside the part that is worked on.
        atoms: Sets of ranks that no property may cut: each QuantizeLinear with the
            DequantizeLinear nodes it feeds. A path may leave an atom and come back. Then only a
            region with the path holds the atom whole, and the last property may cut it.
        weigh: Says why a region is not worth handing over, None if it is. None itself if regions
            are not weighed.

    ``nodes``: Nodes of a convex region to work on, in the graph's own running order; None for all.
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
        self.properties = [CheckedProperty(claim, graph) for claim in claims]
        self.order = array("i", graph.order if nodes is None else nodes)
        self.count = len(self.order)
        self.rank_of = array("i", [-1]) * len(graph.table.op_types)
        as_ints(self.rank_of)[as_ints(self.order)] = np.arange(self.count, dtype=np.int32)
        self.adjacency = _by_rank(graph, self.order, self.rank_of)
        self.in_file_order = self.adjacency is graph.adjacency
        self.constant = self._constant_ranks()
        self.wanted = frozenset(wanted)
        self.free = bytearray((1 - np.frombuffer(self.constant, np.uint8)).tobytes())
        self.regions: list[Region] = []
        self.weigh: Callable[[PartitionState, Region], Refusal | None] | None = None
        self.atoms = self._quantized_pairs()

    def contract(
        self, groups: Sequence[Sequence[int]]
    ) -> tuple[ContractedGraph, list[Sequence[int]]]:
        """Contract the claimed regions, the atoms and the groups of a property.

        Groups and atoms that a path leaves and comes back to cannot stay together. They are not
        contracted, and returned with the graph.
        """
        claimed = [region.ranks for region in self.regions]
        joined = unite_groups([*(atom for atom in self.atoms if self.free[atom[0]]), *groups])
        joined = [ranks for ranks in joined if len(ranks) > 1]
        if not claimed and not joined:
            return ContractedGraph(self.adjacency, array("i", range(self.count)), None, ()), []
        found, kept, dropped = contract_groups(self.adjacency, claimed, joined)
        return ContractedGraph(found.adjacency, found.unit_of, found.members, kept), dropped

    def claim(self, region: Region) -> None:
        """Take the nodes of a region off the free ones."""
        self.regions.append(region)
        for rank in region.ranks:
            self.free[rank] = 0

    def in_run_order(self) -> list[Region]:
        """Return the regions claimed so far in an order in which they can run."""
        order = run_order(self.adjacency, [region.ranks for region in self.regions])
        return [self.regions[index] for index in order]

    def nets(self, contracted: ContractedGraph) -> Nets:
        """Return which vertex makes each value, how large it is, and which vertices read it."""
        if contracted.members is None:
            # A copy, because nets keep large indices from first use on.
            return replace(self._value_nets)
        return nets_of_vertices(self._value_nets, contracted.vertex_of, contracted.adjacency.count)

    @cached_property
    def _value_nets(self) -> Nets:
        return nets_of_values(self.graph, self.adjacency, self.order)

    def dynamic_inputs(self, rank: int) -> list[tuple[str, int]]:
        """Return the values a node reads that are not constant, with the ranks that make them.

        The rank is -1 for graph inputs and values from outside.
        """
        constants, made_by, rank_of = self.graph.constants, self.graph.producers, self.rank_of
        return [
            (value, rank_of[made_by[value]] if value in made_by else -1)
            for value in self.graph.read_by(self.order[rank])
            if value and value not in constants
        ]

    def nodes_of(self, region: Region, also: Collection[int] = ()) -> list[int]:
        """Return the nodes a region runs, with those of other ranks, in running order."""
        ranks = sorted({*region.ranks, *also}) if also else region.ranks
        return ranks if self.in_file_order else [self.order[rank] for rank in ranks]

    def node(self, rank: int) -> Node:
        """Return the node of a rank."""
        return Node(self.graph, self.order[rank])

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


def _by_rank(graph: BoundGraph, order: "array[int]", rank_of: "array[int]") -> Adjacency:
    adjacency = graph.adjacency
    if len(order) == adjacency.count and np.array_equal(as_ints(order), np.arange(len(order))):
        return adjacency
    return Adjacency.from_predecessors(
        [rank_of[p] for p in adjacency.predecessors(node) if rank_of[p] >= 0] for node in order
    )


@dataclass(eq=False)
class Pass:
    """The nodes of a partition state that one property may take; they only ever shrink.

    Attributes:
        index: Place of the property among those asked.
        refusals: Why it does not take nodes.
        selector: The first of its selectors.
        stateless: Whether that says of itself that it keeps no state.
        eligible: By rank, 1 for nodes it may take; of a group all or none.
        torn: Atoms that are not one vertex; a later property can take one that this one would part.
        loose: Ranks of groups that do not hang together by themselves.
    """

    state: PartitionState
    index: int
    refusals: RefusalColumn
    selector: SubgraphSelector
    stateless: bool
    eligible: bytearray
    graph: ContractedGraph
    torn: Sequence[Sequence[int]]
    loose: frozenset[int]

    @cached_property
    def asked(self) -> CheckedProperty:
        """The property, to be asked."""
        return self.state.properties[self.index]

    @property
    def ranks(self) -> Iterator[int]:
        """The eligible ranks, ascending."""
        return compress(range(self.state.count), self.eligible)

    @cached_property
    def nets(self) -> Nets:
        """Which vertex makes each value, how large it is, and which vertices read it."""
        return self.state.nets(self.graph)

    @cached_property
    def group_of(self) -> Mapping[int, Sequence[int]]:
        """By rank, the group it is in, for those in one."""
        return {rank: group for group in self.graph.groups for rank in group}

    def refuse(self, refused: Mapping[int, Refusal]) -> None:
        """Refuse nodes by rank, with each the others of its group; none is eligible any more."""
        for rank, refusal in refused.items():
            self._drop(rank, refusal)
        for rank, refusal in refused.items() if self.graph.groups else ():
            for other, reason in self.group_refusals(rank, refusal).items():
                if self.eligible[other]:
                    self._drop(other, reason)

    def group_refusals(self, rank: int, reason: Refusal) -> Mapping[int, Refusal]:
        """Return why the others of a group are refused where one of it is."""
        others = [other for other in self.group_of.get(rank, ()) if other != rank]
        if not others:
            return {}
        text = f"stays together with {self.state.node(rank).label}, which was refused ({reason})"
        return dict.fromkeys(others, Refusal("group", text))

    def _drop(self, rank: int, refusal: Refusal) -> None:
        self.eligible[rank] = 0
        self.refusals.refuse(self.state.order[rank], refusal)
