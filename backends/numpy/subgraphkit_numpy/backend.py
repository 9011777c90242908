"""The backend: one property that takes every node something here implements."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import subgraphkit as sk
from subgraphkit.backend import BindContext, Connectivity, Footprint, installed_versions
from subgraphkit.ir import BoundGraph
from subgraphkit_numpy.backend_options import Options


class NumpyProperty(sk.SubgraphProperty):
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

    def create_selector(self, graph: BoundGraph) -> sk.SubgraphSelector:
        """Make the selector."""
        del graph
        from subgraphkit_numpy.regions import NumpySelector  # noqa: PLC0415 (as its module says)

        return NumpySelector(self._max_output_bytes)

    def create_operator(
        self, subgraph: sk.Subgraph, context: BindContext[Options]
    ) -> sk.SubgraphOperator:
        """Compile a region; a convolution and its epilogue become one kernel."""
        from subgraphkit_numpy.regions import compile_region, folding_growth  # noqa: PLC0415 (same)

        if subgraph.id in self._compiled:  # and is compiled again with new weights
            self._compiled.clear()
        if not self._compiled:
            self._growth = folding_growth(context.limits)
        self._compiled.add(subgraph.id)
        others = NumpyProperty(context.options, self._hear_threads)
        return compile_region(subgraph, context, others, self._growth)


class NumpyBackend(sk.Backend[Options]):
    """Runs every operator of ONNX with NumPy alone."""

    name: ClassVar[str] = "numpy"
    api: ClassVar[str] = "1.0"
    traits = sk.Traits(pool="sleeps", holds_limits=True)

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        self._threads: int | None = None

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        """Return the one property."""
        return (NumpyProperty(self.option_values, self._hear_threads),)

    def _hear_threads(self, threads: int | None) -> None:
        self._threads = threads

    def footprint(self, subgraph: sk.Subgraph) -> Footprint:
        """Count what kernels keep and what a run takes; weights are used where they are."""
        from subgraphkit_numpy.regions import footprint_of  # noqa: PLC0415 (as its module says)

        return footprint_of(subgraph, self._threads)

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        """Return the versions of NumPy and ONNX; the backend runs everywhere."""
        del deep
        versions = installed_versions("numpy", "onnx", "ml_dtypes", "subgraphkit-numpy")
        return sk.ProbeResult(available=True, devices=("cpu",), versions=versions)
