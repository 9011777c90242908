"""The refusals of one property, kept as a column: one small integer per node.

A million refused nodes usually share a handful of reasons, so each reason is stored once.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from subgraphkit.backend.refusal import Refusal


class RefusedBy(NamedTuple):
    """One property's refusal of one node.

    Attributes:
        backend: Name of the backend.
        property: Name of its property.
        refusal: The reason.
    """

    backend: str
    property: str
    refusal: Refusal


def without_repeats(refused: Iterable[RefusedBy]) -> tuple[RefusedBy, ...]:
    """Leave out what an earlier property of the same backend said in the same words.

    Several properties of a backend often share their rules, and a reader wants a reason once.

    Args:
        refused: Refusals of one node, in the order of asking.
    """
    first: dict[tuple[str, Refusal], RefusedBy] = {}
    for one in refused:
        first.setdefault((one.backend, one.refusal), one)
    return tuple(first.values())


class RefusalColumn:
    """For each node, why one property did not take it.

    Args:
        node_count: Number of nodes of the model.
    """

    __slots__ = ("_code_of", "_codes", "_reasons")

    def __init__(self, node_count: int) -> None:
        self._codes = array("i", bytes(4 * node_count))
        self._reasons: list[Refusal | None] = [None]
        self._code_of: dict[Refusal, int] = {}

    def refuse(self, node: int, refusal: Refusal) -> None:
        """Keep the reason for a node, in place of an earlier one."""
        code = self._code_of.get(refusal)
        if code is None:
            code = self._code_of[refusal] = len(self._reasons)
            self._reasons.append(refusal)
        self._codes[node] = code

    def clear(self, nodes: Iterable[int]) -> None:
        """Forget the reasons for nodes, because they were taken after all."""
        codes = self._codes
        for node in nodes:
            codes[node] = 0

    def of(self, node: int) -> Refusal | None:
        """Return the reason for a node, or None if the property did not refuse it."""
        return self._reasons[self._codes[node]]

    def items(self) -> Iterator[tuple[int, Refusal]]:
        """Go through all refused nodes, ascending."""
        reasons = self._reasons
        for node, code in enumerate(self._codes):
            if code:
                refusal = reasons[code]
                assert refusal is not None  # noqa: S101 (only code 0 stands for none)
                yield node, refusal

    def copy(self) -> "RefusalColumn":
        """Return an independent copy."""
        twin = RefusalColumn(0)
        twin._codes = self._codes[:]
        twin._reasons = self._reasons[:]
        twin._code_of = dict(self._code_of)
        return twin
