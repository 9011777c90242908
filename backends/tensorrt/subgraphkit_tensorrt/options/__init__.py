"""The options of the backend: one table, its rules, and the names other tools use for them."""

from subgraphkit_tensorrt.options.checking import check_agreement, check_library
from subgraphkit_tensorrt.options.ranges import Ranges, read_buckets, read_ranges
from subgraphkit_tensorrt.options.table import OPTIONS, TABLE, defaults

__all__ = [
    "OPTIONS",
    "TABLE",
    "Ranges",
    "check_agreement",
    "check_library",
    "defaults",
    "read_buckets",
    "read_ranges",
]
