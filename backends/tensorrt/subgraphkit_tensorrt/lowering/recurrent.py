"""Recurrent networks whose batch comes first, which TensorRT reads as if the sequence did.

Source: ONNX operators LSTM, GRU and RNN, version 14, attribute ``layout``.
"""

from collections.abc import Mapping
from typing import Final

import onnx
from onnx import helper

from subgraphkit.ir import Node
from subgraphkit_tensorrt.lowering.registry import Fresh, Lowering, Replacement

__all__ = ["RECURRENT"]

_SEQUENCES: Final = (0,)
_STATES: Final = (5, 6)
_BATCH_SECOND: Final = [1, 0, 2]
_WHOLE_OUTPUT: Final = [2, 0, 1, 3]
"""From [sequence, directions, batch, hidden] to [batch, sequence, directions, hidden]."""


def sequence_first(node: Node, fresh: Fresh) -> Replacement | None:
    """Write ``layout=1`` as ``layout=0`` between transpositions."""
    if node.attribute("layout", 0) != 1 or node.graph.writer is None:
        return None
    inner = onnx.NodeProto()
    inner.CopyFrom(node.graph.writer.node_proto(node))
    kept = [attribute for attribute in inner.attribute if attribute.name != "layout"]
    del inner.attribute[:]
    inner.attribute.extend(kept)
    before, after = [], []
    for place in (*_SEQUENCES, *_STATES):
        if place < len(inner.input) and inner.input[place]:
            turned = fresh(f"input{place}")
            before.append(_transposed(inner.input[place], turned, _BATCH_SECOND))
            inner.input[place] = turned
    for place, name in enumerate(node.outputs):
        if name:
            inner.output[place] = fresh(f"output{place}")
            turn = _BATCH_SECOND if place else _WHOLE_OUTPUT
            after.append(_transposed(inner.output[place], name, turn))
    return Replacement([*before, inner, *after])


def _transposed(value: str, made: str, order: list[int]) -> onnx.NodeProto:
    return helper.make_node("Transpose", [value], [made], perm=order)


RECURRENT: Final[Mapping[str, Lowering]] = dict.fromkeys(("GRU", "LSTM", "RNN"), sequence_first)
"""By operator."""
