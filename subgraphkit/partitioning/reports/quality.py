"""The quality of a partitioning, in regions, shares and cuts; and its differences from another."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from subgraphkit.errors import ConfigError
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit.ir.costs import bytes_of, is_open
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.types import TensorType
from subgraphkit.viewing import Table

NOTICEABLE: Final = 0.01
"""The share of a model's FLOPs below which nothing is reported."""


@dataclass(frozen=True, slots=True)
class BackendQuality:
    """One backend's part.

    Attributes:
        backend: Name of the backend.
        is_fallback: Whether it only took unclaimed nodes.
        regions: Number of its subgraphs.
        lower_bound: No division of its nodes has fewer, after the choices of earlier backends. None
            once ``repartition`` gave a region back.
        maximal: False if the work budget ended before every possible merge had been tried.
        nodes: Nodes at home in its subgraphs; ``Constant`` nodes do not count.
        parameters: Elements of the constants its subgraphs read.
        flops: Operations of its nodes, see ``subgraphkit.ir.costs``.
        has_open_flops: Whether dimensions that are not known count as 1 in them.
    """

    backend: str
    is_fallback: bool
    regions: int
    lower_bound: int | None
    maximal: bool
    nodes: int
    parameters: int
    flops: int
    has_open_flops: bool

    @property
    def gap(self) -> int | None:
        """How many more regions there are than the bound; 0 proves the number to be the fewest."""
        return None if self.lower_bound is None else max(0, self.regions - self.lower_bound)

    def to_dict(self) -> dict[str, Any]:
        """Return the measures as plain data, with the gap."""
        return {**asdict(self), "gap": self.gap}


@dataclass(frozen=True, slots=True)
class Quality:
    """Measures of a partitioning.

    Attributes:
        backends: Every backend that took part, in order.
        nodes: Nodes of the model; ``Constant`` nodes do not count.
        parameters: Elements of all constants that are read.
        flops: Operations of all nodes.
        has_open_flops: Whether dimensions that are not known count as 1 in them.
        cut_tensors: Distinct values made in one subgraph and taken in by another.
        cut_bytes: Their bytes, each counted once; unknown dimensions count as 1.
        largest_share: Share of all nodes in the largest subgraph, 0 to 1.
    """

    backends: tuple[BackendQuality, ...]
    nodes: int
    parameters: int
    flops: int
    has_open_flops: bool
    cut_tensors: int
    cut_bytes: int
    largest_share: float

    def to_dict(self) -> dict[str, Any]:
        """Return the measures as plain data, with the gaps."""
        return {**asdict(self), "backends": [one.to_dict() for one in self.backends]}


def measure(partitioning: PartitioningData) -> Quality:
    """Measure a partitioning; linear in the graph. Values without readers are no work."""
    homes = [working_nodes(partitioning.graph, one) for one in partitioning.subgraphs]
    node_count = sum(map(len, homes))
    cut = {name for *_, names in partitioning.crossings() for name in names}
    backends = tuple(_measure_backend(partitioning, name, homes) for name in partitioning.backends)
    read = {name for one in partitioning.subgraphs if one.outputs for name in one.constants}
    types = partitioning.graph.types
    return Quality(
        backends=backends,
        nodes=node_count,
        parameters=_elements(partitioning, read),
        flops=sum(one.flops for one in backends),
        has_open_flops=any(one.has_open_flops for one in backends),
        cut_tensors=len(cut),
        cut_bytes=sum(bytes_of(types.get(value)) for value in cut),
        largest_share=max(map(len, homes), default=0) / max(node_count, 1),
    )


def working_nodes(graph: BoundGraph, subgraph: Subgraph) -> list[int]:
    """Return the nodes of a subgraph that work there: none if nobody reads its outputs."""
    return [n for n in subgraph.nodes if subgraph.outputs and not graph.is_constant_node(n)]


def _measure_backend(
    partitioning: PartitioningData, name: str, homes: list[list[int]]
) -> BackendQuality:
    graph, passes = partitioning.graph, partitioning.passes
    own = [at for at, subgraph in enumerate(partitioning.subgraphs) if subgraph.backend == name]
    outcomes = [
        outcome
        for claim, outcome in zip(passes.claims, passes.bounds, strict=True)
        if outcome is not None and claim.backend.name == name
    ]
    bounds: list[int | None] = [outcome.lower_bound for outcome in outcomes]
    if not outcomes and any(homes[at] for at in own):
        bounds.append(None)  # divided at another time, and restored from a bundle
    # Constants that nobody reads, in a graph of nothing else, still have to be at home somewhere.
    whole = (partitioning.subgraphs[at].nodes for at in own)
    bounds += [1 for home in whole if all(map(graph.is_constant_node, home))]
    read = {value for at in own for value in partitioning.subgraphs[at].constants}
    nodes = [node for at in own for node in homes[at]]
    is_fallback = any(c.is_fallback for c in passes.claims if c.backend.name == name)
    return BackendQuality(
        backend=name,
        is_fallback=is_fallback,
        regions=len(own),
        lower_bound=None if None in bounds else sum(filter(None, bounds)),
        maximal=all(outcome.maximal for outcome in outcomes),
        nodes=len(nodes),
        parameters=_elements(partitioning, read),
        flops=partitioning.flops_of(nodes),
        has_open_flops=any(
            partitioning.flops_of([node]) and is_open(Node(graph, node)) for node in nodes
        ),
    )


def _elements(partitioning: PartitioningData, names: set[str]) -> int:
    types = partitioning.graph.types
    found = filter(None, map(types.get, names))
    return sum(one.element_count or 0 for one in found if isinstance(one, TensorType))


@dataclass(frozen=True, slots=True)
class Move:
    """The nodes that went from one backend to another.

    Attributes:
        source: Who has them in the partitioning that is compared with.
    """

    source: str
    target: str
    nodes: tuple[int, ...]
    flops: int


def find_moves(partitioning: PartitioningData, against: PartitioningData) -> list[Move]:
    """Return the nodes on another backend than in ``against``; else ConfigError (SGK123)."""
    if not partitioning.divides_as(against):
        raise ConfigError(
            "SGK123",
            f"{against.graph.name!r} and {partitioning.graph.name!r} are different models, "
            "or one was folded and the other was not",
            hint="Compare two partitionings of one model.",
        )
    before, found = homes(against), dict[tuple[str, str], list[int]]()
    for node, backend in homes(partitioning).items():
        if before.get(node, backend) != backend:
            found.setdefault((before[node], backend), []).append(node)
    moves = [Move(*ends, tuple(ids), partitioning.flops_of(ids)) for ends, ids in found.items()]
    return sorted(moves, key=lambda move: (-move.flops, -len(move.nodes)))


def move_table(moves: Sequence[Move], all_flops: int) -> Table:
    """Return the moved nodes with their old and new backends as a table."""
    rows = [
        (
            move.source,
            move.target,
            len(move.nodes),
            move.flops / 1e6,
            100 * move.flops / all_flops if all_flops else None,
        )
        for move in moves
    ]
    caption = "" if rows else "Every node is on the same backend in both."
    columns = ("from", "to", "nodes", "MFLOPs", "% of the FLOPs")
    return Table(columns, rows, title="What moved", caption=caption, bars=columns[-1:])


def homes(partitioning: PartitioningData) -> dict[int, str]:
    """Return by node its backend, without ``Constant`` nodes and those without readers."""
    return {
        node: subgraph.backend
        for subgraph in partitioning.subgraphs
        for node in working_nodes(partitioning.graph, subgraph)
    }
