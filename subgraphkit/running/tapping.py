"""Sessions that hand out inner values besides outputs, for those who look into a model."""

from collections.abc import Sequence
from dataclasses import replace

from subgraphkit.compiling import compile_subgraphs
from subgraphkit.ir import BoundGraph
from subgraphkit.partitioning import partition
from subgraphkit.planning import plan
from subgraphkit.running.session import Session

__all__ = ["tapped_session"]


def tapped_session(bound: BoundGraph, values: Sequence[str]) -> Session:
    """Make a session whose outputs are the values named, and nothing else.

    Args:
        bound: The bound graph; not changed.
        values: Values of the graph, each once.

    Returns:
        The session, to be closed.

    Raises:
        SubgraphkitError: Whatever a step of the road raises.
    """
    partitioning = partition(replace(bound, outputs=tuple(values)))
    return Session(plan(partitioning, compile_subgraphs(partitioning)))
