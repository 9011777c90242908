"""Regions cut out of a graph: the values at their edges, and all that a compiler needs.

A *region* is any set of nodes. Its *boundary* is the values that cross its edge. An input is read
inside and made outside. An output is made inside, and is read outside or is an output of the graph.
A *subgraph* is a region with its boundary and the backend that is to run it.

Constants never cross: every region that reads one refers to it. No region returns an output of the
graph that is a constant, because it is known without a run.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, filterfalse
from typing import Any, NamedTuple, TypeVar

from subgraphkit.errors import InternalError
from subgraphkit.ir.graph import BoundGraph, Graph, Initializer, Node, WeightsPlace
from subgraphkit.lazy import cached_property
from subgraphkit.types import ValueType

_Bound = TypeVar("_Bound", bound=BoundGraph)


class Boundary(NamedTuple):
    """The values that cross the edge of a region.

    Attributes:
        inputs: Values to be fed, in order of first use.
        outputs: Values to be handed out, in order of production.
        constants: Names of constants read inside, in order of first use.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A region with its boundary and its backend, to be compiled.

    Attributes:
        id: Name of the subgraph within its partitioning: the backend and its first node. So
            repartitioning one region keeps the names of the others.
        backend: Name of the backend that claimed it.
        graph: The bound graph it was cut from.
        nodes: Everything to run, as indices into the model's node list, in an order in which they
            can run.
        inputs: Values to be fed, in the order of ``SubgraphOperator.run``.
        outputs: Values handed out, in the order of ``SubgraphOperator.run``.
        constants: Constants read inside, by name; their data is read when asked for.
        property_name: Name of the property that claimed it.
    """

    id: str
    backend: str
    graph: BoundGraph
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Initializer]
    property_name: str = ""

    def __post_init__(self) -> None:
        """Give the graph the subgraph's constants, which may have newer data."""
        known = self.graph.constants
        if any(known.get(name) is not stored for name, stored in self.constants.items()):
            graph = replace(self.graph, constants={**known, **self.constants})
            object.__setattr__(self, "graph", graph)

    @cached_property
    def members(self) -> tuple[Node, ...]:
        """The nodes to run, in order; ``Constant`` nodes are left out, see ``constants``."""
        graph = self.graph
        return tuple([Node(graph, i) for i in self.nodes if not graph.is_constant_node(i)])

    @property
    def input_types(self) -> tuple[ValueType | None, ...]:
        """Types of the inputs; None only for values of unknown operators."""
        return tuple(map(self.graph.types.get, self.inputs))

    @property
    def output_types(self) -> tuple[ValueType | None, ...]:
        """Types of the outputs; None only for values of unknown operators."""
        return tuple(map(self.graph.types.get, self.outputs))

    def to_model(self, *, weights: WeightsPlace = "inside", notes: bool = True) -> Any:
        """Return the subgraph as an ``onnx.ModelProto`` with typed inputs and outputs.

        Args:
            weights: ``"inside"`` makes a model that depends on nothing else. ``"outside"`` leaves
                the data of large constants out. Their initializers say ``EXTERNAL`` without a file,
                and ``onnx_io.outside_weights`` returns the arrays to hand to the library beside the
                model. Nothing is copied then, and the model stays below the 2 GiB that protobuf can
                take. Small constants, strings and elements of less than a byte are inside either
                way.
            notes: Whether nodes keep their ``doc_string`` and ``metadata_props``, which are most of
                the bytes of some models and which few libraries read.

        Raises:
            InternalError: If the graph was built without a writer.
        """
        if self.graph.writer is None:
            raise InternalError(f"the graph of subgraph {self.id!r} cannot be written as ONNX")
        return self.graph.writer.subgraph_model(self, weights, notes=notes)

    def __repr__(self) -> str:
        """Render as ``Subgraph('numpy_0', 176 nodes, 1 input, 1 output)``."""
        return (
            f"Subgraph({self.id!r}, {len(self.nodes)} nodes, "
            f"{len(self.inputs)} inputs, {len(self.outputs)} outputs)"
        )


def boundary(graph: Graph, region: Collection[int]) -> Boundary:
    """Find the values that cross the edge of one region, given in an order in which it can run."""
    readers = set(chain.from_iterable(map(graph.adjacency.successors, region)))
    read = {*chain.from_iterable(map(graph.read_by, readers.difference(region)))}
    made = chain.from_iterable(map(graph.table.outputs.__getitem__, region))
    dynamic = filterfalse(graph.constants.__contains__, filter(None, made))
    inputs, constants = _entering(graph, region)
    outputs = [value for value in dynamic if value in read or value in graph.output_names]
    return Boundary(inputs, tuple(dict.fromkeys(outputs)), constants)


def boundaries(
    graph: Graph, regions: Sequence[Sequence[int]], *, also_wanted: Collection[str] = ()
) -> list[Boundary]:
    """Find the values that cross the edges of many regions, in linear time, as ``boundary``.

    ``also_wanted``: Values that are read outside all of ``regions``.
    """
    entering = [_entering(graph, region) for region in regions]
    constants, made = graph.constants, graph.table.outputs
    wanted = {value for value in graph.outputs if value and value not in constants}
    wanted.update(also_wanted)
    for inputs, _ in entering:
        wanted.update(inputs)
    found = []
    for region, (inputs, read) in zip(regions, entering, strict=True):
        values = chain.from_iterable(map(made.__getitem__, region))
        found.append(Boundary(inputs, tuple(filter(wanted.__contains__, values)), read))
    return found


def _entering(graph: Graph, region: Collection[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values a region takes in and the constants it reads."""
    made, columns, bodies = graph.table.outputs, graph.table.inputs, graph.table.bodies
    constants = graph.constants
    # A small set of its own is looked up several times as fast as the graph's producers.
    made_inside = chain.from_iterable(map(made.__getitem__, region))
    inside = set(filterfalse(constants.__contains__, made_inside))
    rows: Iterable[tuple[str, ...]] = map(columns.__getitem__, region)
    if bodies and not bodies.keys().isdisjoint(region):
        rows = map(graph.read_by, region)
    crossing = dict.fromkeys(filterfalse(inside.__contains__, chain.from_iterable(rows)))
    inputs = tuple([value for value in crossing if value and value not in constants])
    return inputs, tuple(filter(constants.__contains__, crossing))


def make_subgraph(
    graph: BoundGraph,
    nodes: Sequence[int],
    backend: str,
    property_name: str = "",
    *,
    edge: Boundary | None = None,
) -> Subgraph:
    """Cut a region out of a graph.

    Args:
        graph: The bound graph.
        nodes: Node indices in an order in which they can run; at least one.
        backend: Name of the backend that is to run it.
        property_name: Name of the property that claimed it.
        edge: The region's boundary, if it is known already.
    """
    if edge is None:
        edge = boundary(graph, nodes)
    constants = graph.constants
    return Subgraph(
        id=f"{backend}_{min(nodes)}",
        backend=backend,
        graph=graph,
        nodes=tuple(nodes),
        inputs=edge.inputs,
        outputs=edge.outputs,
        constants={name: constants[name] for name in edge.constants},
        property_name=property_name,
    )


def within(graph: _Bound, subgraph: Subgraph) -> _Bound:
    """Return a graph as one subgraph of it sees it, to be cut again.

    Nodes and values are those of the graph, under the same numbers and names. ``order`` has the
    subgraph's nodes alone, and inputs and outputs are its boundary. Constants that the subgraph has
    new data of have it.
    """
    constants = graph.constants
    if any(constants[name] is not stored for name, stored in subgraph.constants.items()):
        constants = {**constants, **subgraph.constants}
    return replace(
        graph,
        name=subgraph.id,
        inputs=subgraph.inputs,
        outputs=subgraph.outputs,
        defaults={},
        order=subgraph.nodes,
        constants=constants,
    )


def last_uses(subgraphs: Sequence[Subgraph], kept: Collection[str]) -> list[tuple[str, ...]]:
    """Return, per subgraph in running order, the values that go after it; not the ``kept`` ones."""
    made = {value for subgraph in subgraphs for value in subgraph.outputs}
    seen = set(kept)
    drops: list[tuple[str, ...]] = []
    for subgraph in reversed(subgraphs):
        values = (*subgraph.inputs, *subgraph.outputs)
        last = [value for value in values if value in made and value not in seen]
        seen.update(last)
        drops.append(tuple(last))
    return drops[::-1]
