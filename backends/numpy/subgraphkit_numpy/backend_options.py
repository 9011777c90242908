"""Options of the backend as types, as `subgraphkit author manifest write` writes them."""

from dataclasses import dataclass

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'numpy'; `subgraphkit list numpy --options` says more."""

    max_loop_iterations: int = 0
    """Iterations after which a Loop is stopped with an error; 0 means no limit."""
    max_output_bytes: int | None = None
    """Size above which an output is refused before it is allocated; unless given, the limit
    max_value_bytes of the setting limits. 0 means no limit. In bytes."""
