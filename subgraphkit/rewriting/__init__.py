"""Models written anew in fp16, bf16, int8 or fp8, so that every backend can run them.

Nothing is run here. Ranges come from ``subgraphkit.precision``, a file, or another tool.
"""

from subgraphkit.rewriting.ranges import (
    Range,
    Ranges,
    content_hash,
    is_calibration_cache,
    read_calibration_cache,
)
from subgraphkit.rewriting.records import (
    KEPT_CODES,
    HighPrecision,
    Kept,
    Kind,
    Precision,
    Rewriting,
)
from subgraphkit.rewriting.rewriting import rewrite

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
