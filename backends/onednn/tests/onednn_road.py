"""The road from a model to arrays on the oneDNN backend alone, with the operator at hand."""

from typing import Any

import numpy as np
import onnx

from subgraphkit.backend import BindContext
from subgraphkit.binding import bind
from subgraphkit.ir import make_subgraph
from subgraphkit.onnx_io import load
from subgraphkit_onednn import OnednnBackend
from subgraphkit_onednn.backend_options import Options
from subgraphkit_onednn.operator import OnednnOperator
from tests.models import parsed


def conv_net(seed: int = 0) -> onnx.ModelProto:
    """Make two convolutions with batch normalization, a residual sum, a pool and a product."""
    rng = np.random.default_rng(seed)

    def weight(*dims: int) -> Any:
        return rng.standard_normal(dims).astype(np.float32) / 8

    text = """net (float[1,3,12,12] x) => (y) {
        c1 = Conv<pads=[1,1,1,1]>(x, w1, b1) r1 = Relu(c1) c2 = Conv<pads=[1,1,1,1]>(r1, w2)
        n2 = BatchNormalization(c2, s, b, m, v) a = Add(n2, r1) r2 = Relu(a)
        g = GlobalAveragePool(r2) f = Flatten(g) y = Gemm<transB=1>(f, w3, b3) }"""
    weights = {
        "w1": weight(16, 3, 3, 3),
        "b1": weight(16),
        "w2": weight(16, 16, 3, 3),
        "s": 1 + weight(16),
        "b": weight(16),
        "m": weight(16),
        "v": 1 + weight(16) ** 2,
        "w3": weight(10, 16),
        "b3": weight(10),
    }
    return parsed(text, 17, **weights)


def compile_model(model: onnx.ModelProto, **given: Any) -> OnednnOperator:
    """Compile a whole model as one region of the backend."""
    bound, options = bind(load(model)), Options(**given)
    (property_,) = OnednnBackend(options).properties()
    subgraph = make_subgraph(bound, tuple(bound.order), "onednn")
    operator = property_.create_operator(subgraph, BindContext(options))
    assert isinstance(operator, OnednnOperator)
    return operator


def refusals(model: onnx.ModelProto) -> list[str]:
    """Return what the selector says about the nodes it does not take."""
    bound = bind(load(model))
    (property_,) = OnednnBackend().properties()
    selector = property_.create_selector(bound)
    answers = [selector.select(node) for node in bound.nodes if not bound.is_constant_node(node.id)]
    return [str(answer) for answer in answers if not answer]
