"""A stateful selector of one's own, and a backend that consists of nothing else.

MXNet's users wrote selectors in C++ and registered properties with a macro; here both take a few
lines. The selector keeps a budget while it grows, so that no region has more than two matrix
products. The regions run on the fallback backend, as they do where a property brings no operator.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx
from onnx import parser

import subgraphkit as sk

BUDGET = 2
MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
five_layers (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 1, -1, 1}>
{
    a = MatMul(x, w)
    b = Relu(a)
    c = MatMul(b, w)
    d = Relu(c)
    e = MatMul(d, w)
    f = Relu(e)
    g = MatMul(f, w)
    h = Relu(g)
    i = MatMul(h, w)
    y = Relu(i)
}
"""


class Budgeted(sk.SubgraphSelector):
    """Grows from a matrix product along the data until the budget is spent."""

    products = 0

    def select(self, node: sk.Node) -> bool | sk.Refusal:
        """Start at a matrix product."""
        self.products = 1
        return node.op_type == "MatMul" or sk.Refusal("pattern", "no region starts here")

    def select_input(self, node: sk.Node, producer: sk.Node) -> bool:
        """Never grow against the data."""
        return False

    def select_output(self, node: sk.Node, consumer: sk.Node) -> bool | sk.Refusal:
        """Take what follows, while the budget lasts."""
        if consumer.op_type == "MatMul":
            if self.products == BUDGET:
                return sk.Refusal("budget", f"the region has {BUDGET} products")
            self.products += 1
        return True


@sk.register_backend
class Layered(sk.Backend):
    """A name to choose the rule by; it could as well have properties of its own."""

    name = "layered"

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        """Return no property: one is added below, as it could be to any backend."""
        return []


@partial(sk.register_property, "layered")
class Layers(sk.SubgraphProperty):
    """One region for every two layers."""

    def create_selector(self, graph: sk.Graph) -> sk.SubgraphSelector:
        """Make a selector for one seed."""
        return Budgeted()


def build() -> onnx.ModelProto:
    """Build the network the example partitions."""
    return parser.parse_model(MODEL)


if __name__ == "__main__":
    with sk.InferenceSession(build(), backend="layered") as session:
        print(session.partitioning.report(details=True))
        print(session(x=np.ones((1, 2), np.float32))["y"])
