"""Static arithmetic, computed at bind, and nodes that change nothing, taken out.

A node that reads nothing but constants makes one. Its value is computed when somebody first reads
it, by the fallback backend, and is a constant of the graph by its own name. What is computed from
sizes was computed with the types. What nobody reads any more, and copies, leave as well.

Nodes keep their numbers; those that left are not in the order of the graph.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.property import BindContext, SubgraphProperty
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.errors import InternalError, SubgraphkitError
from subgraphkit.finding.opening import open_fallback
from subgraphkit.ir import (
    MOST_AT_BIND,
    Adjacency,
    Boundary,
    BoundGraph,
    Initializer,
    Node,
    effort_of,
    elements,
    make_subgraph,
)
from subgraphkit.lazy import cached_property
from subgraphkit.onnx_io.weights import share_array
from subgraphkit.types import DataType, TensorType

# What is computed may always be as large as this.
_SMALL_BYTES: Final = 64 << 10

# Else no larger than this times the stored constants it is computed from.
_GROWTH: Final = 2

# Weights that one element fills, as in models without data, may be this many times the limit.
_FILLED: Final = 8

# All that is computed may take this much for each element that the model stores, and as much as
# is not noticed.
_EFFORT: Final = 128

_PRODUCTS: Final = frozenset(
    {"Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN"}
)
# Random ones; and those that say how a network is quantized, which libraries look for.
_LEFT_ALONE: Final = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike", "Constant", "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"}
)  # fmt: skip

_COPIES: Final = frozenset({"Cast", "Dropout", "Identity"})
# Dropout does nothing from this version on, unless it says that it trains.
_FIRST_OPSET: Final = 7

# Values up to this size are kept; larger ones are computed again once nobody holds them.
_KEPT_BYTES: Final = 64 << 10

_Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class BoundFolding:
    """What was computed at bind, and how to compute it again.

    Attributes:
        source: The graph before.
        values: Small values that inference computed.
        sources: For every value that was computed, the stored constants it depends on.

    Thread-safety: safe; two threads may at worst compute the same value twice.
    """

    source: BoundGraph
    values: Mapping[str, _Array]
    settings: ResolvedConfig
    sources: dict[str, frozenset[str]] = field(default_factory=dict)

    def refold(
        self, changed: Mapping[str, Initializer], current: Mapping[str, Initializer]
    ) -> dict[str, Initializer]:
        """Return what depends on constants that have changed, to be computed anew."""
        stale = [name for name, read in self.sources.items() if not read.isdisjoint(changed)]
        renewed = dict(current)
        for name in stale:
            version = current[name].version + 1
            renewed[name] = self.initializer(name, renewed, version)
        return {name: renewed[name] for name in stale}

    def takes(self, node: Node) -> bool:
        """Say whether the fallback backend runs a node."""
        return self._opened is not None and bool(self._opened[2].select(node))

    def initializer(
        self, name: str, constants: Mapping[str, Initializer], version: int = 0
    ) -> Initializer:
        """Return a value as a constant that is computed when first read."""
        type_ = self.source.types[name]
        assert isinstance(type_, TensorType)  # noqa: S101 (nothing else is computed)
        compute = partial(self._compute_value, name, constants)
        keeps = (type_.nbytes or 0) <= _KEPT_BYTES
        return Initializer(name, type_, share_array(compute, keeps=keeps), version)

    def _compute_value(self, name: str, constants: Mapping[str, Initializer]) -> _Array:
        """Compile and run all that a value depends on."""
        if self._opened is None:
            raise InternalError(f"nobody computes value {name!r}")
        backend, property_, _ = self._opened
        nodes, read = self._ancestors(name, constants)
        graph = replace(self.source, constants={**self.source.constants, **read})
        subgraph = make_subgraph(
            graph, nodes, backend.name, edge=Boundary((), (name,), tuple(read))
        )
        limits = self.settings.limits.within(self.settings.max_memory)
        context = BindContext(backend.option_values, limits=limits)
        operator = property_.create_operator(subgraph, context)
        try:
            (found,) = operator.run(())
        finally:
            operator.close()
        value = np.asarray(found)
        value.setflags(write=False)
        return value

    def _ancestors(
        self, name: str, constants: Mapping[str, Initializer]
    ) -> tuple[list[int], dict[str, Initializer]]:
        """Return the nodes to compute a value by, in order, and the constants that they read."""
        graph = self.source
        found: set[int] = set()
        read: dict[str, Initializer] = {}
        waiting = [name]
        while waiting:
            node = graph.producers[waiting.pop()]
            if node in found:
                continue
            found.add(node)
            for value in filter(None, graph.table.inputs[node]):
                is_known = value in self.values and not constants[value].version
                if value in graph.constants or is_known:
                    read[value] = constants[value]
                else:
                    waiting.append(value)
        return sorted(found, key=self._ranks.__getitem__), read

    @cached_property
    def _ranks(self) -> dict[int, int]:
        return {node: rank for rank, node in enumerate(self.source.order)}

    @cached_property
    def _opened(self) -> tuple[Backend, SubgraphProperty, SubgraphSelector] | None:
        """Open the fallback backend; what is wrong with it is said when nodes are left to it."""
        try:
            backend = open_fallback(self.settings)
            property_ = next(iter(backend.properties()), None) if backend is not None else None
        except SubgraphkitError:
            return None
        if backend is None or property_ is None:
            return None
        return backend, property_, property_.create_selector(self.source)


def fold(
    source: BoundGraph, values: Mapping[str, _Array], settings: ResolvedConfig
) -> tuple[BoundGraph, BoundFolding]:
    """Compute what is known, and take out what need not run.

    UnsupportedModelError (SGK216): more would be computed than the limits allow, now or later.
    """
    work = _Work(source, values, settings)
    work.look_at_every_node()
    work.take_out_unread()
    return work.graph(), work.folding


class _Work:
    """One pass over a graph."""

    def __init__(
        self, graph: BoundGraph, values: Mapping[str, _Array], settings: ResolvedConfig
    ) -> None:
        self.folding = BoundFolding(graph, values, settings)
        self._graph = graph
        self._values = values
        self._constants = dict(graph.constants)
        self._left_out = dict(graph.left_out)
        self._renamed: dict[str, str] = {}
        self._captured = {name for node in graph.table.bodies for name in graph.captures_of(node)}
        self._bytes = {name: one.type.nbytes or 0 for name, one in graph.constants.items()}
        self._limits = limits = settings.limits.within(settings.max_memory)
        self._left = limits.bind_bytes + sum(self._bytes.values())
        stored = sum(elements(one.type.shape) for one in graph.constants.values())
        self._effort = MOST_AT_BIND + _EFFORT * stored
        # What depends on constants alone, if others are left to compute it, and on which.
        self._static: dict[str, frozenset[str]] = {}
        self._cost = 0

    def look_at_every_node(self) -> None:
        """Compute what can be, and look for copies."""
        graph, constants, static = self._graph, self._constants, self._static
        op_types, inputs, outputs = graph.table.op_types, graph.table.inputs, graph.table.outputs
        for node in graph.order:
            made, read = outputs[node], inputs[node]
            if len(made) == 1 and made[0] in self._values:
                self._compute(node, is_known=True)
            # One look is enough for most nodes.
            elif (
                read
                and (not read[0] or read[0] in constants or read[0] in static)
                and self._is_computable(node)
            ):
                self._compute(node, is_known=False)
            elif op_types[node] in _COPIES:
                self._take_copy_out(Node(graph, node))

    def take_out_unread(self) -> None:
        """Take out the nodes that nothing is read of, and so on."""
        graph, renamed = self._graph, self._renamed
        inputs, outputs, bodies = graph.table.inputs, graph.table.outputs, graph.table.bodies
        needed = set(graph.outputs)
        for node in reversed(graph.order):
            if node in self._left_out:
                continue
            if needed.isdisjoint(filter(None, outputs[node])):
                self._left_out[node] = "nothing reads it"
                continue
            needed.update(inputs[node])
            if node in bodies:
                needed.update(graph.captures_of(node))
            if renamed:
                needed.update(renamed[name] for name in inputs[node] if name in renamed)

    def graph(self) -> BoundGraph:
        """Return the graph that is left."""
        graph, gone = self._graph, self._left_out
        if not gone:
            return graph
        table = graph.table
        if self._renamed:
            inputs = [tuple([self._renamed.get(n, n) for n in row]) for row in table.inputs]
            table = replace(table, inputs=inputs)
        renamed = replace(graph, table=table, constants=self._constants, left_out=gone)
        return replace(
            renamed,
            order=[node for node in graph.order if node not in gone],
            adjacency=Adjacency.from_predecessors(_dependencies(renamed, graph.adjacency)),
        )

    def _is_computable(self, node: int) -> bool:
        table = self._graph.table
        known, read = self._constants, [name for name in table.inputs[node] if name]
        if table.domains[node] or node in table.bodies:
            return False
        if not all(name in known or name in self._static for name in read):
            return False
        view = Node(self._graph, node)
        self._require_bounded(view)
        at_hand = all(name in known for name in read)
        if at_hand and self._is_worth_it(view):
            return True
        sources = self._sources_of(node)
        for name in table.outputs[node]:
            self._static[name] = sources | {name} if self._fills(view) else sources
        return False

    def _require_bounded(self, node: Node) -> None:
        """Hold what a node makes of constants against the limits.

        Whoever runs what is left of the graph computes it as well, many while they compile.
        """
        limits = self._limits
        read, made = ([self._elements(n) for n in names] for names in (node.inputs, node.outputs))
        most = max(made, default=0)
        if most > limits.max_elements:
            allowed = _GROWTH * sum(map(self._elements, self._sources_of(node.id)))
            readers = {one.op_type for one in node.consumers()}
            if self._fills(node) and readers and readers <= _PRODUCTS:
                allowed = max(allowed, _FILLED * limits.max_elements)
            if most > allowed:
                name = node.outputs[made.index(most)]
                limits.require("max_elements", most, f"value {name!r}, known at bind,")
        is_product = node.op_type in _PRODUCTS
        self._cost += most * math.isqrt(max(read)) if is_product else max(most, *read)
        if self._cost > limits.max_cost:
            limits.require("max_cost", self._cost, "what is computed from constants")

    def _fills(self, node: Node) -> bool:
        """Say whether a node repeats one element."""
        is_one = node.op_type == "Expand" and self._elements(node.inputs[0]) == 1
        return is_one or node.op_type == "ConstantOfShape"

    def _elements(self, name: str) -> int:
        return elements(self._graph.shape(name)) if name else 0

    def _is_worth_it(self, node: Node) -> bool:
        type_ = node.output_type()
        if node.op_type in _LEFT_ALONE or len(node.outputs) > 1 or not any(node.inputs):
            return False
        if not isinstance(type_, TensorType) or type_.dtype == DataType.STRING:
            return False
        size, sources = type_.nbytes, self._sources_of(node.id)
        if size is None or size > self._left:
            return False
        stored = sum(self._bytes[name] for name in sources)
        if node.op_type != "ConstantOfShape" and size > max(_SMALL_BYTES, _GROWTH * stored):
            return False
        return self.folding.takes(node) and self._takes_little(node, sources)

    def _takes_little(self, node: Node, sources: frozenset[str]) -> bool:
        """Say whether there is enough left of the effort that may be made; if so, take it."""
        # A weight that is filled is a weight like one that is stored.
        effort = 0 if node.op_type == "ConstantOfShape" else effort_of(node)
        stored = sum(self._elements(name) for name in sources if name in self._graph.constants)
        if effort > min(MOST_AT_BIND + _EFFORT * stored, self._effort):
            return False
        self._effort -= effort
        return True

    def _sources_of(self, node: int) -> frozenset[str]:
        """Return the constants a node depends on: stored ones, and fillings of one element."""
        found: set[str] = set()
        for name in self._graph.table.inputs[node]:
            if name in self.folding.sources:
                found |= self.folding.sources[name]
            elif name in self._static:
                found |= self._static[name]
            elif name in self._graph.constants:
                found.add(name)
        return frozenset(found)

    def _compute(self, node: int, *, is_known: bool) -> None:
        (name,) = self._graph.table.outputs[node]
        self.folding.sources[name] = self._sources_of(node)
        if is_known:
            value = self._values[name]
            type_ = TensorType(self._graph.dtype(name), value.shape)
            self._constants[name] = Initializer(name, type_, lambda: value)
        else:
            self._constants[name] = self.folding.initializer(name, self._constants)
            self._bytes[name] = self._constants[name].type.nbytes or 0
            self._left -= self._bytes[name]
            if self._graph.table.op_types[node] == "ConstantOfShape":
                # A weight like one that is stored, for what is computed from it.
                self.folding.sources[name] |= {name}
        self._left_out[node] = "computed at bind"

    def _take_copy_out(self, node: Node) -> None:
        output, *others = node.outputs
        if not output or self._graph.is_output(output) or output in self._captured:
            return
        if any(others) or not _is_copy(node):
            return
        (original, *_) = node.inputs
        self._renamed[output] = self._renamed.get(original, original)
        self._left_out[node.id] = f"a copy of {original!r}"


def _is_copy(node: Node) -> bool:
    """Say whether the first output of a node is its first input unchanged."""
    if node.domain:
        return False
    if node.op_type == "Cast":
        return bool(node.dtype() == node.attribute("to"))
    if node.op_type == "Dropout":
        if node.opset < _FIRST_OPSET:
            return False
        if len(node.inputs) > 2 and node.inputs[2]:  # noqa: PLR2004 (whether it trains)
            trains = node.constant(2)
            return trains is not None and not trains.any()
    return True


def _dependencies(graph: BoundGraph, earlier: Adjacency) -> Iterator[Sequence[int]]:
    """Go through the nodes, with those that each waits for."""
    find, constants, gone = graph.producers.get, graph.constants, graph.left_out
    nodes_gone = frozenset(gone)
    for node in range(len(graph.table.op_types)):
        row: Sequence[int] = () if node in gone else earlier.predecessors(node)
        if row and not nodes_gone.isdisjoint(row):
            makers = [find(name) for name in graph.read_by(node) if name not in constants]
            row = tuple(dict.fromkeys(made_by for made_by in makers if made_by is not None))
        yield row
