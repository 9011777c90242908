"""The graph as subgraphkit sees it: frozen, indexed by integers, made for asking and cutting.

Nodes are numbered by their place in the model's node list, because ONNX node names may be empty or
repeated; values go by name, because ONNX graphs are single assignment. Dependencies are flat
integer arrays built once.

Names are imported when they are first used.

Source: ONNX IR specification, "Graphs".
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "MOST_AT_BIND": "subgraphkit.ir.effort",
    "Adjacency": "subgraphkit.ir.adjacency",
    "BoundGraph": "subgraphkit.ir.graph",
    "Boundary": "subgraphkit.ir.subgraph",
    "Bounds": "subgraphkit.ir.bounds",
    "Graph": "subgraphkit.ir.graph",
    "GraphWriter": "subgraphkit.ir.graph",
    "Initializer": "subgraphkit.ir.graph",
    "Node": "subgraphkit.ir.graph",
    "NodeTable": "subgraphkit.ir.graph",
    "Subgraph": "subgraphkit.ir.subgraph",
    "WeightsPlace": "subgraphkit.ir.graph",
    "boundaries": "subgraphkit.ir.subgraph",
    "boundary": "subgraphkit.ir.subgraph",
    "build_graph": "subgraphkit.ir.building",
    "effort_of": "subgraphkit.ir.effort",
    "elements": "subgraphkit.ir.effort",
    "integer_bounds": "subgraphkit.ir.bounds",
    "last_uses": "subgraphkit.ir.subgraph",
    "make_subgraph": "subgraphkit.ir.subgraph",
    "within": "subgraphkit.ir.subgraph",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
