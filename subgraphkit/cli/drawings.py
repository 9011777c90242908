"""Partitionings as other programs draw them: Graphviz, and Google's Model Explorer."""

from collections import Counter
from itertools import pairwise
from typing import Any

from subgraphkit.ir import Node
from subgraphkit.partitioning import Partitioning
from subgraphkit.texts import counted
from subgraphkit.viewing import colours_of


def as_dot(partitioning: Partitioning) -> str:
    """Draw every subgraph as a box coloured by backend, and every value that crosses as an edge.

    The chain of subgraphs that does the most operations one after the other is drawn bold.
    """
    graph = partitioning.to_networkx()
    colours = colours_of(partitioning.backends)
    path = graph.graph["critical_path"]
    heavy = set(pairwise(path))
    lines = ["digraph partitioning {", "  rankdir=TB;", "  node [shape=box, style=filled];"]
    for name, facts in graph.nodes(data=True):
        label = f"{name}\n{counted(facts['nodes'], 'node')}"
        colour = _quoted(colours[facts["backend"]])
        lines.append(f"  {_quoted(name)} [label={_quoted(label)}, fillcolor={colour}];")
    for source, target, facts in graph.edges(data=True):
        label = "\n".join(facts["tensors"])
        bold = ", style=bold" if (source, target) in heavy else ""
        lines.append(f"  {_quoted(source)} -> {_quoted(target)} [label={_quoted(label)}{bold}];")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


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
        for node in (Node(graph, at) for at in subgraph.nodes):
            alone = node.name and names[node.name] == 1
            key = node.name if alone else next(filter(None, node.outputs), "")
            if key:
                results[key] = {"value": subgraph.backend, "bgColor": colours[subgraph.backend]}
    return {"name": "backend", "results": results}
