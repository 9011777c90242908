"""The rules of the options beyond the manifest, and the names other tools use for them."""

from subgraphkit_tensorrt.options.checking import check_agreement, check_library
from subgraphkit_tensorrt.options.ranges import ShapeRanges, read_buckets, read_ranges

__all__ = ["ShapeRanges", "check_agreement", "check_library", "read_buckets", "read_ranges"]
