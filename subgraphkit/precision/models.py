"""Names of ``subgraphkit.rewriting`` that ``subgraphkit.precision`` offers too."""

from subgraphkit.rewriting import (
    KEPT_CODES,
    HighPrecision,
    Kept,
    Kind,
    Precision,
    Range,
    Ranges,
    Rewriting,
    content_hash,
    is_calibration_cache,
    read_calibration_cache,
    rewrite,
)

__all__ = [
    "KEPT_CODES",
    "HighPrecision",
    "Kept",
    "Kind",
    "Precision",
    "Range",
    "Ranges",
    "Rewriting",
    "content_hash",
    "is_calibration_cache",
    "read_calibration_cache",
    "rewrite",
]
