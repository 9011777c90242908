"""Static arithmetic, computed at bind, and nodes that change nothing, taken out.

A node that reads only constants makes a constant of the graph, by its own name. Arithmetic on sizes
was computed with the types. Copies, repeated nodes and nodes without readers leave as well.

Nodes keep their numbers; those that left are not in the order of the graph.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy.typing as npt

from subgraphkit.binding.computed import BoundFolding
from subgraphkit.binding.repeats import Repeats
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.ir import (
    MOST_AT_BIND,
    Adjacency,
    BoundGraph,
    Initializer,
    Node,
    effort_of,
    elements,
)
from subgraphkit.types import DataType, TensorType

# A computed value may always be as large as this.
_SMALL_BYTES: Final = 1 << 20

# Else no larger than this times the stored constants it is computed from.
_GROWTH: Final = 2

# Weights that one element fills, as in models without data, may be this many times the limit.
_FILLED: Final = 8

# All computing may take this much for each element that the model stores, and an amount that nobody
# notices.
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

_Array = npt.NDArray[Any]


def fold(
    source: BoundGraph, values: Mapping[str, _Array], settings: ResolvedConfig
) -> tuple[BoundGraph, BoundFolding]:
    """Compute known values, and take out nodes that need not run.

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
        self._repeats = Repeats(graph, values, self.folding.sources)
        captured = (graph.captures_of(node) for node in graph.table.bodies)
        # Their readers use these names.
        self._kept = {*graph.outputs}.union(*captured)
        self._bytes = {name: one.type.nbytes or 0 for name, one in graph.constants.items()}
        self._limits = limits = settings.limits.within(settings.max_memory)
        self._left = limits.bind_bytes + sum(self._bytes.values())
        stored = sum(elements(one.type.shape) for one in graph.constants.values())
        self._effort = MOST_AT_BIND + _EFFORT * stored
        # Values that depend on constants alone but are left to the run, with these constants.
        self._static: dict[str, frozenset[str]] = {}
        self._cost = 0

    def look_at_every_node(self) -> None:
        """Compute nodes, and look for repeats and copies."""
        graph, constants, static = self._graph, self._constants, self._static
        op_types, inputs, outputs = graph.table.op_types, graph.table.inputs, graph.table.outputs
        for node in graph.order:
            made, read = outputs[node], inputs[node]
            if len(made) == 1 and made[0] in self._values:
                self._compute(node, is_known=True)
            elif (op_types[node] in _COPIES and self._take_copy_out(Node(graph, node))) or (
                op_types[node] not in _LEFT_ALONE and self._take_repeat_out(node)
            ):
                pass
            # One look is enough for most nodes.
            elif (
                read
                and (not read[0] or read[0] in constants or read[0] in static)
                and self._is_computable(node)
            ):
                self._compute(node, is_known=False)

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
        """Compare a node's results from constants with the limits.

        Backends compute the nodes left to the run as well, many of them while they compile.
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
                # A weight like a stored one, for values computed from it.
                self.folding.sources[name] |= {name}
        self._left_out[node] = "computed at bind"

    def _take_copy_out(self, node: Node) -> bool:
        output, *others = node.outputs
        if not output or output in self._kept:
            return False
        if any(others) or not _is_copy(node):
            return False
        (original, *_) = node.inputs
        self._rename(output, self._renamed.get(original, original))
        self._left_out[node.id] = f"a copy of {original!r}"
        return True

    def _take_repeat_out(self, node: int) -> bool:
        """Have the readers of a node read an earlier one's results, if that computes the same."""
        table = self._graph.table
        if table.domains[node] or node in table.bodies:
            return False
        original = self._repeats.original(node)
        if original is None or not self._kept.isdisjoint(filter(None, table.outputs[node])):
            return False
        for name, other in zip(self._names_read(node), self._names_read(original), strict=True):
            if name != other:  # equal, and so its sources stay
                known = self.folding.sources
                for stated in {name, other}.union(known.get(name, ()), known.get(other, ())):
                    known.setdefault(stated, frozenset())
        for name, other in zip(table.outputs[node], table.outputs[original], strict=False):
            self._rename(name, other)
        self._left_out[node] = f"the same as {self._graph.nodes[original].label}"
        return True

    def _rename(self, name: str, other: str) -> None:
        """Have the readers of one value read another; facts about that hold for it."""
        if not name:
            return
        self._renamed[name] = other
        self._repeats.rename(name, other)
        if other in self._constants:
            self._constants[name] = self._constants[other]
            sources = self.folding.sources
            sources[name] = sources.get(other, frozenset({other}))
        elif other in self._static:
            self._static[name] = self._static[other]

    def _names_read(self, node: int) -> list[str]:
        return [self._renamed.get(name, name) for name in self._graph.table.inputs[node]]


def _is_copy(node: Node) -> bool:
    """Say whether the first output of a node is its first input unchanged."""
    if node.domain:
        return False
    if node.op_type == "Cast":
        return bool(node.dtype() == node.attribute("to"))
    if node.op_type == "Dropout":
        if node.opset < _FIRST_OPSET or (any(node.inputs[1:2]) and not node.is_constant(1)):
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
