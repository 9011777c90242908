"""The graph of the subgraphs in the DOT language of Graphviz."""

from itertools import pairwise
from typing import Any

from subgraphkit.partitioning import Partitioning
from subgraphkit.texts import counted
from subgraphkit.viewing import COLOURS

__all__ = ["as_dot"]


def as_dot(partitioning: Partitioning) -> str:
    """Draw every subgraph as a box coloured by backend, and every value that crosses as an edge.

    The chain of subgraphs that does the most operations one after the other is drawn bold.
    """
    graph = partitioning.to_networkx()
    colours = {
        backend: COLOURS[place % len(COLOURS)]
        for place, backend in enumerate(partitioning.backends)
    }
    path = graph.graph["critical_path"]
    heavy = set(pairwise(path))
    lines = ["digraph partitioning {", "  rankdir=TB;", "  node [shape=box, style=filled];"]
    for name, facts in graph.nodes(data=True):
        label = f"{name}\n{counted(facts['nodes'], 'node')}"
        lines.append(f"  {_quoted(name)} [label={_quoted(label)}, {_fill(colours, facts)}];")
    for source, target, facts in graph.edges(data=True):
        label = "\n".join(facts["tensors"])
        bold = ", style=bold" if (source, target) in heavy else ""
        lines.append(f"  {_quoted(source)} -> {_quoted(target)} [label={_quoted(label)}{bold}];")
    return "\n".join([*lines, "}"])


def _fill(colours: dict[str, str], facts: dict[str, Any]) -> str:
    return f"fillcolor={_quoted(colours[facts['backend']])}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
