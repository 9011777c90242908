"""Backends for tests: they claim the operators they are told to and run them on onnx.reference."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from onnx.reference import ReferenceEvaluator

from subgraphkit import (
    Backend,
    OpSelector,
    Subgraph,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.finding.extensions import register_extension, unregister_extension

Extension = TypeVar("Extension")


class ReferenceOperator(SubgraphOperator):
    """Runs the stand-alone model of a subgraph on onnx.reference."""

    def __init__(self, subgraph: Subgraph) -> None:
        self.subgraph = subgraph
        self.evaluator = ReferenceEvaluator(subgraph.to_model())
        self.runs = 0
        self.closed = 0

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        self.runs += 1
        feeds = dict(zip(self.subgraph.inputs, inputs, strict=True))
        return [np.array(result) for result in self.evaluator.run(None, feeds)]

    def close(self) -> None:
        self.closed += 1


def changing(change: Callable[[Any], Any]) -> type[ReferenceOperator]:
    """Make an operator that computes as it should, and then changes each result."""

    class Changing(ReferenceOperator):
        def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
            return [change(result) for result in super().run(inputs)]

    return Changing


def failing(kind: type[Exception], *words: Any, **more: Any) -> type[ReferenceOperator]:
    """Make an operator that raises an error whenever it is run."""

    def fail(_: Any) -> Any:
        raise kind(*words, **more)

    return changing(fail)


def claiming(
    operators: Collection[str] | Callable[[Any], SubgraphSelector],
    name: str = "fake",
    *,
    make: Callable[[Subgraph], SubgraphOperator] = ReferenceOperator,
    **settings: Any,
) -> type[Backend]:
    """Make a backend that claims the operators, or what a selector made for the graph takes.

    Settings are attributes of its property, methods among them.
    """

    class Property(SubgraphProperty):
        def create_selector(self, graph: Any) -> SubgraphSelector:
            return operators(graph) if callable(operators) else OpSelector(graph, operators)

        def create_operator(self, subgraph: Subgraph, context: Any) -> SubgraphOperator:
            return make(subgraph)

    for key, value in settings.items():
        setattr(Property, key, value)
    return backend_of([Property], name)


def backend_of(properties: Sequence[type[SubgraphProperty]], name: str = "fake") -> type[Backend]:
    """Make a backend of property classes."""

    class Fake(Backend):
        def properties(self) -> list[SubgraphProperty]:
            return [make() for make in properties]

    Fake.name = name
    return Fake


class WeightedOperator(ReferenceOperator):
    """Refits: rebuilds its evaluator from the new weights and says so."""

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        model = self.subgraph.to_model()
        for tensor in model.graph.initializer:
            if tensor.name in changed:
                array = changed[tensor.name]
                del tensor.float_data[:]
                tensor.raw_data = array.tobytes()
        self.evaluator = ReferenceEvaluator(model)
        return True


@contextmanager
def extended(extension: Extension, name: str = "extension") -> Iterator[Extension]:
    """Have an extension hear what happens in the block."""
    register_extension(extension, name)
    try:
        yield extension
    finally:
        unregister_extension(name)
