"""What computes the operators: kernels made once per node, and onnx's own implementations.

Kernels written here come first. Operators without one run on the operator implementations of
``onnx.reference``, called directly. ``implementation`` is the one place that knows which.
"""

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit_numpy.kernels import (
    activation,
    arithmetic,
    casting,
    comparison,
    control_flow,
    convolution,
    generating,
    indexing,
    mapping,
    mathematics,
    matrix,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    scattering,
    sequences,
    shaping,
    slicing,
)
from subgraphkit_numpy.kernels.reference import missing_operator, reference_entry
from subgraphkit_numpy.kernels.registry import Entry, Kernel, Known, Same, as_kernel, find
from subgraphkit_numpy.kernels.site import Site

__all__ = ["FAMILIES", "Entry", "Kernel", "Known", "Same", "Site", "as_kernel", "implementation"]

FAMILIES = (
    activation,
    arithmetic,
    casting,
    comparison,
    control_flow,
    convolution,
    generating,
    indexing,
    mapping,
    mathematics,
    matrix,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    scattering,
    sequences,
    shaping,
    slicing,
)
"""The modules whose import registers the kernels."""


def implementation(node: Node) -> Entry | Refusal:
    """Return what computes a node, or why nothing does."""
    refusal = missing_operator(node.domain, node.op_type, node.opset)
    if refusal is not None:
        return refusal
    return find(node.domain, node.op_type, node.opset) or reference_entry(node)
