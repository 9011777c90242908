"""Options of the backend as types, as `subgraphkit author manifest write` writes them."""

from dataclasses import dataclass

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'good_class'; `subgraphkit list good_class --options` says more."""

    level: int = 1
