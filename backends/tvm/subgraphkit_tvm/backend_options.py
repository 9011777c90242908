"""Options of the backend as types, as `subgraphkit author manifest write` writes them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'tvm'; `subgraphkit list tvm --options` says more."""

    tuning: Literal["none", "metaschedule"] = "none"
    """How loops are arranged: by fixed rules (none), or by measuring (metaschedule), which takes
    minutes to hours."""
    tuning_trials: int = 64
    """Measurements per kernel that has not been tuned yet."""
    tuning_dir: Path | None = None
    """Directory in which tuning keeps what it found; required for tuning=metaschedule."""
