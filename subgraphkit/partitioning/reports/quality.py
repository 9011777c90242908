"""The quality of a partitioning: regions against the bound, what crosses, shares and refusals."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit.ir.costs import bytes_of, estimate_flops, is_open
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.reports.explanation import Roots
from subgraphkit.types import TensorType

# Reasons that would remain if the backend had the operator.
_NOT_ABOUT_THE_OPERATOR: Final = frozenset(
    {"excluded", "filtered", "group", "not_accepted", "not_convex", "not_worth", "pinned",
     "too_large", "too_small"}
)  # fmt: skip

NOTICEABLE: Final = 0.01
"""The share of a model's FLOPs below which nobody is told anything."""


@dataclass(frozen=True, slots=True)
class Gain:
    """The nodes that a backend would gain by an operator, or by sizes.

    Attributes:
        operator: The refused operator; empty if sizes are missing.
        sizes: What ``shapes`` would have to say, if sizes are missing.
        nodes: How many nodes of it run on other backends.
        flops: Their operations.
    """

    operator: str
    sizes: tuple[str, ...]
    nodes: int
    flops: int


@dataclass(frozen=True, slots=True)
class BackendQuality:
    """One backend's part.

    Attributes:
        backend: Name of the backend.
        is_fallback: Whether it only took what nobody else claimed.
        regions: Number of its subgraphs.
        lower_bound: No division of the nodes it took has fewer, given what those before it took;
            None if it is not known any more, after a region was given back by ``repartition``.
        maximal: False if the work budget ended before every possible merge had been tried.
        nodes: Nodes at home in its subgraphs; ``Constant`` nodes do not count.
        parameters: Elements of the constants its subgraphs read.
        flops: Operations of its nodes, see ``subgraphkit.ir.costs``.
        has_open_flops: Whether dimensions that are not known count as 1 in them.
        gains: What it refused and others run, by operator, and what it refused because sizes are
            open; the most operations first.
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
    gains: tuple[Gain, ...]

    @property
    def gap(self) -> int | None:
        """How many more regions there are than the bound; 0 proves the number to be the fewest."""
        return None if self.lower_bound is None else max(0, self.regions - self.lower_bound)

    def to_dict(self) -> dict[str, Any]:
        """Return the measures as plain data, with the gap."""
        gains = [{**asdict(one), "sizes": list(one.sizes)} for one in self.gains]
        kept = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**kept, "gains": gains, "gap": self.gap}


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
        forced_bytes: Bytes of those that cross between backends, which any partitioning that gives
            the same nodes to the same backends must cut.
        largest_share: Share of all nodes in the largest subgraph, 0 to 1.
    """

    backends: tuple[BackendQuality, ...]
    nodes: int
    parameters: int
    flops: int
    has_open_flops: bool
    cut_tensors: int
    cut_bytes: int
    forced_bytes: int
    largest_share: float

    def to_dict(self) -> dict[str, Any]:
        """Return the measures as plain data, with the gaps."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        return plain | {"backends": [one.to_dict() for one in self.backends]}


def measure(partitioning: PartitioningData) -> Quality:
    """Measure a partitioning; linear in the graph. What nobody reads is no work."""
    roots = Roots(partitioning.graph)
    homes = [working_nodes(partitioning.graph, one) for one in partitioning.subgraphs]
    node_count = sum(map(len, homes))
    cut, forced = _crossing(partitioning)
    backends = tuple(
        _measure_backend(partitioning, name, homes, roots) for name in partitioning.backends
    )
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
        forced_bytes=sum(bytes_of(types.get(value)) for value in forced),
        largest_share=max(map(len, homes), default=0) / max(node_count, 1),
    )


def working_nodes(graph: BoundGraph, subgraph: Subgraph) -> list[int]:
    """Return the nodes of a subgraph that work there: none where nobody reads what it makes."""
    return [n for n in subgraph.nodes if subgraph.outputs and not graph.is_constant_node(n)]


def _measure_backend(
    partitioning: PartitioningData, name: str, homes: list[list[int]], roots: Roots
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
    own_nodes = [Node(graph, node) for at in own for node in homes[at]]
    flops = [estimate_flops(node) for node in own_nodes]
    is_fallback = any(c.is_fallback for c in passes.claims if c.backend.name == name)
    return BackendQuality(
        backend=name,
        is_fallback=is_fallback,
        regions=len(own),
        lower_bound=_sum(bounds),
        maximal=all(outcome.maximal for outcome in outcomes),
        nodes=sum(len(homes[at]) for at in own),
        parameters=_elements(partitioning, read),
        flops=sum(flops),
        has_open_flops=any(
            count and is_open(node) for node, count in zip(own_nodes, flops, strict=True)
        ),
        gains=() if is_fallback else _gains(partitioning, name, roots),
    )


def _sum(bounds: Iterable[int | None]) -> int | None:
    total = 0
    for bound in bounds:
        if bound is None:
            return None
        total += bound
    return total


def _gains(partitioning: PartitioningData, backend: str, roots: Roots) -> tuple[Gain, ...]:
    """Add up what a backend refused and others run, unless no operator or size would help."""
    graph = partitioning.graph
    refused: dict[str, list[int]] = {}
    sizes: dict[str, None] = {}
    for node, refusal in partitioning.refusals_by(backend).items():
        origins = roots.of(node, refusal)
        decided_at_a_run = any(isinstance(one, int) for one in origins)
        if refusal.code in _NOT_ABOUT_THE_OPERATOR or decided_at_a_run:
            continue
        if partitioning.home_of(node).outputs:
            sizes.update(dict.fromkeys(roots.sizes(origins)))
            name = "" if origins else Node(graph, node).qualified_op_type
            refused.setdefault(name, []).append(node)
    gains = [
        Gain(
            name,
            () if name else tuple(sizes),
            len(nodes),
            partitioning.flops_of(nodes),
        )
        for name, nodes in refused.items()
    ]
    return tuple(sorted(gains, key=lambda one: (-one.flops, -one.nodes, one.operator)))


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
    cut: set[str] = set()
    forced: set[str] = set()
    for *ends, names in partitioning.crossings():
        cut.update(names)
        if len({partitioning.subgraphs[place].backend for place in ends}) > 1:
            forced.update(names)
    return cut, forced
