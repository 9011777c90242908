"""How far two results may lie apart and still be called the same, by element type.

The test is ``|got - expected| <= relative * |expected| + absolute``, element by element. Unless
the caller says how large ``absolute`` is, it is a part of the largest finite value expected: where
large values cancel, what is lost is as large a part of them, however small the rest is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import ml_dtypes

from subgraphkit.types import DataType

__all__ = ["DEFAULT_TOLERANCES", "EXACT", "Tolerance", "tolerance_for"]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may lie from the one expected.

    Attributes:
        relative: Part of the expected element that is allowed.
        scaled: Part of the largest finite value expected that is allowed everywhere.
        absolute: What is allowed everywhere even if that is more.
    """

    relative: float
    scaled: float
    absolute: float = 0.0

    def floor(self, largest: float) -> float:
        """Return what is allowed everywhere, given the largest finite value expected."""
        return max(self.scaled * largest, self.absolute)


DEFAULT_TOLERANCES: Final[Mapping[DataType, Tolerance]] = MappingProxyType(
    {
        DataType.DOUBLE: Tolerance(1e-9, 1e-11),
        DataType.COMPLEX128: Tolerance(1e-9, 1e-11),
        DataType.FLOAT: Tolerance(1e-3, 1e-4),
        DataType.COMPLEX64: Tolerance(1e-3, 1e-4),
        DataType.FLOAT16: Tolerance(2e-2, 5e-3),
        DataType.BFLOAT16: Tolerance(5e-2, 2e-2),
    }
)
"""What holds unless the caller says otherwise; floats of 8 bits and less may differ by two steps,
and everything else, integers, booleans and text, must be equal."""

EXACT: Final = Tolerance(0.0, 0.0)
"""Not at all."""


def tolerance_for(
    dtype: DataType, relative: float | None = None, absolute: float | None = None
) -> Tolerance:
    """Return the tolerance of an element type.

    Args:
        dtype: The element type.
        relative: Relative tolerance of all floating point types, in place of the default.
        absolute: Absolute tolerance of all floating point types, in place of the default.

    Returns:
        The tolerance; that of integers, booleans and text is nothing, whatever is given.
    """
    default = DEFAULT_TOLERANCES.get(dtype)
    if default is None:
        if not dtype.name.startswith("FLOAT"):
            return EXACT
        step = float(ml_dtypes.finfo(dtype.numpy).eps)  # type: ignore[no-untyped-call]  # ships without types
        default = Tolerance(2 * step, step / 4)
    return Tolerance(
        default.relative if relative is None else relative,
        default.scaled if absolute is None else 0.0,
        absolute or 0.0,
    )
