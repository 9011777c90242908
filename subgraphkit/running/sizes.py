"""Sizes that feeds give to values: held against the limits before anything is computed.

At bind an open dimension counts as 1. What it is says the feed, and with it how large every value
is whose other dimensions are known, whichever library computes it.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from subgraphkit.binding import BoundModel
from subgraphkit.errors import InputError
from subgraphkit.ir import Node
from subgraphkit.types import TensorType

__all__ = ["SizeCheck"]


class SizeCheck:
    """Refuses feeds with which a value would be larger than the limits allow.

    Args:
        graph: The bound graph.
        symbols: Names of dimensions, and the places ``(input, axis)`` where each is found.
    """

    def __init__(self, graph: BoundModel, symbols: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        self._graph, self._symbols = graph, symbols
        self._limit = graph.settings.limits.value_bytes

    def tests(self, sizes: Mapping[str, str]) -> list[str]:
        """Return expressions one of which is true if a value would be too large.

        Args:
            sizes: For each symbol the expression of its size.
        """
        if not self._limit or not self._symbols:
            return []
        fed = self._factors(self._graph.inputs)
        found = self._factors(self._graph.types)
        return [
            f"{' * '.join(sizes[name] for name in names)} > {self._limit * 8 // bits}"
            for names, bits in found.items()
            if bits > fed.get(names, 0)  # else the caller holds as much already
        ]

    def __call__(self, *arrays: Any) -> None:
        """Refuse the admitted inputs.

        Raises:
            InputError: They make a value too large (SGK217).
        """
        shapes = dict(zip(self._graph.inputs, (array.shape for array in arrays), strict=True))
        sizes = {name: shapes[at[0][0]][at[0][1]] for name, at in self._symbols.items()}
        for name, type_ in self._graph.types.items():
            if not isinstance(type_, TensorType) or type_.shape is None:
                continue
            shape = [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in type_.shape]
            asked = prod(dim for dim in shape if isinstance(dim, int)) * type_.dtype.bits // 8
            if asked > self._limit:
                maker = self._graph.producers.get(name)
                of = "" if maker is None else f" of node {Node(self._graph, maker).label}"
                told = TensorType(type_.dtype, tuple(shape))
                raise InputError(
                    "SGK217",
                    f"with what is fed, value {name!r}{of} would be {told}, which takes {asked:,} "
                    f"bytes; the limit is {self._limit:,} bytes (max_value_bytes)",
                    hint="Feed less at a time; or raise the limit:  limits={'max_value_bytes': "
                    f"{asked}}}, and 0 lifts it.",
                    value=name,
                )

    def _factors(self, values: Sequence[str] | Mapping[str, Any]) -> dict[tuple[str, ...], int]:
        """Return the most bits that values have beside a product of symbols, for each product."""
        factors: dict[tuple[str, ...], int] = {}
        for name in values:
            type_ = self._graph.types.get(name)
            if isinstance(type_, TensorType) and type_.shape:
                names = [dim for dim in type_.shape if isinstance(dim, str)]
                symbols = tuple(sorted(filter(self._symbols.__contains__, names)))
                bits = type_.dtype.bits * prod(d for d in type_.shape if isinstance(d, int))
                if symbols:
                    factors[symbols] = max(bits, factors.get(symbols, 0))
        return factors
