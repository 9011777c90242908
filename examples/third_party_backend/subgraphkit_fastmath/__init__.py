"""A third-party backend, whole: chains of elementwise float32 operators."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import subgraphkit as sk

KERNELS: dict[str, Callable[..., Any]] = {"Add": np.add, "Exp": np.exp, "Mul": np.multiply}
KERNELS["Relu"] = lambda x: np.maximum(x, 0)


def is_float32(node: sk.Node) -> bool | sk.Refusal:
    """Answer with a reason; it shows up in the report of the partitioning."""
    dtype = node.dtype().label
    return dtype == "float32" or sk.Refusal("dtype", f"{dtype} input; fastmath takes float32")


class Chain(sk.SubgraphOperator):
    """A region, compiled: a list of calls."""

    traits = sk.Traits(thread_safe=True)

    def __init__(self, subgraph: sk.Subgraph) -> None:
        self.inputs, self.outputs = subgraph.inputs, subgraph.outputs
        self.constants = {name: one.array() for name, one in subgraph.constants.items()}
        self.calls = [(KERNELS[n.op_type], n.inputs, n.outputs[0]) for n in subgraph.members]

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Make the calls one after the other."""
        values = self.constants | dict(zip(self.inputs, inputs, strict=True))
        for kernel, sources, target in self.calls:
            values[target] = kernel(*(values[name] for name in sources))
        return [values[name] for name in self.outputs]


class Elementwise(sk.SubgraphProperty):
    """How regions are found and compiled; one operator alone is not worth the hand-over."""

    min_nodes = 2

    def create_selector(self, graph: sk.Graph) -> sk.SubgraphSelector:
        """Select by operator, then by dtype."""
        return sk.OpSelector(graph, dict.fromkeys(KERNELS, is_float32))

    def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
        """Compile a region."""
        return Chain(subgraph)


class FastMath(sk.Backend):
    """What the entry point leads to."""

    name = "fastmath"

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        """Return the one property."""
        return [Elementwise()]
