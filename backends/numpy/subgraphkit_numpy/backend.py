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
    Option,
    ProbeResult,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit_numpy.kernels import Entry, implementation
from subgraphkit_numpy.operator import NumpyOperator

__all__ = ["NumpyBackend", "NumpyProperty", "NumpySelector"]


class NumpySelector(SubgraphSelector):
    """Takes every node that has an implementation, bodies included."""

    stateless: ClassVar[bool] = True

    def select(self, node: Node) -> Answer:
        """Look the operator up; a refusal names operator, domain and opset."""
        entry = implementation(node)
        if not isinstance(entry, Entry):
            return entry
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

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Make the selector."""
        del graph
        return NumpySelector()

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
    )

    def properties(self) -> Sequence[SubgraphProperty]:
        """Return the one property."""
        return (NumpyProperty(),)

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
