"""Backends described by one line of text, and a short text of a partitioning, for tests.

A line such as ``main: Exp Add; connectivity=any; min_nodes=2`` is a backend of that name that takes
those operators (``*`` for all). Settings: ``connectivity``, ``min_nodes``, ``max_nodes``,
``border=int64`` (a dtype that may not cross its edges), ``pattern=Conv>BatchNormalization>Add``,
``ends`` (a stateful selector whose filter keeps the first and last candidate only), ``whole`` (the
same, but not splittable).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import onnx

import subgraphkit as sk
from subgraphkit.backend import Side
from subgraphkit.backend.contract import Backend
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import OpSelector, PatternSelector, SubgraphSelector
from subgraphkit.binding import BoundModel
from subgraphkit.ir import BoundGraph, Node, NodeTable, build_graph
from subgraphkit.partitioning import Partitioning
from subgraphkit.types import DataType, TensorType
from tests.models import parsed


def bound(source: str | onnx.ModelProto, **settings: Any) -> BoundModel:
    """Bind a model, or the text of a graph, with no backend and no fallback."""
    model = parsed(source) if isinstance(source, str) else source
    settings = {"backend": "none", "fallback": "none", "fold": False, **settings}
    return sk.bind(sk.load(model), **settings)


class All(SubgraphSelector):
    """Takes everything."""

    stateless = True

    def select(self, node: Node) -> bool:
        return True


class Ends(SubgraphSelector):
    """Grows over some operators and then keeps the first and the last candidate."""

    def __init__(self, operators: Iterable[str]) -> None:
        self.operators = frozenset(operators)

    def select(self, node: Node) -> bool | Refusal:
        if node.op_type in self.operators:
            return True
        return Refusal("op_unsupported", f"operator {node.op_type} is not in the list")

    def filter(self, candidates: Sequence[Node]) -> Sequence[Node]:
        return [candidates[0], candidates[-1]] if len(candidates) > 1 else candidates


class Whole(Ends):
    splittable = False


class DescribedProperty(SubgraphProperty):
    """A property made of a description."""

    name = "main"

    def __init__(self, make: Callable[[BoundGraph], SubgraphSelector]) -> None:
        self._make = make
        self.prepared = 0
        self.finished: list[object] = []

    def prepare(self, graph: BoundGraph, context: object) -> None:
        self.prepared += 1

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        return self._make(graph)

    def finish(self, partitioning: object, context: object) -> None:
        self.finished.append(partitioning)


def backend(name: str, *properties: SubgraphProperty) -> Backend:
    """Make an instance of a backend with these properties."""

    class Made(Backend):
        def properties(self) -> Sequence[SubgraphProperty]:
            return properties

    Made.name = name
    return Made()


def selecting(
    make: Callable[[BoundGraph], SubgraphSelector], name: str = "fake", /, **settings: Any
) -> Backend:
    """Make a backend of one property with the selector ``make(graph)``."""
    property_ = DescribedProperty(make)
    for key, value in settings.items():
        setattr(property_, key, value)
    return backend(name, property_)


def taking(operators: str, name: str = "fake", /, **settings: Any) -> Backend:
    """Make a backend that takes some operators, ``*`` for all."""
    listed = operators.split()
    if listed == ["*"]:
        return selecting(lambda _: All(), name, **settings)
    return selecting(lambda graph: OpSelector(graph, listed), name, **settings)


def described(line: str, connectivity: str = "connected") -> Backend:
    """Read a backend's description."""
    name, _, rest = line.partition(":")
    operators, *settings = (part.strip() for part in rest.split(";"))
    given = {key: value for key, _, value in (one.partition("=") for one in settings)}
    made = taking(operators, name.strip())
    property_ = made.properties()[0]
    assert isinstance(property_, DescribedProperty)
    property_.connectivity = given.pop("connectivity", connectivity)
    for key in ("min_nodes", "max_nodes"):
        if key in given:
            setattr(property_, key, int(given.pop(key)))
    for key, value in given.items():
        _SETTINGS[key](property_, value, operators.split())
    return made


def _no_border(property_: DescribedProperty, dtype: str, _: Sequence[str]) -> None:
    def accept(node: Node, value: str, side: Side) -> bool:
        del side
        return node.graph.dtype(value).label != dtype

    property_.accept_boundary = accept


def _pattern(property_: DescribedProperty, pattern: str, _: Sequence[str]) -> None:
    property_._make = lambda graph: PatternSelector(graph, [pattern.split(">")])


def _ends(property_: DescribedProperty, _: str, operators: Sequence[str]) -> None:
    property_._make = lambda _: Ends(operators)


def _whole(property_: DescribedProperty, _: str, operators: Sequence[str]) -> None:
    property_._make = lambda _: Whole(operators)


_SETTINGS = {"border": _no_border, "pattern": _pattern, "ends": _ends, "whole": _whole}


def regions(partitioning: Partitioning, name: str) -> list[list[int]]:
    """Return the nodes of a backend's subgraphs, each ascending, ordered by first node."""
    found = [sorted(s.nodes) for s in partitioning.subgraphs if s.backend == name]
    return sorted(found)


def shown(partitioning: Partitioning) -> str:
    """Return a short text: subgraphs with nodes and edges, then refusals by node."""
    lines = []
    for subgraph in partitioning.subgraphs:
        nodes = " ".join(map(str, subgraph.nodes))
        ends = f"{', '.join(subgraph.inputs)} -> {', '.join(subgraph.outputs)}"
        lines.append(f"{subgraph.id}: nodes {nodes}; {ends.strip()}")
    for node, refused in partitioning.refusals.items():
        label = partitioning.graph.nodes[node].label
        lines += [f"{label} refused by {one.backend}: {one.refusal}" for one in refused]
    for one in partitioning.quality.backends:
        budget = "" if one.maximal else ", budget ended"
        lines.append(f"{one.backend}: {one.regions} of at least {one.lower_bound}{budget}")
    return "\n".join(lines)


def graph_of(
    rows: Sequence[tuple[str, Sequence[str], Sequence[str]]], outputs: Sequence[str]
) -> BoundModel:
    """Index a graph of ``(operator, inputs, outputs)`` without going through ONNX.

    Names nobody makes are inputs; every value is ``float32[4]``.
    """
    table = NodeTable(
        op_types=[row[0] for row in rows],
        domains=[""] * len(rows),
        names=[""] * len(rows),
        inputs=[tuple(row[1]) for row in rows],
        outputs=[tuple(row[2]) for row in rows],
        attributes=[{}] * len(rows),
    )
    made = {name for row in rows for name in row[2]}
    inputs = tuple(dict.fromkeys(n for row in rows for n in row[1] if n and n not in made))
    type_ = TensorType(DataType.FLOAT, (4,))
    graph = build_graph(
        name="made",
        table=table,
        inputs=inputs,
        outputs=tuple(outputs),
        initializers={},
        defaults={},
        opset_imports={"": 18},
        types=dict.fromkeys((*inputs, *made), type_),
        node_constants={},
    )
    kept = {field.name: getattr(graph, field.name) for field in fields(graph)}
    return replace(bound("m (float x) => (float y) { y = Exp(x) }"), **kept)
