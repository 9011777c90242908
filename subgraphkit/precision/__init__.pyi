# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.precision.accuracy import (
    AccuracyReport,
    LayerAccuracy,
    measure_accuracy,
)
from subgraphkit.precision.calibration import (
    calibrate,
)
from subgraphkit.precision.deviation import (
    ValueAccuracy,
)
from subgraphkit.precision.search import (
    precision_search,
)
from subgraphkit.precision.search_results import (
    Effort,
    PrecisionSearch,
    SearchTrial,
    StillKept,
)
from subgraphkit.precision.thresholds import (
    Histogram,
    Method,
    threshold_of,
)
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
from subgraphkit.rewriting.rewriting import (
    rewrite,
)

__all__ = [
    "KEPT_CODES",
    "AccuracyReport",
    "Effort",
    "HighPrecision",
    "Histogram",
    "Kept",
    "Kind",
    "LayerAccuracy",
    "Method",
    "Precision",
    "PrecisionSearch",
    "Range",
    "Ranges",
    "Rewriting",
    "SearchTrial",
    "StillKept",
    "ValueAccuracy",
    "calibrate",
    "content_hash",
    "is_calibration_cache",
    "measure_accuracy",
    "precision_search",
    "read_calibration_cache",
    "rewrite",
    "threshold_of",
]
