"""Names that depend on the structure of a subgraph alone, and the way back to those of the model.

A plan remembers the names of layers and of weights. With names of our own, plans of equal blocks
are equal, weights of one block can be put into the plan of another, and a layer leads back to its
node even where the model's nodes have no names or share one. Inputs and outputs keep theirs.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from subgraphkit.ir import Node, Subgraph

__all__ = ["NameMap", "mark_places", "rename"]

_PLACE: Final = "subgraphkit.place"
_NODE: Final = re.compile(r"\bsgk(\d+)_(?:\d+_)?\w+")
_VALUE: Final = re.compile(r"\bsgk_v\d+\b")


@dataclass(frozen=True, slots=True)
class NameMap:
    """The meaning of our own names in a network.

    Attributes:
        values: By our name of a value, that of the model.
        labels: By place in ``subgraph.nodes``, how reports name the node.
        place_of: By the model's name of a node, or of its first output if it has none, its place.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[int, str] = field(default_factory=dict)
    place_of: Mapping[str, int] = field(default_factory=dict)

    def places(self, text: str) -> list[int]:
        """Return the places in ``subgraph.nodes`` that a layer's name speaks of, ascending."""
        return sorted({int(found[1]) for found in _NODE.finditer(text)})

    def readable(self, text: str) -> str:
        """Put the names of the model into what the library says."""
        text = _NODE.sub(lambda found: self.labels.get(int(found[1]), found[0]), text)
        return _VALUE.sub(lambda found: self.values.get(found[0], found[0]), text)


def mark_places(proto: Any, subgraph: Subgraph) -> None:
    """Write into each node of a subgraph's model where in ``subgraph.nodes`` it comes from.

    Rewriting keeps the mark of the nodes it keeps, and gives none to those it makes.
    """
    place_of = {node: place for place, node in enumerate(subgraph.nodes)}
    producers = subgraph.graph.producers
    for node in proto.graph.node:
        made = next((name for name in node.output if name), "")
        if producers.get(made) in place_of:
            node.metadata_props.add(key=_PLACE, value=str(place_of[producers[made]]))


def rename(proto: Any, subgraph: Subgraph) -> NameMap:
    """Give nodes and inner values names of our own, in place; marks are taken out.

    Args:
        proto: A model whose nodes ``mark_places`` marked, rewritten since or not.
        subgraph: The subgraph it is of.
    """
    kept = {value.name for value in (*proto.graph.input, *proto.graph.output)}
    renamed = _Renaming(kept)
    renamed.graph(proto.graph)
    _put_in_order(proto.graph)
    nodes = [Node(subgraph.graph, node) for node in subgraph.nodes]
    return NameMap(
        values={ours: theirs for theirs, ours in renamed.names.items() if ours != theirs},
        labels={place: node.label for place, node in enumerate(nodes)},
        place_of={node.name or node.outputs[0]: place for place, node in enumerate(nodes)},
    )


class _Renaming:
    def __init__(self, kept: set[str]) -> None:
        self.names: dict[str, str] = {name: name for name in kept}
        self._nodes = 0

    def graph(self, graph: Any) -> None:
        """Rename in order of first use, outer values before those of bodies."""
        for node in graph.node:
            self._node(node)
            for body in _bodies(node):
                self.graph(body)
        for values in (graph.input, graph.output, graph.value_info, graph.initializer):
            for value in values:
                value.name = self._of(value.name)
        for sparse in graph.sparse_initializer:
            sparse.values.name = self._of(sparse.values.name)

    def _node(self, node: Any) -> None:
        marks = [one.value for one in node.metadata_props if one.key == _PLACE]
        # Made by a rewrite, a node is named by its order alone, and no node of the model by that.
        node.name = f"sgk{marks[0]}_{self._nodes}_{node.op_type}" if marks else f"made{self._nodes}"
        self._nodes += 1
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
        node.input[:] = [self._of(name) for name in node.input]
        node.output[:] = [self._of(name) for name in node.output]

    def _of(self, name: str) -> str:
        if not name:
            return name
        if name not in self.names:
            ours = f"sgk_v{len(self.names)}"
            while ours in self.names:  # an input of the model is called that
                ours += "_"
            self.names[name] = ours
        return self.names[name]


def _put_in_order(graph: Any) -> None:
    """Sort the lists of a graph beside its nodes, which were in the order of the former names."""
    graph.value_info.sort(key=_length_and_name)
    graph.initializer.sort(key=_length_and_name)


def _length_and_name(value: Any) -> tuple[int, str]:
    return len(value.name), value.name


def _bodies(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
