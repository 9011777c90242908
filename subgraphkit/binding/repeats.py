"""Nodes that repeat another node: one of them runs, and all readers read its values.

Exporters that trace a network write a function twice that it calls twice. Few libraries see that:
those that fold a normalisation into each convolution first have two different ones then.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.ir import BoundGraph

# Larger constants are equal by name only: their data is not looked at before it is needed.
_MOST_BYTES: Final = 4096

# Nodes that read the same values and differ in attributes are compared with so many.
_MOST_COMPARED: Final = 16


class Repeats:
    """Finds the node that a node repeats, for nodes looked at in their order.

    Thread-safety: for one thread.
    """

    def __init__(
        self,
        graph: BoundGraph,
        values: Mapping[str, npt.NDArray[Any]],
        sources: Mapping[str, frozenset[str]],
    ) -> None:
        """Take a graph, values known by inference, and the constants that computed ones come of."""
        self._graph = graph
        self._values = values
        self._sources = sources
        self._alike: dict[tuple[str, ...], list[int]] = {}
        self._stated: dict[object, str] = {}
        # The names of constants, each looked up when first read.
        stated = graph.constants.keys() - graph.initializers.keys()
        self._names: dict[str, str] = dict.fromkeys((*stated, *values), "")

    def original(self, node: int) -> int | None:
        """Return the earlier node that computes the same; None, and note the node, if none does."""
        table, names = self._graph.table, self._names
        read = [names.get(name, name) or self._name(name) for name in table.inputs[node]]
        alike = self._alike.setdefault((table.domains[node], table.op_types[node], *read), [])
        for other in alike:
            if self._is_alike(node, other):
                return other
        if len(alike) < _MOST_COMPARED:
            alike.append(node)
        return None

    def rename(self, name: str, other: str) -> None:
        """Take a value for another one."""
        self._names[name] = self._names.get(other, other) or self._name(other)

    def _name(self, name: str) -> str:
        """Return the name of the first constant that is equal, or the name itself.

        Weights are equal by name only: they may be replaced one by one.
        """
        if not name:
            return name
        if name in self._values:
            weights = self._graph.initializers.keys()
            value = None if weights & self._sources.get(name, weights) else self._values[name]
        else:
            size = (stored := self._graph.constants[name]).type.nbytes
            value = stored.array() if size is not None and size <= _MOST_BYTES else None
        found = name
        if value is not None and value.nbytes <= _MOST_BYTES and value.dtype != object:
            found = self._stated.setdefault((value.dtype, value.shape, value.tobytes()), name)
        self._names[name] = found
        return found

    def _is_alike(self, node: int, other: int) -> bool:
        """Say whether attributes and outputs agree: of some operators, their number decides."""
        table = self._graph.table
        if list(map(bool, table.outputs[node])) != list(map(bool, table.outputs[other])):
            return False
        mine, its = table.attributes[node], table.attributes[other]
        return mine.keys() == its.keys() and all(_agree(mine[k], its[k]) for k in mine)


def _agree(one: Any, other: Any) -> bool:
    """Say whether two attributes are the same; of arrays nobody says so."""
    return not isinstance(one, np.ndarray) and type(one) is type(other) and repr(one) == repr(other)
