"""Indexing a graph: producers of values, dependencies of nodes, and whether it is valid."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir.adjacency import Adjacency
from subgraphkit.ir.graph import Graph, GraphWriter, Initializer, NodeTable
from subgraphkit.texts import count_of
from subgraphkit.types import ValueType


def build_graph(  # noqa: PLR0913 (one keyword per part of a graph)
    *,
    name: str,
    table: NodeTable,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    initializers: Mapping[str, Initializer],
    defaults: Mapping[str, Initializer],
    opset_imports: Mapping[str, int],
    types: Mapping[str, ValueType],
    node_constants: Mapping[str, Initializer],
    is_body: bool = False,
    writer: GraphWriter | None = None,
) -> Graph:
    """Index a graph and check that it is acyclic and single assignment (SGK203, SGK204, SGK205).

    ``inputs``: Names the caller must feed.
    """
    given = {**dict.fromkeys(inputs), **initializers, **defaults}
    producers = _producers(name, table, given)
    adjacency, missing = _dependencies(table, producers, given, node_constants)
    for value in outputs:
        if value and value not in producers and value not in given:
            missing.setdefault(value, -1)
    if missing and not is_body:
        _raise_undefined(name, table, missing)
    if (order := adjacency.topological_order()) is None:
        _raise_cycle(name, table, adjacency)
    return Graph(
        name=name,
        table=table,
        inputs=inputs,
        outputs=outputs,
        initializers=initializers,
        defaults=defaults,
        opset_imports=opset_imports,
        types=types,
        producers=producers,
        constants={**initializers, **node_constants},
        adjacency=adjacency,
        order=order,
        captures=tuple(missing),
        writer=writer,
    )


def _producers(graph: str, table: NodeTable, given: Mapping[str, Any]) -> dict[str, int]:
    producers: dict[str, int] = {}
    for node, outputs in enumerate(table.outputs):
        for value in outputs:
            if not value:
                continue
            if value in producers or value in given:
                first = producers.get(value)
                before = "an input or initializer" if first is None else _label(table, first)
                raise InvalidModelError(
                    "SGK204",
                    f"value {value!r} of graph {graph!r} is made twice: by {before} and by "
                    f"{_label(table, node)}",
                    hint="Every value of an ONNX graph is assigned once; rename one of the two.",
                    value=value,
                )
            producers[value] = node
    return producers


def _dependencies(
    table: NodeTable,
    producers: Mapping[str, int],
    given: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> tuple[Adjacency, dict[str, int]]:
    """Return the dependencies, and the names nobody makes with the first node that reads them."""
    missing: dict[str, int] = {}
    find = producers.get
    bodies = table.bodies

    def rows() -> Iterator[Sequence[int]]:
        for node, inputs in enumerate(table.inputs):
            row: dict[int, None] = {}
            values = inputs
            if node in bodies:
                captured = (c for body in bodies[node].values() for c in body.captures)
                values = (*inputs, *captured)
            for value in values:
                if (made_by := find(value)) is None:
                    if value and value not in given:
                        missing.setdefault(value, node)
                elif value not in constants:
                    row[made_by] = None
            yield tuple(row)

    return Adjacency.from_predecessors(rows()), missing


def _label(table: NodeTable, node: int) -> str:
    name = f" {table.names[node]!r}" if table.names[node] else ""
    return f"node #{node} {table.op_types[node]}{name}"


def _raise_undefined(graph: str, table: NodeTable, missing: Mapping[str, int]) -> NoReturn:
    value, node = next(iter(missing.items()))
    reader = "the graph's outputs" if node < 0 else _label(table, node)
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    raise InvalidModelError(
        "SGK205",
        f"value {value!r} of graph {graph!r} is read by {reader} but nothing makes it{more}",
        hint="Declare it as an input or initializer, or correct the name.",
        values=tuple(missing),
    )


def _raise_cycle(graph: str, table: NodeTable, adjacency: Adjacency) -> NoReturn:
    cycle = adjacency.find_cycle()
    shown = [_label(table, node) for node in [*cycle[:6], *cycle[:1]]]
    if len(cycle) > len(shown) - 1:
        shown.insert(-1, f"... {len(cycle) - len(shown) + 1} more ...")
    nodes = count_of(len(cycle), "node")
    raise InvalidModelError(
        "SGK203",
        f"graph {graph!r} has a cycle of {nodes}: " + " -> ".join(shown),
        hint="An ONNX graph must be acyclic; repetition is expressed with Loop or Scan.",
        nodes=tuple(cycle),
    )
