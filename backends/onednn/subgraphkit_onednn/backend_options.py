"""Options of the backend as types, as `subgraphkit author manifest write` writes them."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'onednn'; `subgraphkit list onednn --options` says more."""

    threads: int = 0
    """With how many threads to compute; 0 means as many as the setting threads."""
    library: Path | None = None
    """Path of libdnnl.so.3; unless given, that of the wheel or of the system."""
