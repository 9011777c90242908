"""The quotient graph of a partitioning, for networkx."""

from typing import Any

from subgraphkit.ir import Node
from subgraphkit.partitioning.claiming.values import bytes_of
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.reports.flops import estimate_flops

__all__ = ["as_networkx"]


def as_networkx(partitioning: PartitioningData) -> Any:
    """Return a ``networkx.DiGraph`` whose nodes are subgraph ids and whose edges are values.

    Returns:
        Node attributes: ``backend``, ``property``, ``nodes`` (how many it runs), ``flops``. Edge
        attributes: ``tensors`` (names), ``bytes``. Graph attributes: ``name``, ``critical_path``
        (ids of the chain of subgraphs that does the most operations one after the other) and
        ``critical_flops``.

    Raises:
        ImportError: networkx is not installed.
    """
    import networkx as nx  # noqa: PLC0415 (only those who ask for it pay for it)

    graph, types = partitioning.graph, partitioning.graph.types
    quotient = nx.DiGraph(name=graph.name)
    maker = {}
    for subgraph in partitioning.subgraphs:
        quotient.add_node(
            subgraph.id,
            backend=subgraph.backend,
            property=subgraph.property_name,
            nodes=sum(not graph.is_constant_node(node) for node in subgraph.nodes),
            flops=sum(estimate_flops(Node(graph, node)) for node in subgraph.nodes),
        )
        maker.update(dict.fromkeys(subgraph.outputs, subgraph.id))
    for subgraph in partitioning.subgraphs:
        crossing: dict[str, list[str]] = {}
        for value in subgraph.inputs:
            if value in maker:
                crossing.setdefault(maker[value], []).append(value)
        for source, values in crossing.items():
            size = sum(bytes_of(types.get(value)) for value in values)
            quotient.add_edge(source, subgraph.id, tensors=tuple(values), bytes=size)
    path, flops = _critical_path(partitioning, quotient)
    quotient.graph["critical_path"] = path
    quotient.graph["critical_flops"] = flops
    return quotient


def _critical_path(partitioning: PartitioningData, quotient: Any) -> tuple[tuple[str, ...], int]:
    """Return the heaviest chain; of equally heavy ones the longest, then the first in run order."""
    best: dict[str, tuple[int, int]] = {}
    before: dict[str, str | None] = {}
    for subgraph in partitioning.subgraphs:
        name = subgraph.id
        reached, before[name] = (0, 0), None
        for source in quotient.predecessors(name):
            if best[source] > reached:
                reached, before[name] = best[source], source
        best[name] = (reached[0] + quotient.nodes[name]["flops"], reached[1] + 1)
    if not best:
        return (), 0
    at: str | None = max(best, key=lambda name: best[name])
    flops = best[at][0] if at is not None else 0
    path = []
    while at is not None:
        path.append(at)
        at = before[at]
    return tuple(reversed(path)), flops
