"""Sessions that hand out inner values besides outputs, for those who look into a model."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from subgraphkit.binding import BoundModel
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.ir import BoundGraph
from subgraphkit.partitioning import partition
from subgraphkit.planning import plan
from subgraphkit.running.session import Session
from subgraphkit.types import TensorType

__all__ = ["tap_groups", "tapped_session"]

_GROUP_BYTES: Final = 1 << 30
"""What is kept of one run at once, as far as it is known beforehand."""

_UNKNOWN_BYTES: Final = 16 << 20
"""What a value is taken to need whose shape depends on the batch."""


def tap_groups(bound: BoundGraph, values: Sequence[str]) -> Iterator[list[str]]:
    """Divide values so that those of one run fit into memory, about 1 GiB at once.

    Args:
        bound: The bound graph.
        values: Values that nodes of it make.
    """
    group: list[str] = []
    size = 0
    for name in values:
        type_ = bound.types[name]
        known = type_.nbytes if isinstance(type_, TensorType) else None
        needed = _UNKNOWN_BYTES if known is None else known
        if group and size + needed > _GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(name)
        size += needed
    if group:
        yield group


def tapped_session(bound: BoundModel, values: Sequence[str]) -> Session:
    """Make a session whose outputs are the values named, and nothing else.

    Args:
        bound: The bound model; not changed.
        values: Values of the graph, each once.

    Returns:
        The session, to be closed.

    Raises:
        SubgraphkitError: Whatever a step of the road raises.
    """
    # The session that is looked into has said what there is to say.
    settings = replace(bound.settings, on_fallback="ok", require={})
    partitioning = partition(replace(bound, settings=settings).with_outputs(values))
    return Session(plan(partitioning, compile_subgraphs(partitioning)))
