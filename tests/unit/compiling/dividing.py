"""Properties that divide a region again, for tests."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import subgraphkit as sk
from subgraphkit.backend import BindContext
from subgraphkit.ir import BoundGraph
from tests.fakes import ReferenceOperator
from tests.models import parsed
from tests.unit.partitioning.pass_support import backend

DIVIDED = """
chain (float[N, 2] x) => (float[N, 2] y, float[N, 2] z)
<float[2] w = {1, 2}, float[2] b = {3, 4}>
{
  a = Mul(x, w)
  c = Add(a, b)
  d = Relu(c)
  e = Neg(d)
  y = Add(e, d)
  z = Mul(y, w)
}
"""
X = np.array([[1, -2], [3, 4]], np.float32)
EXPECTED = (np.zeros((2, 2)), np.zeros((2, 2)))

Make = Callable[[sk.Subgraph, Any], sk.SubgraphOperator]


def on_reference(subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
    return ReferenceOperator(subgraph)


class Inner(sk.SubgraphProperty):
    """Takes the operators it is told to."""

    name = "inner"

    def __init__(
        self, operators: Sequence[str] = ("Mul", "Add"), make: Make = on_reference
    ) -> None:
        self.operators = operators
        self.make = make

    def create_selector(self, graph: BoundGraph) -> sk.SubgraphSelector:
        return sk.OpSelector(graph, self.operators)

    def create_operator(self, subgraph: sk.Subgraph, context: BindContext) -> sk.SubgraphOperator:
        return self.make(subgraph, context)


def dividing(*inner: sk.SubgraphProperty, log: list[Any] | None = None) -> Make:
    """Divide a region among properties and run what comes of it."""

    def make(subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
        partitioning = context.partition(subgraph, inner)
        if log is not None:
            log.append((subgraph, partitioning))
        return context.compile(partitioning)

    return make


OUTER = ("Mul", "Add", "Relu", "Neg")


def session(make: Make, operators: Sequence[str] = OUTER, **settings: Any) -> sk.Session:
    model = parsed(settings.pop("model", DIVIDED))
    return sk.InferenceSession(model, [backend("acme", Inner(operators, make))], **settings)
