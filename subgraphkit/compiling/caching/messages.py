"""Messages about faults of the engine cache; each is rendered in a golden test."""

from subgraphkit.errors import CacheError
from subgraphkit.storing.messages import untrusted, unusable

__all__ = ["engine_failed", "untrusted", "unusable"]


def engine_failed(backend: str, subgraph: str, doing: str, problem: str) -> CacheError:
    """SGK152: a backend broke its side; the results are right, but nothing is gained."""
    return CacheError(
        "SGK152",
        f"backend {backend!r} failed to {doing} the engine of subgraph {subgraph!r}: {problem}",
        hint="The engine is compiled each time, with the same results.\n"
        "This is a fault of the backend; report it to its author.",
        backend=backend,
        subgraph=subgraph,
    )
