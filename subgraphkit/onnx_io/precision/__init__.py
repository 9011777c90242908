"""Models written anew in fp16, bf16 or int8, so that every backend can run them.

Nothing is run here. Ranges come from ``subgraphkit.calibrating``, a file, or another tool.
"""

from subgraphkit.onnx_io.precision.caches import is_calibration_cache, read_calibration_cache
from subgraphkit.onnx_io.precision.ranges import Range, Ranges, content_hash
from subgraphkit.onnx_io.precision.requests import HighPrecision, Kind, Precision
from subgraphkit.onnx_io.precision.result import KEPT_CODES, Kept, Rewriting
from subgraphkit.onnx_io.precision.rewriting import rewrite

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
