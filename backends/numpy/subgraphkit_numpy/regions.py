"""Regions: the selector that claims them, their operators, and the memory they take.

This module imports the kernels. The backend is imported in every process that has it as fallback;
this module only if the fallback gets nodes.
"""

import os
from typing import ClassVar, Final

import subgraphkit as sk
from subgraphkit.backend import Answer, BindContext, Footprint, peak_of_values
from subgraphkit_numpy.backend_options import Options
from subgraphkit_numpy.compiler import folding_growth
from subgraphkit_numpy.fusion import ROOT, ChainProperty
from subgraphkit_numpy.kernels import Implementation, implementation
from subgraphkit_numpy.kernels.convolution import working_memory
from subgraphkit_numpy.kernels.limits import refused_size
from subgraphkit_numpy.kernels.pooling import pooling_memory
from subgraphkit_numpy.kernels.sizes import GROWING
from subgraphkit_numpy.operator import NumpyOperator

__all__ = ["NumpySelector", "compile_region", "folding_growth", "footprint_of"]

_CONVOLUTIONS: Final = frozenset({"Conv", "ConvTranspose"})
_OF_A_THREAD: Final = 3 << 20
"""Bytes of the panels that BLAS copies factors to, and of blocks of elementwise operators."""
_AT_ONCE: Final = 4
"""Threads that find work at the same time: most of it is cut into no more parts."""
_BETWEEN: Final = 8
"""One in so many bytes of values is left free between them, where none fits."""


class NumpySelector(sk.SubgraphSelector):
    """Takes every node that has an implementation, bodies included.

    ``max_output_bytes``: The most bytes that one output may have; 0 means no limit.
    """

    stateless: ClassVar[bool] = True

    def __init__(self, max_output_bytes: int = 0) -> None:
        self._max_output_bytes = max_output_bytes

    def select(self, node: sk.Node) -> Answer:
        """Look the operator up; a refusal names operator, element types and opset."""
        entry = implementation(node)
        if not isinstance(entry, Implementation):
            return entry
        if node.op_type in GROWING:
            refusal = refused_size(node, self._max_output_bytes)
            if refusal is not None:
                return refusal
        for body in node.bodies.values():
            for inner in body.nodes:
                answer = self.select(inner)
                if not answer:
                    return answer
        return True


def compile_region(
    subgraph: sk.Subgraph,
    context: BindContext[Options],
    others: sk.SubgraphProperty,
    growth: list[int],
) -> NumpyOperator:
    """Compile a region; a convolution and its epilogue become one kernel.

    ``others``: Takes what is in no chain when the region is divided a second time.
    ``growth``: Bytes that may still be folded at this bind, in a place its operators share.
    """
    chains: list[tuple[int, ...]] = []
    # what is computed once, from constants alone, is not worth a second division
    if subgraph.inputs and any(node.op_type == ROOT for node in subgraph.members):
        divided = context.partition(subgraph, [ChainProperty(), others]).subgraphs
        found = [one for one in divided if one.property_name == ChainProperty.name]
        chains = [tuple(node.id for node in one.members) for one in found]
    return NumpyOperator(subgraph, context, chains, growth)


def footprint_of(subgraph: sk.Subgraph, threads: int | None) -> Footprint:
    """Count what kernels keep and what a run takes; weights are used where they are."""
    values = peak_of_values(subgraph, views=_aliases, overwrites=_writes_over)
    held, scratch, most = 0, 0, values.bytes
    threads = min(_AT_ONCE, threads or os.cpu_count() or 1)
    for node in subgraph.members:
        worked_in, packed = working_memory(node, threads)
        held, scratch = held + packed, max(scratch, worked_in)
        most = max(most, pooling_memory(node, threads))
    work = most + most // _BETWEEN + scratch
    return Footprint(held, 0, values, work, library=threads * _OF_A_THREAD)


def _aliases(node: sk.Node) -> bool:
    entry = implementation(node)
    return isinstance(entry, Implementation) and entry.aliases


def _writes_over(node: sk.Node) -> bool:
    """Say whether a node is computed element by element, as most that take ``out`` are."""
    return node.op_type not in _CONVOLUTIONS and node.op_type not in {"MatMul", "Gemm", "Concat"}
