"""Operators that look at one element at a time."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import GraphDraft
from subgraphkit_onednn.lowering.registry import (
    LOWERINGS,
    float_attribute,
    lowers,
    require,
    single_output,
)

__all__ = ["clip", "gelu", "plain", "swish"]

_KINDS: Final[Mapping[str, tuple[str, Mapping[str, float]]]] = MappingProxyType(
    {
        "Abs": ("abs", {}),
        "Elu": ("elu", {"alpha": 1.0}),
        "Exp": ("exp", {}),
        "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
        "HardSwish": ("hard_swish", {}),
        "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
        "Relu": ("relu", {}),
        "Round": ("round", {}),
        "Sigmoid": ("sigmoid", {}),
        "Sqrt": ("sqrt", {}),
        "Tanh": ("tanh", {}),
    }
)
"""By operator, the operation of oneDNN and its attributes with ONNX's defaults.

Log, Softplus and Mish are not here: oneDNN computes them by tables that are off by a millionth near
zero, which is all of a small result.
"""

_CLIP_WITH_INPUTS: Final = 11


def plain(draft: GraphDraft, node: Node) -> None:
    """Lower an operator that oneDNN has under another name."""
    kind, defaults = _KINDS[node.op_type]
    attributes = {name: float_attribute(node, name, value) for name, value in defaults.items()}
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    draft.add(kind, [x], y, **attributes)


LOWERINGS.update(dict.fromkeys(_KINDS, plain))


@lowers("Gelu")
def gelu(draft: GraphDraft, node: Node) -> None:
    """Lower the exact GELU; oneDNN has no other."""
    exact = node.attribute("approximate", "none") == "none"
    require(exact, "attribute", "oneDNN computes GELU with erf, not with tanh")
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    draft.add("gelu", [x], y)


@lowers("Reciprocal")
def reciprocal(draft: GraphDraft, node: Node) -> None:
    """Lower one over x as a division; oneDNN has no kernel for the operation alone."""
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    # oneDNN broadcasts the second operand of a division only, unless by its reference kernel.
    draft.add("divide", [draft.filled(1.0, x.dims, x.dtype), x], y)


@lowers("Neg")
def negation(draft: GraphDraft, node: Node) -> None:
    """Lower a change of sign."""
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    minus = draft.filled(-1.0, (1,) * len(x.dims), x.dtype)
    draft.add("multiply", [x, minus], y)


@lowers("Swish")
def swish(draft: GraphDraft, node: Node) -> None:
    """Lower x * sigmoid(alpha * x)."""
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    alpha = float_attribute(node, "alpha", 1.0)
    inner = x
    if alpha != 1:
        factor = draft.filled(alpha, (1,) * len(x.dims), x.dtype)
        inner = draft.add("multiply", [x, factor], draft.like(x))
    gate = draft.add("sigmoid", [inner], draft.like(x))
    draft.add("multiply", [gate, x], y)


@lowers("Clip")
def clip(draft: GraphDraft, node: Node) -> None:
    """Lower a clip between constants."""
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    if node.opset >= _CLIP_WITH_INPUTS:
        low, high = draft.read(node, 1), draft.read(node, 2)
    else:
        low, high = node.attribute("min"), node.attribute("max")
    bounds = _number(low, -math.inf), _number(high, math.inf)
    require(bounds[0] <= bounds[1], "attribute", f"the bounds {bounds} cross")
    largest = float(np.finfo(np.float32).max)
    draft.add("clamp", [x], y, min=max(bounds[0], -largest), max=min(bounds[1], largest))


def _number(value: Any, default: float) -> float:
    return default if value is None else float(np.asarray(value).astype(np.float32).reshape(()))
