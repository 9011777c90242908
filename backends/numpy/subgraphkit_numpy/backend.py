"""The backend: one property that takes every node something here implements."""

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    Connectivity,
    Option,
    ProbeResult,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit_numpy.kernels import Implementation, implementation
from subgraphkit_numpy.kernels.limits import GROWING, OPTION, output_limit, refused_size
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

    def __init__(self, option_values: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._max_output_bytes = output_limit(option_values)

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Make the selector."""
        del graph
        return NumpySelector(self._max_output_bytes)

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> NumpyOperator:
        """Compile a region."""
        return NumpyOperator(subgraph, context.options)


class NumpyBackend(Backend):
    """Runs every operator of ONNX with NumPy alone."""

    name: ClassVar[str] = "numpy"
    api: ClassVar[str] = "1.0"
    options: ClassVar[Sequence[Option]] = (
        Option(
            "max_loop_iterations",
            int,
            default=0,
            help="Iterations after which a Loop is stopped with an error; 0 means no limit.",
            minimum=0,
        ),
        Option(
            "fusion",
            bool,
            default=True,
            help="Whether one kernel may compute several nodes, tile by tile. Without, results are "
            "the same bit for bit however a model is partitioned; with, to a rounding.",
        ),
        Option(
            OPTION,
            "bytes",
            help="Size above which an output is refused before it is allocated; "
            "unless given, the memory of the machine. 0 means no limit.",
        ),
    )

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
