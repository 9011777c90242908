# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.ir.adjacency import (
    Adjacency,
)
from subgraphkit.ir.bounds import (
    Bounds,
    integer_bounds,
)
from subgraphkit.ir.building import (
    build_graph,
)
from subgraphkit.ir.effort import (
    MOST_AT_BIND,
    effort_of,
    elements,
)
from subgraphkit.ir.graph import (
    BoundGraph,
    Graph,
    GraphWriter,
    Initializer,
    Node,
    NodeTable,
    WeightsPlace,
)
from subgraphkit.ir.subgraph import (
    Boundary,
    Subgraph,
    boundaries,
    boundary,
    last_uses,
    make_subgraph,
    within,
)

__all__ = [
    "MOST_AT_BIND",
    "Adjacency",
    "BoundGraph",
    "Boundary",
    "Bounds",
    "Graph",
    "GraphWriter",
    "Initializer",
    "Node",
    "NodeTable",
    "Subgraph",
    "WeightsPlace",
    "boundaries",
    "boundary",
    "build_graph",
    "effort_of",
    "elements",
    "integer_bounds",
    "last_uses",
    "make_subgraph",
    "within",
]
