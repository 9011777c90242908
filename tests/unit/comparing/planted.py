"""A backend with faults planted where a test wants them; a plugin that can be installed as well.

It takes every node and has the fallback compute, but for the nodes that make the values in
``FAULTS``.
"""

import os
from collections.abc import Sequence
from itertools import count
from typing import Any, ClassVar

import numpy as np

import subgraphkit as sk
from subgraphkit.backend import BindContext
from subgraphkit.ir import make_subgraph
from tests.faulty.wrapping import EveryNode, WrappedOperator


def wrongly(value: Any) -> Any:
    """Return something that no tolerance calls the same, and no normalization takes away."""
    array = np.asarray(value)
    if array.dtype.kind == "b":
        return ~array
    if array.dtype.kind in "iu":
        return array + array.dtype.type(1)
    off = np.abs(array).max() if array.size else 0
    steps = 1 + np.arange(array.size).reshape(array.shape) % 5
    return np.asarray(array + (off + 1) * steps, array.dtype)


class _Faulty(sk.SubgraphOperator):
    """Runs the nodes up to each fault, spoils what it makes, and goes on."""

    def __init__(self, subgraph: sk.Subgraph, context: BindContext, faults: Sequence[int]) -> None:
        self.subgraph = subgraph
        self.spoilt = {n for fault in faults for n in subgraph.graph.table.outputs[fault]}
        ends = [subgraph.nodes.index(fault) + 1 for fault in faults]
        starts = [0, *ends]
        self.stages = [
            (part, context.compile(part))
            for start, end in zip(starts, [*ends, len(subgraph.nodes)], strict=True)
            if start < end
            for part in [make_subgraph(subgraph.graph, subgraph.nodes[start:end], "planted")]
        ]

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> list[Any]:
        values = dict(zip(self.subgraph.inputs, inputs, strict=True))
        for part, operator in self.stages:
            made = operator.run([values[name] for name in part.inputs])
            for name, value in zip(part.outputs, made, strict=True):
                values[name] = wrongly(value) if name in self.spoilt else value
        return [values[name] for name in self.subgraph.outputs]


class _Property(sk.SubgraphProperty):
    name: ClassVar[str] = "planted"

    def __init__(self, backend: "Plugin") -> None:
        self.backend = backend

    def create_selector(self, graph: sk.Graph) -> sk.SubgraphSelector:
        return EveryNode()

    def create_operator(self, subgraph: sk.Subgraph, context: BindContext) -> sk.SubgraphOperator:
        backend = self.backend
        backend.builds.append(len(subgraph.nodes))
        makers = subgraph.graph.producers
        faults = {makers[name] for name in backend.faults if name in makers}
        here = [node for node in subgraph.nodes if node in faults]
        wrong = bool(here) and (len(here) == len(backend.faults) or not backend.together)
        wrong = wrong and len(subgraph.nodes) >= backend.least
        wrong = wrong and subgraph.graph.name.startswith(backend.only_in)
        if wrong and backend.by_turns and next(backend.turns) % 2:
            wrong = False
        if wrong and backend.compiling:
            raise RuntimeError("out of registers")
        if not wrong:
            return WrappedOperator(context.compile(subgraph), subgraph)
        return _Faulty(subgraph, context, here)


class Plugin(sk.Backend):
    """The backend; a test sets what is planted in a class of its own."""

    name: ClassVar[str] = "planted"
    faults: ClassVar[Sequence[str]] = tuple(filter(None, os.environ.get("FAULTS", "").split(",")))
    together: ClassVar[bool] = "TOGETHER" in os.environ
    """Whether what is wrong is wrong only where all of the faults are in one subgraph."""
    least: ClassVar[int] = 0
    """How many nodes a subgraph has at least that is wrong."""
    only_in: ClassVar[str] = ""
    """The graph in which it is wrong, if not in all."""
    by_turns: ClassVar[bool] = False
    compiling: ClassVar[bool] = False
    builds: ClassVar[list[int]] = []
    turns: ClassVar[Any] = count()

    def properties(self) -> list[sk.SubgraphProperty]:
        return [_Property(self)]


def planted(*faults: str, **settings: Any) -> type[Plugin]:
    """Make a backend with these faults."""
    fresh = {"builds": [], "turns": count()}
    return type("Planted", (Plugin,), {"faults": faults, **fresh, **settings})
