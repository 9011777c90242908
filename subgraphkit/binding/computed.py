"""Values that bind computes: each when first read, and again with new weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.property import BindContext, SubgraphProperty
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.errors import InternalError, SubgraphkitError
from subgraphkit.finding.opening import open_fallback
from subgraphkit.ir import Boundary, BoundGraph, Initializer, Node, make_subgraph
from subgraphkit.lazy import cached_property
from subgraphkit.onnx_io.weights import share_array
from subgraphkit.types import TensorType

# Values up to this size are kept; larger ones are computed again once nobody holds them.
_KEPT_BYTES: Final = 64 << 10

_Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class BoundFolding:
    """The values computed at bind, and how to compute them again.

    Attributes:
        source: The graph before.
        values: Small values that inference computed.
        sources: For every value that was computed, the stored constants it depends on.

    Thread-safety: safe; two threads may at worst compute the same value twice.
    """

    source: BoundGraph
    values: Mapping[str, _Array]
    settings: ResolvedConfig
    sources: dict[str, frozenset[str]] = field(default_factory=dict)

    def refold(
        self, changed: Mapping[str, Initializer], current: Mapping[str, Initializer]
    ) -> dict[str, Initializer]:
        """Return the values that depend on changed constants, to be computed anew."""
        stale = [name for name, read in self.sources.items() if not read.isdisjoint(changed)]
        renewed = dict(current)
        for name in stale:
            version = current[name].version + 1
            renewed[name] = self.initializer(name, renewed, version)
        return {name: renewed[name] for name in stale}

    def takes(self, node: Node) -> bool:
        """Say whether the fallback backend runs a node."""
        return self._opened is not None and bool(self._opened[2].select(node))

    def initializer(
        self, name: str, constants: Mapping[str, Initializer], version: int = 0
    ) -> Initializer:
        """Return a value as a constant that is computed when first read."""
        type_ = self.source.types[name]
        assert isinstance(type_, TensorType)  # noqa: S101 (nothing else is computed)
        compute = partial(self._compute_value, name, constants)
        keeps = (type_.nbytes or 0) <= _KEPT_BYTES
        return Initializer(name, type_, share_array(compute, keeps=keeps), version)

    def _compute_value(self, name: str, constants: Mapping[str, Initializer]) -> _Array:
        """Compile and run all that a value depends on."""
        if self._opened is None:
            raise InternalError(f"nobody computes value {name!r}")
        backend, property_, _ = self._opened
        nodes, read = self._ancestors(name, constants)
        graph = replace(self.source, constants={**self.source.constants, **read})
        subgraph = make_subgraph(
            graph, nodes, backend.name, edge=Boundary((), (name,), tuple(read))
        )
        limits = self.settings.limits.within(self.settings.max_memory)
        context = BindContext(backend.option_values, limits=limits)
        operator = property_.create_operator(subgraph, context)
        try:
            (found,) = operator.run(())
        finally:
            operator.close()
        value = np.asarray(found)
        value.setflags(write=False)
        return value

    def _ancestors(
        self, name: str, constants: Mapping[str, Initializer]
    ) -> tuple[list[int], dict[str, Initializer]]:
        """Return the nodes to compute a value by, in order, and the constants that they read."""
        graph = self.source
        found: set[int] = set()
        read: dict[str, Initializer] = {}
        waiting = [name]
        while waiting:
            node = graph.producers[waiting.pop()]
            if node in found:
                continue
            found.add(node)
            for value in filter(None, graph.table.inputs[node]):
                known = constants.get(value) if value in self.values else None
                if value in graph.constants or (known is not None and not known.version):
                    read[value] = constants[value]
                else:
                    waiting.append(value)
        return sorted(found, key=self._ranks.__getitem__), read

    @cached_property
    def _ranks(self) -> dict[int, int]:
        return {node: rank for rank, node in enumerate(self.source.order)}

    @cached_property
    def _opened(self) -> tuple[Backend, SubgraphProperty, SubgraphSelector] | None:
        """Open the fallback backend; its errors are raised later, when nodes are left to it."""
        try:
            backend = open_fallback(self.settings)
            property_ = next(iter(backend.properties()), None) if backend is not None else None
        except SubgraphkitError:
            return None
        if backend is None or property_ is None:
            return None
        return backend, property_, property_.create_selector(self.source)
