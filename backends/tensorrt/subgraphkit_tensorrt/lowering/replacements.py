"""Replacements put into a model, with names for the values in between."""

from collections.abc import Mapping
from typing import Any

import onnx

from subgraphkit.ir import Node
from subgraphkit_tensorrt.lowering.registry import Replacement

__all__ = ["Namer", "replace_nodes"]


class Namer:
    """Makes names for values inside a replacement.

    Args:
        model: The model the replacement goes into.
        node: The node that is replaced.
    """

    def __init__(self, model: onnx.ModelProto, node: Node) -> None:
        graph = model.graph
        self._taken = {value.name for value in (*graph.input, *graph.initializer)}
        for one in graph.node:
            self._taken.update((*one.input, *one.output))
        self._prefix = next(filter(None, node.outputs), "node")

    def __call__(self, word: str) -> str:
        """Return a name that nothing in the model has; not the same twice."""
        name = stem = f"{self._prefix}/{word}"
        count = 0
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name


def replace_nodes(model: Any, replacements: Mapping[int, Replacement]) -> None:
    """Replace nodes of a model, in place.

    What replaces a node keeps its metadata, so that it can be told where it comes from.

    Args:
        model: The model.
        replacements: By place in ``model.graph.node``.
    """
    graph = model.graph
    nodes = []
    for place, node in enumerate(graph.node):
        made = replacements.get(place)
        if made is None:
            nodes.append(node)
            continue
        for one in made.nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(one)
            copy.metadata_props.extend(node.metadata_props)
            nodes.append(copy)
        graph.initializer.extend(made.constants)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
