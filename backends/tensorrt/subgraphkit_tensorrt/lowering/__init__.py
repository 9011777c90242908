"""Operators that TensorRT lacks, written as operators it has.

A *converter* is a function from a node to the nodes that replace it. ``converter`` registers one:

    @converter("Square", domain="com.acme")
    def square(node, fresh):
        (x,), (y,) = node.inputs, node.outputs
        return Replacement([onnx.helper.make_node("Mul", [x, x], [y])])

``node`` has types, attributes and constants; ``fresh`` makes names for values in between. Modules
that register converters are named by the option ``modules``. A converter that returns None leaves
the node as it is.

Converters of others come first and are used wherever they do not decline. The rest is only for
nodes that TensorRT would not take as they are. There our own converters come first, then the
definitions that ONNX gives of its composed operators.
"""

from subgraphkit_tensorrt.lowering.conversions import Conversions, lower
from subgraphkit_tensorrt.lowering.registry import (
    Replacement,
    converter,
    converter_of,
    identity,
    load_modules,
    unregister,
)

__all__ = [
    "Conversions", "Replacement", "converter", "converter_of", "identity", "load_modules", "lower",
    "unregister",
]  # fmt: skip
