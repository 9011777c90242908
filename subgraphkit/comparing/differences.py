"""The public names about differences, which live where everybody below may compare as well."""

from subgraphkit.backend.differences import Difference, compare_values, first_difference
from subgraphkit.backend.tolerances import DEFAULT_TOLERANCES, Tolerance, tolerance_for

__all__ = [
    "DEFAULT_TOLERANCES", "Difference", "Tolerance", "compare_values", "first_difference",
    "tolerance_for",
]  # fmt: skip
