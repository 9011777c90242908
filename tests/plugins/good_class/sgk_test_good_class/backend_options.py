"""Options of the backend as types; `subgraphkit manifest write` writes them from the manifest."""

from dataclasses import dataclass

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'good_class'; `subgraphkit info good_class --options` says more."""

    level: int = 1
