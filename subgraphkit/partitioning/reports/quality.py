"""The quality of a partitioning: regions against the bound, crossing values, shares of the work."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, Final

from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.claiming.values import bytes_of
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.reports.explanation import Roots
from subgraphkit.partitioning.reports.flops import estimate_flops, is_open
from subgraphkit.partitioning.reports.worth import Gain, Worth, worth_of_operators
from subgraphkit.types import TensorType

NOTICEABLE: Final = 0.01
"""The share of a model's FLOPs below which nobody is told anything."""


@dataclass(frozen=True)
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
        flops: Operations of its nodes, see ``subgraphkit.partitioning.reports.flops``.
        has_open_flops: Whether dimensions that are not known count as 1 in them.
        suppose: Counts what refused operators would be worth.
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
    suppose: Callable[[], Any] = field(repr=False, compare=False)

    @property
    def gap(self) -> int | None:
        """How many more regions there are than the bound; 0 proves the number to be the fewest."""
        return None if self.lower_bound is None else max(0, self.regions - self.lower_bound)

    @property
    def regions_saved(self) -> Mapping[str, int]:
        """By refused operator, how many fewer regions it would need with it; negative if more.

        Counted when first asked for. Nodes of the operator that another property of the backend
        took do not count as refused. On a large graph the operators are left out that promise least
        (``uncounted_operators``).
        """
        return {one.operator: one.regions_saved for one in self.gains if one.operator}

    @property
    def gains(self) -> tuple[Gain, ...]:
        """What the backend would gain by each refused operator, and by sizes that are open.

        Counted as ``regions_saved``; a node counts under the sizes where open dimensions are the
        reason, and under its operator otherwise.
        """
        return self._worth.gains

    @property
    def uncounted_operators(self) -> tuple[str, ...]:
        """The refused operators that are missing in ``regions_saved``, the most promising first."""
        return self._worth.uncounted

    @cached_property
    def _worth(self) -> Worth:
        worth: Worth = self.suppose()
        return worth

    def to_dict(self) -> dict[str, Any]:
        """Return the measures as plain data, with the gap and the worth of operators."""
        return {
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name != "suppose"},
            "regions_saved": dict(self.regions_saved),
            "gains": [{**asdict(one), "sizes": list(one.sizes)} for one in self.gains],
            "uncounted_operators": list(self.uncounted_operators),
            "gap": self.gap,
        }


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
        copied_nodes: Nodes run in a second place, counted once for every such place.
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
    copied_nodes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the measures as plain data, with the gaps."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        return plain | {"backends": [one.to_dict() for one in self.backends]}


def measure(partitioning: PartitioningData) -> Quality:
    """Measure a partitioning; linear in the graph. What nobody reads is no work."""
    roots = Roots(partitioning.graph)
    homes = [home_nodes(partitioning.graph, one) for one in partitioning.subgraphs]
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
        copied_nodes=sum(len(subgraph.copies) for subgraph in partitioning.subgraphs),
    )


def home_nodes(graph: BoundGraph, subgraph: Subgraph) -> list[int]:
    """Return the nodes that are at home in a subgraph and work there."""
    return [n for n in subgraph.home if subgraph.outputs and not graph.is_constant_node(n)]


def _measure_backend(
    partitioning: PartitioningData, name: str, homes: list[list[int]], roots: Roots
) -> BackendQuality:
    graph, turns = partitioning.graph, partitioning.turns
    own = [at for at, subgraph in enumerate(partitioning.subgraphs) if subgraph.backend == name]
    outcomes = [
        outcome
        for claim, outcome in zip(turns.claims, turns.outcomes, strict=True)
        if outcome is not None and claim.backend.name == name
    ]
    bounds: list[int | None] = [outcome.lower_bound for outcome in outcomes]
    if not outcomes and any(homes[at] for at in own):
        bounds.append(None)  # divided at another time, and restored from a bundle
    # Constants that nobody reads, in a graph of nothing else, still have to be at home somewhere.
    whole = (partitioning.subgraphs[at].home for at in own)
    bounds += [1 for home in whole if all(map(graph.is_constant_node, home))]
    read = {value for at in own for value in partitioning.subgraphs[at].constants}
    own_nodes = [Node(graph, node) for at in own for node in homes[at]]
    flops = [estimate_flops(node) for node in own_nodes]
    is_fallback = any(c.is_fallback for c in turns.claims if c.backend.name == name)
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
        suppose=_nothing if is_fallback else partial(worth_of_operators, partitioning, name, roots),
    )


def _sum(bounds: Iterable[int | None]) -> int | None:
    total = 0
    for bound in bounds:
        if bound is None:
            return None
        total += bound
    return total


def _nothing() -> Worth:
    return Worth((), ())


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
