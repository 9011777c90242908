"""The backend of every node as node data of Model Explorer, Google's viewer of large graphs."""

from collections import Counter
from typing import Any

from subgraphkit.ir import Node
from subgraphkit.partitioning import Partitioning
from subgraphkit.viewing import colours_of

__all__ = ["as_node_data"]


def as_node_data(partitioning: Partitioning) -> dict[str, Any]:
    """Return who has every node, as ``GraphNodeData`` in Model Explorer's words.

    A node goes by its name, as in the graphs that the ONNX adapter makes, or by the first value it
    makes where it has no name or shares it.
    """
    graph = partitioning.graph
    names = Counter(graph.table.names)
    colours = colours_of(partitioning.backends)
    results = {}
    for subgraph in partitioning.subgraphs:
        for node in (Node(graph, at) for at in subgraph.home):
            alone = node.name and names[node.name] == 1
            key = node.name if alone else next(filter(None, node.outputs), "")
            if key:
                results[key] = {"value": subgraph.backend, "bgColor": colours[subgraph.backend]}
    return {"name": "backend", "results": results}
