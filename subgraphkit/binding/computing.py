"""Data of computed constants: the fallback backend computes it when somebody first reads it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.property import BindContext, SubgraphProperty
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.errors import InternalError, SubgraphkitError
from subgraphkit.finding.opening import open_fallback
from subgraphkit.ir import BoundGraph, Initializer, Node, Subgraph
from subgraphkit.lazy import cached_property
from subgraphkit.onnx_io.weights import shared
from subgraphkit.types import TensorType

_KEPT_BYTES: Final = 64 << 10
"""Values up to this size are kept; larger ones are computed again once nobody holds them."""

_Array = npt.NDArray[Any]


class Computer:
    """Computes nodes whose inputs are known.

    Thread-safety: safe; two threads may at worst compute the same value twice.
    """

    def __init__(
        self, graph: BoundGraph, values: Mapping[str, _Array], settings: ResolvedConfig
    ) -> None:
        self._graph = graph
        self._values = values
        self._settings = settings

    def takes(self, node: Node) -> bool:
        """Say whether the fallback backend runs a node."""
        return self._opened is not None and bool(self._opened.selector.select(node))

    def known(self, name: str) -> Initializer:
        """Return a small value that is known already as a constant."""
        value = self._values[name]
        return Initializer(name, self._type(name), lambda: value)

    def initializer(
        self, name: str, constants: Mapping[str, Initializer], version: int = 0
    ) -> Initializer:
        """Return a value as a constant that is computed when first read."""
        type_ = self._type(name)
        compute = partial(self._computed, name, constants)
        keeps = (type_.nbytes or 0) <= _KEPT_BYTES
        return Initializer(name, type_, shared(compute, keeps=keeps), version)

    def _type(self, name: str) -> TensorType:
        type_ = self._graph.types[name]
        assert isinstance(type_, TensorType)  # noqa: S101 (nothing else is computed)
        return type_

    def _computed(self, name: str, constants: Mapping[str, Initializer]) -> _Array:
        """Compile and run all that a value depends on."""
        opened = self._opened
        if opened is None:
            raise InternalError(f"nobody computes value {name!r}")
        nodes, read = self._ancestors(name, constants)
        graph = replace(self._graph, constants={**self._graph.constants, **read})
        operator = opened.property.create_operator(
            Subgraph(
                id=f"{opened.backend.name}_{nodes[0]}",
                backend=opened.backend.name,
                graph=graph,
                nodes=tuple(nodes),
                inputs=(),
                outputs=(name,),
                constants=read,
            ),
            BindContext(
                opened.backend.option_values,
                limits=self._settings.limits.within(self._settings.max_memory),
            ),
        )
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
        graph = self._graph
        found: set[int] = set()
        read: dict[str, Initializer] = {}
        waiting = [name]
        while waiting:
            node = graph.producers[waiting.pop()]
            if node in found:
                continue
            found.add(node)
            for value in filter(None, graph.table.inputs[node]):
                is_known = value in self._values and not constants[value].version
                if value in graph.constants or is_known:
                    read[value] = constants[value]
                else:
                    waiting.append(value)
        return sorted(found, key=self._ranks.__getitem__), read

    @cached_property
    def _ranks(self) -> dict[int, int]:
        return {node: rank for rank, node in enumerate(self._graph.order)}

    @cached_property
    def _opened(self) -> "_Opened | None":
        """Open the fallback backend; what is wrong with it is said when nodes are left to it."""
        try:
            backend = open_fallback(self._settings)
            property_ = next(iter(backend.properties()), None) if backend is not None else None
        except SubgraphkitError:
            return None
        if backend is None or property_ is None:
            return None
        return _Opened(backend, property_.create_selector(self._graph), property_)


class _Opened(NamedTuple):
    """A backend that computes, with what it is asked by."""

    backend: Backend
    selector: SubgraphSelector
    # Last, because it hides the decorator of that name from what follows it.
    property: SubgraphProperty
