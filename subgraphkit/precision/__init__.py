"""The public door of precision: models in fewer bits, the ranges they need, and their accuracy.

``rewrite`` writes a model anew, ``calibrate`` finds the ranges that int8 needs,
``measure_accuracy`` says how far a rewritten model is from the original, and ``precision_search``
finds the nodes that have to keep float32. Names are imported when they are first used.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "KEPT_CODES": "subgraphkit.rewriting.records",
    "AccuracyReport": "subgraphkit.precision.accuracy",
    "Effort": "subgraphkit.precision.search_results",
    "HighPrecision": "subgraphkit.rewriting.records",
    "Histogram": "subgraphkit.precision.thresholds",
    "Kept": "subgraphkit.rewriting.records",
    "Kind": "subgraphkit.rewriting.records",
    "LayerAccuracy": "subgraphkit.precision.accuracy",
    "Method": "subgraphkit.precision.thresholds",
    "Precision": "subgraphkit.rewriting.records",
    "PrecisionSearch": "subgraphkit.precision.search_results",
    "Range": "subgraphkit.rewriting.ranges",
    "Ranges": "subgraphkit.rewriting.ranges",
    "Rewriting": "subgraphkit.rewriting.records",
    "SearchTrial": "subgraphkit.precision.search_results",
    "StillKept": "subgraphkit.precision.search_results",
    "ValueAccuracy": "subgraphkit.precision.deviation",
    "calibrate": "subgraphkit.precision.calibration",
    "content_hash": "subgraphkit.rewriting.ranges",
    "is_calibration_cache": "subgraphkit.rewriting.ranges",
    "measure_accuracy": "subgraphkit.precision.accuracy",
    "precision_search": "subgraphkit.precision.search",
    "read_calibration_cache": "subgraphkit.rewriting.ranges",
    "rewrite": "subgraphkit.rewriting.rewriting",
    "threshold_of": "subgraphkit.precision.thresholds",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
