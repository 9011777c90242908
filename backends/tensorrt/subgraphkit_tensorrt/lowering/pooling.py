"""Pooling windows that are wider than what they run over, written as windows of that width.

Networks that end in one wide window instead of a global pooling do so whatever the size of the
picture; TensorRT limits the volume of a window.

Source: ONNX operators AveragePool and MaxPool, version 22, output shape with ``ceil_mode``.
"""

from collections.abc import Mapping
from typing import Final

import onnx
from onnx import helper

from subgraphkit.ir import Node
from subgraphkit_tensorrt.lowering.registry import Fresh, Lowering, Replacement
from subgraphkit_tensorrt.rules.windows import wide_axes

__all__ = ["POOLING"]


def fitted(node: Node, fresh: Fresh) -> Replacement | None:
    """Write a pooling so that no window is wider than its input.

    Where nothing is padded, one window that reaches beyond the end sees all there is and no more.
    """
    del fresh
    sizes = wide_axes(node)
    if not sizes or not node.attribute("ceil_mode", 0) or node.graph.writer is None:
        return None
    kernel = list(node.attribute("kernel_shape"))
    if any(node.attribute("pads", ())) or any(one != 1 for one in node.attribute("dilations", ())):
        return None
    strides = list(node.attribute("strides", [1] * len(kernel)))
    for axis, size in sizes.items():
        kernel[axis] = strides[axis] = size
    made = onnx.NodeProto()
    made.CopyFrom(node.graph.writer.node_proto(node))
    kept = [one for one in made.attribute if one.name not in {"kernel_shape", "strides"}]
    del made.attribute[:]
    made.attribute.extend(kept)
    made.attribute.append(helper.make_attribute("kernel_shape", kernel))
    made.attribute.append(helper.make_attribute("strides", strides))
    return Replacement([made])


POOLING: Final[Mapping[str, Lowering]] = dict.fromkeys(("AveragePool", "MaxPool"), fitted)
"""By operator."""
