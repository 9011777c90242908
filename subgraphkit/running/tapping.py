"""Sessions that return inner values besides outputs, to look into a model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from subgraphkit.binding import BoundModel
from subgraphkit.ir import BoundGraph
from subgraphkit.running.session import Session
from subgraphkit.types import TensorType

_Item = TypeVar("_Item")

_GROUP_BYTES: Final = 1 << 30
"""The most bytes kept of one run at once, as far as they are known beforehand."""

_UNKNOWN_BYTES: Final = 16 << 20
"""The assumed bytes of a value whose shape depends on the batch."""


def tap_groups(
    bound: BoundGraph, items: Iterable[_Item], values_of: Callable[[_Item], Iterable[str]]
) -> Iterator[list[_Item]]:
    """Divide things so that the values that one run keeps fit into memory, about 1 GiB."""
    group: list[_Item] = []
    size = 0
    for item in items:
        needed = sum(_bytes_of(bound, name) for name in values_of(item))
        if group and size + needed > _GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(item)
        size += needed
    if group:
        yield group


def _bytes_of(bound: BoundGraph, name: str) -> int:
    type_ = bound.types.get(name)
    known = type_.nbytes if isinstance(type_, TensorType) else None
    return _UNKNOWN_BYTES if known is None else known


class InnerValues:
    """A session for values inside of a bound model, opened when they are first asked for."""

    def __init__(self, bound: BoundModel) -> None:
        self._bound = bound
        self._session: Session | None = None

    def session(self, names: Sequence[str]) -> Session | None:
        """Return a session whose outputs are values that nodes make; None if one of them is not."""
        wanted, found = tuple(dict.fromkeys(names)), self._session
        if isinstance(names, str) or not self._bound.producers.keys() >= set(wanted):
            return None
        if found is None or found.graph.outputs != wanted:
            self.close()
            found = self._session = tapped_session(self._bound, wanted)
        return found

    def close(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            self._session.close()


def tapped_session(bound: BoundModel, values: Sequence[str]) -> Session:
    """Make a session whose outputs are the values named, and nothing else."""
    # The original session has reported already.
    settings = replace(bound.settings, on_fallback="ok", require={})
    return Session(replace(bound, settings=settings).with_outputs(values))
