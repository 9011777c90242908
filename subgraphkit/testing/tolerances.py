"""How far results may be from what they should be, and the first difference found.

A float may differ from what is expected by ``rtol`` times its own size and by ``atol`` times the
size of the largest element if that is over 1: where large numbers cancel, what remains is as
uncertain as they are. Integers, booleans, strings and floats of at most eight bits must be equal,
because the operators that make them round by a rule; if a tolerance is declared for them all the
same, ``atol`` is a plain number. Infinities, and where NaN stands, are always exact.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.comparing import Difference, Tolerance, compare_values
from subgraphkit.comparing.tolerances import EXACT
from subgraphkit.types import DataType

__all__ = ["DEFAULTS", "Declared", "difference"]

Declared = Mapping[str, tuple[float, float]]
"""Relative and absolute tolerance by the label of the dtype, such as ``"float16"``."""

DEFAULTS: Final[Declared] = MappingProxyType(
    {
        "float64": (1e-7, 1e-9),
        "float32": (1e-3, 1e-5),
        "float16": (5e-3, 2e-3),
        "bfloat16": (2e-2, 1e-2),
        "complex64": (1e-3, 1e-5),
        "complex128": (1e-7, 1e-9),
    }
)
"""What holds unless declared otherwise; all other dtypes are exact."""


def difference(
    expected: Any,
    actual: Any,
    declared: Declared = MappingProxyType({}),
    rtol: float | None = None,
    atol: float | None = None,
) -> Difference | None:
    """Compare a result with what it should be.

    Arrays must agree in shape, dtype and value; lists and mappings element by element; None only
    equals None.

    Args:
        expected: The value as it should be.
        actual: The value as it is.
        declared: What holds instead of ``DEFAULTS``, by label.
        rtol: The least relative tolerance of every dtype that is not exact; None for none.
        atol: The least absolute tolerance, likewise.

    Returns:
        The first difference, or None.
    """
    allowed = partial(_tolerance, declared, rtol or 0.0, atol or 0.0)
    found = compare_values("", actual, expected, allowed)
    return next((one for one in found if not one.agrees), None)


def _tolerance(declared: Declared, rtol: float, atol: float, dtype: DataType) -> Tolerance:
    label = dtype.label
    if label not in declared and label not in DEFAULTS:
        return EXACT
    own = declared.get(label) or DEFAULTS[label]
    if label not in DEFAULTS and not label.startswith("float"):
        return Tolerance(own[0], 0.0, own[1])
    absolute = max(own[1], atol)
    return Tolerance(max(own[0], rtol), absolute, absolute)
