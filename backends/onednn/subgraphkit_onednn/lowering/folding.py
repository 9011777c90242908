"""Constants of a node as part of the operation before it.

The library can fold a batch normalization into a convolution too, but it scales the weights with a
reference kernel. The first run of ResNet-50 then takes ten seconds longer; scaling with NumPy takes
a few hundredths. A vector added to a product becomes its bias, which leaves room for one more sum
in the same kernel.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.ir import Node
from subgraphkit.types import DataType
from subgraphkit_onednn.lowering.draft import DraftTensor, GraphDraft, Source

Array = npt.NDArray[Any]


def folded_into_convolution(draft: GraphDraft, node: Node, y: DraftTensor) -> bool:
    """Fold a batch normalization into the convolution before it, if nothing else reads that."""
    place = _only_read_here(draft, node, 0, "Conv", "convolution")
    if place is None or y.dtype != DataType.FLOAT:
        return False
    operation = draft.operations[place]
    x, w, *bias = operation.inputs
    epsilon = float(node.attribute("epsilon", 1e-5))
    statistics = tuple(node.inputs[1:5])
    constants = (w, *bias, *(draft.value(name) for name in statistics))
    if any(tensor.source is None for tensor in constants) or w.source is None:
        return False
    shape = (-1,) + (1,) * (len(w.dims) - 1)
    made = w.source.make

    def weights(array: Array, scale: Array, _: Array, __: Array, variance: Array) -> Array:
        factor = scale / np.sqrt(variance + np.float32(epsilon))
        return np.ascontiguousarray(made(array) * factor.reshape(shape), np.float32)

    def shifts(scale: Array, beta: Array, mean: Array, variance: Array, *old: Array) -> Array:
        factor = scale / np.sqrt(variance + np.float32(epsilon))
        return np.ascontiguousarray(beta + (old[0] - mean if old else -mean) * factor, np.float32)

    old_names = bias[0].source.names if bias and bias[0].source is not None else ()
    scaled = draft.tensor(w.dims, w.dtype, Source((*w.source.names, *statistics), weights))
    shifted = draft.tensor(w.dims[:1], w.dtype, Source((*statistics, *old_names), shifts))
    draft.operations[place] = replace(
        operation, inputs=(x, scaled, shifted), outputs=(y,), node=operation.node
    )
    return True


def folded_into_product(draft: GraphDraft, node: Node, y: DraftTensor) -> bool:
    """Fold a sum into the product that makes one operand, where the other is a constant vector."""
    for at, other in ((0, 1), (1, 0)):
        place = _only_read_here(draft, node, at, "MatMul", "matmul")
        added = draft.value(node.inputs[other])
        dims = added.dims
        if place is None or added.source is None or dims[-1] != math.prod(dims):
            continue
        operation = draft.operations[place]
        if len(operation.inputs) == 2 and operation.outputs[0].dims == y.dims:  # noqa: PLR2004 (no bias yet)
            bias = draft.view(node.inputs[other], dims[-1:])
            draft.operations[place] = replace(
                operation, inputs=(*operation.inputs, bias), outputs=(y,)
            )
            return True
    return False


def _only_read_here(draft: GraphDraft, node: Node, at: int, op_type: str, kind: str) -> int | None:
    """Return the place of the operation that makes an input, if nobody but the node reads it."""
    producer = node.producer(at)
    if producer is None or producer.op_type != op_type or producer.domain:
        return None
    if len(producer.consumers()) != 1 or draft.graph.is_output(producer.outputs[0]):
        return None
    made = draft.values.get(producer.outputs[0])
    for place, operation in enumerate(draft.operations):
        if operation.outputs[0] is made and operation.kind == kind:
            return place
    return None
