"""The backend: one property that takes every node something here implements."""

import os
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar, Final

import numpy as np

from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    Connectivity,
    Footprint,
    ProbeResult,
    SubgraphProperty,
    SubgraphSelector,
    Traits,
    peak_of_values,
)
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit_numpy.backend_options import Options
from subgraphkit_numpy.compiler import folding_growth
from subgraphkit_numpy.fusion import ROOT, ChainProperty
from subgraphkit_numpy.kernels import Implementation, implementation
from subgraphkit_numpy.kernels.convolution import working_memory
from subgraphkit_numpy.kernels.limits import refused_size
from subgraphkit_numpy.kernels.pooling import pooling_memory
from subgraphkit_numpy.kernels.sizes import GROWING
from subgraphkit_numpy.operator import NumpyOperator

_CONVOLUTIONS: Final = frozenset({"Conv", "ConvTranspose"})
_OF_A_THREAD: Final = 3 << 20
"""Bytes of the panels that BLAS copies factors to, and of blocks of elementwise operators."""
_AT_ONCE: Final = 4
"""Threads that find work at the same time: most of it is cut into no more parts."""
_BETWEEN: Final = 8
"""One in so many bytes of values is left free between them, where none fits."""


class NumpySelector(SubgraphSelector):
    """Takes every node that has an implementation, bodies included.

    ``max_output_bytes``: The most bytes that one output may have; 0 means no limit.
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

    def __init__(self, options: Options, hear_threads: Callable[[int | None], object]) -> None:
        # What the setting allows was looked at when the model was bound.
        self._max_output_bytes = options.max_output_bytes or 0
        self._hear_threads = hear_threads
        self._growth = [0]
        self._compiled: set[str] = set()

    def prepare(self, graph: BoundGraph, context: BindContext[Options]) -> None:
        """Tell the backend how many threads there will be."""
        del graph
        self._hear_threads(context.threads)

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Make the selector."""
        del graph
        return NumpySelector(self._max_output_bytes)

    def create_operator(self, subgraph: Subgraph, context: BindContext[Options]) -> NumpyOperator:
        """Compile a region; a convolution and its epilogue become one kernel."""
        if subgraph.id in self._compiled:  # and is compiled again with new weights
            self._compiled.clear()
        if not self._compiled:
            self._growth = folding_growth(context.limits)
        self._compiled.add(subgraph.id)
        chains, limits = self._chains(subgraph, context), context.limits
        return NumpyOperator(
            subgraph, context.options, context.threads, limits, chains, self._growth
        )

    def _chains(self, subgraph: Subgraph, context: BindContext[Options]) -> list[tuple[int, ...]]:
        """Divide a region a second time, unless it is computed once, from constants alone."""
        if not subgraph.inputs or all(node.op_type != ROOT for node in subgraph.members):
            return []
        properties = [ChainProperty(), NumpyProperty(context.options, self._hear_threads)]
        divided = context.partition(subgraph, properties).subgraphs
        found = [one for one in divided if one.property_name == ChainProperty.name]
        return [tuple(node.id for node in one.members) for one in found]


class NumpyBackend(Backend[Options]):
    """Runs every operator of ONNX with NumPy alone."""

    name: ClassVar[str] = "numpy"
    api: ClassVar[str] = "1.0"
    traits = Traits(pool="sleeps", holds_limits=True)

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        self._threads: int | None = None

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (NumpyProperty(self.option_values, self._hear_threads),)

    def _hear_threads(self, threads: int | None) -> None:
        self._threads = threads

    def footprint(self, subgraph: Subgraph) -> Footprint:
        """Count what kernels keep and what a run takes; weights are used where they are."""
        values = peak_of_values(subgraph, views=_aliases, overwrites=_writes_over)
        held, scratch, most = 0, 0, values.bytes
        threads = min(_AT_ONCE, self._threads or os.cpu_count() or 1)
        for node in subgraph.members:
            worked_in, packed = working_memory(node, threads)
            held, scratch = held + packed, max(scratch, worked_in)
            most = max(most, pooling_memory(node, threads))
        work = most + most // _BETWEEN + scratch
        return Footprint(held, 0, values, work, library=threads * _OF_A_THREAD)

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
