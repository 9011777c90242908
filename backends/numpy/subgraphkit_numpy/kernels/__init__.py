"""Kernels of the operators, made once per node, and onnx's own implementations.

Kernels written here come first. Operators without one run on the operator implementations of
``onnx.reference``, called directly. ``implementation`` is the one place that knows which.
"""

from functools import lru_cache
from importlib import import_module
from typing import Final

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit_numpy.kernels import element_types
from subgraphkit_numpy.kernels.limits import MISJUDGED, limit_entry
from subgraphkit_numpy.kernels.microsoft import is_foreign, opset_of, refused_form
from subgraphkit_numpy.kernels.reference import missing_operator, reference_entry
from subgraphkit_numpy.kernels.registry import Implementation, Kernel, Known, Same, as_kernel, find
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.sizes import GROWING

__all__ = [
    "GROWING", "MISJUDGED", "Implementation", "Kernel", "Known", "Same", "Site", "as_kernel",
    "implementation",
]  # fmt: skip

_FAMILIES: Final = """
activation arithmetic attention boxes casting control_flow convolution convolution_transposed fused
generating indexing integers mapping mathematics matrix normalization pooling quantization recurrent
reduction resizing rotary sampling sequences shaping slicing support_vectors tokens
"""
for _family in _FAMILIES.split():
    import_module(f"{__name__}.{_family}")  # which registers its kernels


def implementation(node: Node) -> Implementation | Refusal:
    """Return what computes a node of these element types, or why nothing does."""
    op_type = node.op_type
    opset = opset_of(node.domain, op_type, node.opset)
    found = _implementation(node.domain, op_type, opset, *element_types.elements_of(node))
    refusal = None
    if is_foreign(node.domain, op_type):
        refusal = refused_form(node)
    elif op_type in element_types.NUMBERS_ONLY:
        refusal = element_types.refused_reduction(node)
    return found if refusal is None or isinstance(found, Refusal) else refusal


@lru_cache(maxsize=4096)
def _implementation(
    domain: str,
    op_type: str,
    opset: int,
    inputs: element_types.Elements,
    outputs: element_types.Elements,
) -> Implementation | Refusal:
    if (refusal := missing_operator(domain, op_type, opset)) is None:
        refusal = element_types.refused_type(domain, op_type, opset, inputs, outputs)
    if refusal is not None:
        return refusal
    entry = find(domain, op_type, opset) or reference_entry(domain, op_type, opset)
    return limit_entry(op_type, entry) if isinstance(entry, Implementation) else entry
