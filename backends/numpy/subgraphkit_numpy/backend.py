"""The backend: one property that takes every node something here implements."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

import numpy as np

from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    Connectivity,
    Pool,
    ProbeResult,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit_numpy.backend_options import Options
from subgraphkit_numpy.kernels import Implementation, implementation
from subgraphkit_numpy.kernels.limits import GROWING, output_limit, refused_size
from subgraphkit_numpy.operator import NumpyOperator

__all__ = ["NumpyBackend", "NumpyProperty", "NumpySelector"]


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

    def __init__(self, options: Options) -> None:
        self._max_output_bytes = output_limit(options)

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Make the selector."""
        del graph
        return NumpySelector(self._max_output_bytes)

    def create_operator(self, subgraph: Subgraph, context: BindContext[Options]) -> NumpyOperator:
        """Compile a region."""
        return NumpyOperator(subgraph, context.options, context.threads)


class NumpyBackend(Backend[Options]):
    """Runs every operator of ONNX with NumPy alone."""

    name: ClassVar[str] = "numpy"
    api: ClassVar[str] = "1.0"
    pool: Pool = "sleeps"

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (NumpyProperty(self.option_values),)

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
