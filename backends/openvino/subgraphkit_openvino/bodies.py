"""Bodies as graphs of their own: what they read from outside becomes inputs and constants."""

from collections.abc import Iterator
from dataclasses import fields

from subgraphkit.ir import BoundGraph, Graph, Node


def body_graphs(node: Node) -> Iterator[BoundGraph]:
    """Yield the bodies of a node."""
    outer = node.graph
    for body in node.bodies.values():
        kept = {field.name: getattr(body, field.name) for field in fields(Graph)}
        stated = {name: outer.constants[name] for name in body.captures if name in outer.constants}
        read = tuple(name for name in body.captures if name not in stated)
        types = {name: outer.types[name] for name in body.captures if name in outer.types}
        kept |= {
            "inputs": (*body.inputs, *read),
            "initializers": {**stated, **body.initializers},
            "constants": {**stated, **body.constants},
            "types": {**types, **body.types},
        }
        yield BoundGraph(**kept)
