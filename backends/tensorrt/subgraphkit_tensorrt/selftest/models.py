"""Small models for the checklist, with weights drawn from a seed."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

OPSET: Final = 17
_SEED: Final = 7

PERCEPTRON: Final = (
    (
        "agraph (float[n,16] x) => (float[n,4] y) "
        "{ a = MatMul(x, w0) b = Add(a, w1) c = Relu(b) d = MatMul(c, w2) y = Softmax(d) }"
    ),
    ((16, 32), (32,), (32, 4)),
)
WIDE: Final = (
    "agraph (float[n,256] x) => (float[n,4] y) { a = MatMul(x, w0) b = Relu(a) y = MatMul(b, w1) }",
    ((256, 4096), (4096, 4)),
)
"""Megabytes of weights, and of what is between them."""
CHAIN: Final = (
    (
        "agraph (float[n,3] x) => (float[n,3] y) "
        "{ a = Relu(x) b = Add(a, x) c = Neg(b) y = Mul(c, b) }"
    ),
    (),
)
QUANTIZED: Final = (
    (
        "agraph (float[n,16] x) => (float[n,8] y) "
        "<float scale = {0.05}, int8 zero = {0}> "
        "{ q = QuantizeLinear(x, scale, zero) d = DequantizeLinear(q, scale, zero) "
        "v = QuantizeLinear(w0, scale, zero) w = DequantizeLinear(v, scale, zero) "
        "m = MatMul(d, w) y = Relu(m) }"
    ),
    ((16, 8),),
)
Text = tuple[str, Sequence[tuple[int, ...]]]


def model(text: Text, factor: float = 1.0, opset: int = OPSET) -> Any:
    """Return a ``ModelProto``."""
    body, shapes = text
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {body}')
    draw = np.random.default_rng(_SEED)
    for place, shape in enumerate(shapes):
        weight = draw.standard_normal(shape) / np.sqrt(shape[0])
        if len(shape) == 1:  # what scales is around 1
            weight += 1
        weight = (factor * weight).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(weight, f"w{place}"))
    onnx.checker.check_model(proto)
    return proto
