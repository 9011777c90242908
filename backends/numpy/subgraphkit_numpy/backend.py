"""The backend: one property that takes every node something here implements."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar, Final

import numpy as np

from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    Connectivity,
    Footprint,
    Pool,
    ProbeResult,
    SubgraphProperty,
    SubgraphSelector,
    attention_scores,
    constant_bytes,
    peak_of_values,
    scaled_weights,
)
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit.types import TensorType
from subgraphkit_numpy.backend_options import Options
from subgraphkit_numpy.kernels import Implementation, implementation
from subgraphkit_numpy.kernels.limits import refused_size
from subgraphkit_numpy.kernels.sizes import GROWING
from subgraphkit_numpy.operator import NumpyOperator

__all__ = ["NumpyBackend", "NumpyProperty", "NumpySelector"]

_CONVOLUTIONS: Final = frozenset({"Conv", "ConvTranspose"})
_BLAS: Final = 4 << 20
"""Bytes of the panels that BLAS copies factors to, and of the stacks of the threads."""
_TILES: Final = 16 << 20
"""The most bytes that convolutions work in: padded inputs and the tiles of all threads."""


class NumpySelector(SubgraphSelector):
    """Takes every node that has an implementation, bodies included.

    Args:
        max_output_bytes: The most bytes that one output may have; 0 means no limit.
    """

    stateless: ClassVar[bool] = True

    def __init__(self, max_output_bytes: int = 0) -> None:
        self._max_output_bytes = max_output_bytes

    def select(self, node: Node) -> Answer:
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


class NumpyProperty(SubgraphProperty):
    """Whatever is left, in as few regions as possible."""

    name: ClassVar[str] = "all"
    connectivity: Connectivity = "any"
    holds_limits: ClassVar[bool] = True

    def __init__(self, options: Options) -> None:
        # What the setting allows was looked at when the model was bound.
        self._max_output_bytes = options.max_output_bytes or 0

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Make the selector."""
        del graph
        return NumpySelector(self._max_output_bytes)

    def create_operator(self, subgraph: Subgraph, context: BindContext[Options]) -> NumpyOperator:
        """Compile a region."""
        return NumpyOperator(subgraph, context.options, context.threads, context.limits)


class NumpyBackend(Backend[Options]):
    """Runs every operator of ONNX with NumPy alone."""

    name: ClassVar[str] = "numpy"
    api: ClassVar[str] = "1.0"
    pool: Pool = "sleeps"

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (NumpyProperty(self.option_values),)

    def footprint(self, subgraph: Subgraph) -> Footprint:
        """Count what kernels keep and what a run takes; weights are used where they are."""
        values = peak_of_values(
            subgraph,
            views=_aliases,
            overwrites=_writes_over,
            hidden=attention_scores(subgraph) if self.option_values.fusion else (),
        )
        scaled = scaled_weights(subgraph) if self.option_values.fusion else ()

        def is_kept(node: Node, place: int) -> bool:
            is_filter = place == 1 and node.op_type in _CONVOLUTIONS
            return is_filter and (node.inputs[1] in scaled or _is_laid_out_anew(node))

        largest = max(map(_convolved, subgraph.members), default=0)
        return Footprint(
            constant_bytes(subgraph, is_kept),
            0,
            values,
            values.bytes + min(_TILES, 5 * largest // 2),
            library=_BLAS,
        )

    @classmethod
    def probe(cls, *, deep: bool = False) -> ProbeResult:
        """Return the versions of NumPy and ONNX; the backend runs everywhere."""
        del deep
        versions = {"numpy": np.__version__}
        for name in ("onnx", "ml_dtypes", "subgraphkit-numpy"):
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                continue
        return ProbeResult(available=True, devices=("cpu",), versions=versions)


def _aliases(node: Node) -> bool:
    entry = implementation(node)
    return isinstance(entry, Implementation) and entry.aliases


def _writes_over(node: Node) -> bool:
    """Say whether a node is computed element by element, as most that take ``out`` are."""
    return node.op_type not in _CONVOLUTIONS and node.op_type not in {"MatMul", "Gemm", "Concat"}


def _is_laid_out_anew(convolution: Node) -> bool:
    """Say whether a kernel keeps a filter in another layout: one that is larger than a point."""
    shape = convolution.shape(1)
    return shape is not None and any(size != 1 for size in shape[2:])


def _convolved(node: Node) -> int:
    """Return the bytes that a convolution reads and makes; 0 for other nodes."""
    if node.op_type not in _CONVOLUTIONS:
        return 0
    types = (node.input_type(0), node.output_type(0))
    return sum(one.nbytes or 0 for one in types if isinstance(one, TensorType))
