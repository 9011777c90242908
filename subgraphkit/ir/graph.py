"""The graph and its nodes.

A graph stores its nodes as columns and makes ``Node`` views on demand. So a million nodes cost a
few lists, not a million objects.

Constants are initializers that a caller cannot override, and outputs of ``Constant`` nodes. They
are no dependencies, because they are known before a run. Every region that reads one may have its
own reference. Names that the bodies of If, Loop and Scan capture from outside are dependencies.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, overload

import numpy as np
import numpy.typing as npt

from subgraphkit.ir.adjacency import Adjacency
from subgraphkit.lazy import cached_property
from subgraphkit.types import DataType, Shape, TensorType, ValueType

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_NODES: Mapping[int, str] = MappingProxyType({})


WeightsPlace = Literal["inside", "outside"]
"""The place of the weights of a written model: in it, or left to its reader."""


class GraphWriter(Protocol):
    """Writes parts of a graph back as ONNX; supplied by the reader of the graph."""

    def subgraph_model(self, subgraph: Any, weights: WeightsPlace, *, notes: bool) -> Any:
        """Return a valid stand-alone ``ModelProto`` of a ``Subgraph``."""

    def node_proto(self, node: "Node") -> Any:
        """Return the ``NodeProto`` of a node."""


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class Initializer:
    """A named constant whose data is read when asked for, and shared while anyone holds it.

    Attributes:
        name: Name of the value.
        type: Element type and (static) shape.
        version: 0 as loaded; grows by one with every ``update_weights`` that replaces it.
        mapped: The mapped file and the offset of the data in it; None unless ``array`` is a view of
            a mapping.

    Thread-safety: safe; two threads may at worst read the same data twice.
    """

    name: str
    type: TensorType
    _read: Callable[[], npt.NDArray[Any]]
    version: int = 0
    mapped: tuple[Path, int] | None = None

    def array(self) -> npt.NDArray[Any]:
        """Return the data, read-only; strings are objects.

        Raises:
            InvalidModelError: If the payload cannot be read (SGK208, SGK211).
        """
        return self._read()

    def __array__(
        self,
        dtype: npt.DTypeLike | None = None,
        copy: bool | None = None,  # noqa: FBT001 (as NumPy calls it)
    ) -> npt.NDArray[Any]:
        """Return the data as ``array`` does, for functions of NumPy."""
        return np.array(self._read(), dtype, copy=copy)

    def __repr__(self) -> str:
        """Render as ``Initializer('w', float32[64,3,7,7])``."""
        return f"Initializer({self.name!r}, {self.type})"


@dataclass(frozen=True, slots=True)
class NodeTable:
    """The columns of a graph's nodes, one entry per node in file order.

    Attributes:
        op_types: Operator names.
        domains: Operator domains; the default domain is the empty string.
        names: Node names, possibly empty or repeated.
        inputs: Names of the values read; an empty string is an input left out.
        outputs: Names of the values made; an empty string is an output left out.
        attributes: Attributes by name, decoded when first looked at.
        bodies: For the nodes that have any, their bodies by attribute name.
    """

    op_types: Sequence[str]
    domains: Sequence[str]
    names: Sequence[str]
    inputs: Sequence[tuple[str, ...]]
    outputs: Sequence[tuple[str, ...]]
    attributes: Sequence[Mapping[str, Any]]
    bodies: Mapping[int, Mapping[str, "Graph"]] = field(default_factory=dict)


class Node:
    """A view of one node of a graph.

    Two views are equal if they show the same node of the same graph.

    Attributes:
        graph: The graph the node belongs to.
        id: Its place in the model's node list.
    """

    __slots__ = ("graph", "id")

    def __init__(self, graph: "Graph", id: int) -> None:  # noqa: A002 (the word of the contract)
        self.graph = graph
        self.id = id

    @property
    def op_type(self) -> str:
        """Operator name, such as ``Conv``."""
        return self.graph.table.op_types[self.id]

    @property
    def domain(self) -> str:
        """Operator domain; the default domain is the empty string."""
        return self.graph.table.domains[self.id]

    @property
    def qualified_op_type(self) -> str:
        """``Conv`` in the default domain, ``com.acme::Conv`` elsewhere."""
        domain = self.domain
        return f"{domain}::{self.op_type}" if domain else self.op_type

    @property
    def opset(self) -> int:
        """Version of the operator set the node is written against."""
        return self.graph.opset_imports.get(self.domain, 1)

    @property
    def name(self) -> str:
        """The node's own name, possibly empty or shared with other nodes."""
        return self.graph.table.names[self.id]

    @property
    def label(self) -> str:
        """How reports and messages name the node, such as ``#12 Conv 'conv_7'``."""
        name = f" {self.name!r}" if self.name else ""
        return f"#{self.id} {self.qualified_op_type}{name}"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the values read; an empty string is an input left out."""
        return self.graph.table.inputs[self.id]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values made; an empty string is an output left out."""
        return self.graph.table.outputs[self.id]

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes by name; tensors are arrays, graphs are in ``bodies``."""
        return self.graph.table.attributes[self.id]

    @property
    def bodies(self) -> Mapping[str, "Graph"]:
        """Graphs held by attributes (If, Loop, Scan), by attribute name."""
        return self.graph.table.bodies.get(self.id, _NOTHING)

    @property
    def captures(self) -> tuple[str, ...]:
        """Names of outer values that the bodies read, without repetition."""
        return self.graph.captures_of(self.id)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or ``default`` if the node does not have it."""
        return self.attributes.get(name, default)

    def input_type(self, index: int) -> ValueType | None:
        """Return the type of an input; None if it is left out or not known."""
        inputs = self.graph.table.inputs[self.id]
        return self.graph.types.get(inputs[index]) if index < len(inputs) else None

    def output_type(self, index: int = 0) -> ValueType | None:
        """Return the type of an output; None if it is left out or not known."""
        outputs = self.graph.table.outputs[self.id]
        return self.graph.types.get(outputs[index]) if index < len(outputs) else None

    def dtype(self, index: int = 0) -> DataType:
        """Return the element type of an input; ``UNDEFINED`` if it has none."""
        type_ = self.input_type(index)
        return type_.dtype if isinstance(type_, TensorType) else DataType.UNDEFINED

    def shape(self, index: int = 0) -> Shape | None:
        """Return the shape of an input; None if it is left out or its rank is not known."""
        type_ = self.input_type(index)
        return type_.shape if isinstance(type_, TensorType) else None

    def is_constant(self, index: int) -> bool:
        """Say whether an input is known before anything runs."""
        return index < len(self.inputs) and self.inputs[index] in self.graph.constants

    def constant(self, index: int) -> npt.NDArray[Any] | None:
        """Return the data of a constant input, read-only; None if it is not constant."""
        if not self.is_constant(index):
            return None
        return self.graph.constants[self.inputs[index]].array()

    def producer(self, index: int) -> "Node | None":
        """Return the node that makes an input; None for graph inputs and initializers."""
        inputs = self.inputs
        made_by = self.graph.producers.get(inputs[index]) if index < len(inputs) else None
        return None if made_by is None else Node(self.graph, made_by)

    def consumers(self) -> tuple["Node", ...]:
        """Return the nodes that read an output, ascending; captures by bodies count."""
        return tuple(Node(self.graph, i) for i in self.graph.adjacency.successors(self.id))

    def __eq__(self, other: object) -> bool:
        """Compare place and graph."""
        return isinstance(other, Node) and other.id == self.id and other.graph is self.graph

    def __hash__(self) -> int:
        """Hash the place."""
        return hash(self.id)

    def __repr__(self) -> str:
        """Render as ``Node(#12 Conv 'conv_7')``."""
        return f"Node({self.label})"


class _NodeList(Sequence[Node]):
    """The nodes of a graph as a sequence of views made on demand."""

    __slots__ = ("_graph",)

    def __init__(self, graph: "Graph") -> None:
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph.table.op_types)

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | Sequence[Node]:
        if isinstance(index, slice):
            return [Node(self._graph, i) for i in range(*index.indices(len(self)))]
        return Node(self._graph, range(len(self))[index])

    def __iter__(self) -> Iterator[Node]:
        graph = self._graph
        return (Node(graph, i) for i in range(len(self)))


@dataclass(frozen=True, eq=False)
class Graph:
    """A directed acyclic graph of nodes and values.

    Made by ``build_graph``, which checks the promises of the attributes below.

    Attributes:
        name: Name of the graph.
        table: The nodes, in file order.
        inputs: Names the caller must feed, in order.
        outputs: Names of the results, in order.
        initializers: Constants stored in the graph, by name.
        defaults: Initializers that are also inputs: used unless the caller feeds them.
        opset_imports: Version of each operator set by domain.
        types: Types of values, as far as known.
        producers: The node that makes each value.
        constants: All values known before anything runs: initializers and ``Constant`` outputs.
        adjacency: Dependencies between nodes.
        order: A topological order of the nodes; file order where that is one.
        captures: For the graph of a body, names read from outside.
        writer: Writes parts of the graph back as ONNX.
    """

    name: str
    table: NodeTable
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, Initializer]
    defaults: Mapping[str, Initializer]
    opset_imports: Mapping[str, int]
    types: Mapping[str, ValueType]
    producers: Mapping[str, int]
    constants: Mapping[str, Initializer]
    adjacency: Adjacency
    order: Sequence[int]
    captures: tuple[str, ...] = ()
    writer: GraphWriter | None = None

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes in file order, as views."""
        return _NodeList(self)

    @cached_property
    def output_names(self) -> frozenset[str]:
        """The graph's outputs as a set."""
        return frozenset(self.outputs)

    def is_output(self, value: str) -> bool:
        """Say whether a value is an output of the graph."""
        return value in self.output_names

    def captures_of(self, node: int) -> tuple[str, ...]:
        """Return the outer values that the bodies of a node read, without repetition."""
        bodies = self.table.bodies.get(node)
        if not bodies:
            return ()
        return tuple(dict.fromkeys(name for body in bodies.values() for name in body.captures))

    def read_by(self, node: int) -> tuple[str, ...]:
        """Return the names a node reads: its inputs and the captures of its bodies."""
        inputs = self.table.inputs[node]
        return (*inputs, *self.captures_of(node)) if node in self.table.bodies else inputs

    def is_constant_node(self, node: int) -> bool:
        """Say whether a node only states a constant and so never needs to run."""
        return self.table.op_types[node] == "Constant" and not self.table.domains[node]

    def dtype(self, value: str) -> DataType:
        """Return the element type of a tensor; ``UNDEFINED`` if not known or not a tensor."""
        type_ = self.types.get(value)
        return type_.dtype if isinstance(type_, TensorType) else DataType.UNDEFINED

    def shape(self, value: str) -> Shape | None:
        """Return the shape of a tensor; None if not known or not a tensor."""
        type_ = self.types.get(value)
        return type_.shape if isinstance(type_, TensorType) else None


def with_bodies(graph: Graph) -> Iterator[Graph]:
    """Go through a graph and the bodies in it, at any depth."""
    stack = [graph]
    while stack:
        one = stack.pop()
        yield one
        stack += [body for bodies in one.table.bodies.values() for body in bodies.values()]


@dataclass(frozen=True, eq=False)
class BoundGraph(Graph):
    """A graph whose values are all typed, for one choice of shapes.

    Every value has an entry in ``types``. Where ONNX cannot tell before running, an element type is
    ``UNDEFINED``, a shape is None, or a dimension is None.

    Attributes:
        symbols: Values given to named dimensions.
        left_out: Nodes that need not run and are not in ``order``, each with a reason such as
            ``computed at bind``. Their outputs are constants, or nobody reads them.
    """

    symbols: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    left_out: Mapping[int, str] = field(default_factory=lambda: _NO_NODES)

    def is_constant_node(self, node: int) -> bool:
        """Say whether a node only states a constant, or was left out, and so never needs to run."""
        return node in self.left_out or super().is_constant_node(node)


def body_graphs(node: Node) -> Iterator[BoundGraph]:
    """Yield the bodies of a node as graphs: captured values are inputs or constants."""
    outer = node.graph
    for body in node.bodies.values():
        kept = {one.name: getattr(body, one.name) for one in fields(Graph)}
        stated = {name: outer.constants[name] for name in body.captures if name in outer.constants}
        types = {name: outer.types[name] for name in body.captures if name in outer.types}
        kept |= {
            "inputs": (*body.inputs, *(name for name in body.captures if name not in stated)),
            "initializers": {**stated, **body.initializers},
            "constants": {**stated, **body.constants},
            "types": {**types, **body.types},
        }
        yield BoundGraph(**kept)
