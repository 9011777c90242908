"""How good a partitioning is: regions against the bound, what crosses, who does how much."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from subgraphkit.ir import Node
from subgraphkit.partitioning.claiming import Outcome
from subgraphkit.partitioning.reports.flops import estimate_flops
from subgraphkit.partitioning.reports.supposing import regions_saved
from subgraphkit.partitioning.result import PartitioningData
from subgraphkit.partitioning.sizing import bytes_of
from subgraphkit.types import TensorType

__all__ = ["BackendQuality", "Quality", "measure"]


@dataclass(frozen=True, slots=True)
class BackendQuality:
    """One backend's part.

    Attributes:
        backend: Name of the backend.
        is_fallback: Whether it only took what nobody else claimed.
        regions: Number of its subgraphs.
        lower_bound: No division of the nodes it took has fewer, given what those before it took;
            from before any region was given back by ``repartition``.
        maximal: False if the work budget ended before every possible merge had been tried.
        nodes: Nodes at home in its subgraphs; ``Constant`` nodes do not count.
        parameters: Elements of the constants its subgraphs read.
        flops: Operations of its nodes, see ``subgraphkit.partitioning.reports.flops``.
        regions_saved: By refused operator, how many fewer subgraphs the backend would have if it
            took the operator; negative if more.
    """

    backend: str
    is_fallback: bool
    regions: int
    lower_bound: int
    maximal: bool
    nodes: int
    parameters: int
    flops: int
    regions_saved: Mapping[str, int]

    @property
    def gap(self) -> int:
        """How many more regions there are than the bound; 0 proves the number to be the fewest."""
        return max(0, self.regions - self.lower_bound)


@dataclass(frozen=True, slots=True)
class Quality:
    """Measures of a partitioning.

    Attributes:
        backends: Every backend that took part, in order.
        nodes: Nodes of the model; ``Constant`` nodes do not count.
        parameters: Elements of all constants that are read.
        flops: Operations of all nodes.
        cut_tensors: Distinct values made in one subgraph and taken in by another.
        cut_bytes: Their bytes, each counted once; unknown dimensions count as 1.
        forced_bytes: Bytes of those that cross between backends, which any partitioning that gives
            the same nodes to the same backends must cut.
        largest_share: Share of all nodes in the largest subgraph, 0 to 1.
        copied_nodes: Nodes run in a second place, counted once for every such place.
    """

    backends: tuple[BackendQuality, ...]
    nodes: int
    parameters: int
    flops: int
    cut_tensors: int
    cut_bytes: int
    forced_bytes: int
    largest_share: float
    copied_nodes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the measures as plain data, with the gaps."""
        plain = asdict(self)
        plain["backends"] = [
            {**asdict(one), "regions_saved": dict(one.regions_saved), "gap": one.gap}
            for one in self.backends
        ]
        return plain


def measure(partitioning: PartitioningData) -> Quality:
    """Measure a partitioning; linear in the graph, and once more per refused operator."""
    home_nodes = [_home_nodes(partitioning, at) for at in range(len(partitioning.subgraphs))]
    node_count = sum(map(len, home_nodes))
    cut, forced = _crossing(partitioning)
    backends = tuple(
        _measure_backend(partitioning, name, home_nodes) for name in partitioning.backends
    )
    read = {name for subgraph in partitioning.subgraphs for name in subgraph.constants}
    types = partitioning.graph.types
    return Quality(
        backends=backends,
        nodes=node_count,
        parameters=_elements(partitioning, read),
        flops=sum(one.flops for one in backends),
        cut_tensors=len(cut),
        cut_bytes=sum(bytes_of(types.get(value)) for value in cut),
        forced_bytes=sum(bytes_of(types.get(value)) for value in forced),
        largest_share=max(map(len, home_nodes), default=0) / max(node_count, 1),
        copied_nodes=sum(len(subgraph.copies) for subgraph in partitioning.subgraphs),
    )


def _home_nodes(partitioning: PartitioningData, at: int) -> list[int]:
    graph = partitioning.graph
    return [n for n in partitioning.subgraphs[at].home if not graph.is_constant_node(n)]


def _measure_backend(
    partitioning: PartitioningData, name: str, home_nodes: list[list[int]]
) -> BackendQuality:
    graph, turns = partitioning.graph, partitioning.turns
    own = [at for at, subgraph in enumerate(partitioning.subgraphs) if subgraph.backend == name]
    outcomes: list[tuple[int, Outcome]] = [
        (index, outcome)
        for index, (claim, outcome) in enumerate(zip(turns.claims, turns.outcomes, strict=True))
        if outcome is not None and claim.backend.name == name
    ]
    read = {value for at in own for value in partitioning.subgraphs[at].constants}
    is_fallback = any(c.is_fallback for c in turns.claims if c.backend.name == name)
    saved: Counter[str] = Counter()
    if not is_fallback:
        for index, _ in outcomes:
            saved.update(regions_saved(partitioning, index))
    return BackendQuality(
        backend=name,
        is_fallback=is_fallback,
        regions=len(own),
        lower_bound=sum(outcome.lower_bound for _, outcome in outcomes),
        maximal=all(outcome.maximal for _, outcome in outcomes),
        nodes=sum(len(home_nodes[at]) for at in own),
        parameters=_elements(partitioning, read),
        flops=sum(estimate_flops(Node(graph, node)) for at in own for node in home_nodes[at]),
        regions_saved=dict(sorted(saved.items(), key=lambda item: (-item[1], item[0]))),
    )


def _elements(partitioning: PartitioningData, names: set[str]) -> int:
    types = partitioning.graph.types
    counts = (
        type_.element_count or 0
        for name in names
        if isinstance(type_ := types.get(name), TensorType)
    )
    return sum(counts)


def _crossing(partitioning: PartitioningData) -> tuple[set[str], set[str]]:
    """Return the values that cross between subgraphs, and those that cross between backends."""
    maker = {
        value: subgraph.backend for subgraph in partitioning.subgraphs for value in subgraph.outputs
    }
    cut: set[str] = set()
    forced: set[str] = set()
    for subgraph in partitioning.subgraphs:
        for value in subgraph.inputs:
            backend = maker.get(value)
            if backend is not None:
                cut.add(value)
                if backend != subgraph.backend:
                    forced.add(value)
    return cut, forced
