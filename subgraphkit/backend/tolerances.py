"""The one table of how far two results may be apart and still be called the same, by element type.

The test is ``|got - expected| <= relative * |expected| + absolute``, element by element. Unless you
give ``absolute``, it is a part of the largest finite value expected. Where large values cancel, the
loss grows with them, however small the result is.

``verify``, ``bench``, the conformance kit and reports on accuracy read this table. A backend's
declarations can only widen it. Decision 0015 has the reason for every entry.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.ir import Graph
from subgraphkit.types import DataType


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest accepted distance of a result from the expected one.

    Attributes:
        relative: Part of the expected element that is allowed.
        scaled: Part of the largest finite value expected that is allowed everywhere.
        absolute: What is allowed everywhere even if that is more.
    """

    relative: float
    scaled: float
    absolute: float = 0.0

    def limit(self, size: Any, largest: float) -> Any:
        """Return how far elements may be off.

        Args:
            size: Magnitudes of the elements expected, a number or an array.
            largest: The largest finite magnitude expected.
        """
        return self.relative * size + max(self.scaled * largest, self.absolute)

    def widened(self, relative: float, absolute: float) -> "Tolerance":
        """Return a tolerance with the larger bound of the two, in each part."""
        return Tolerance(max(self.relative, relative), self.scaled, max(self.absolute, absolute))

    @property
    def text(self) -> str:
        """The bounds, in words."""
        parts = (
            (self.relative, f"{self.relative:g} of the element"),
            (self.scaled, f"{self.scaled:g} of the largest"),
            (self.absolute, f"{self.absolute:g}"),
        )
        return " + ".join(text for size, text in parts if size) or "nothing"


ToleranceOf = Callable[[DataType], Tolerance]
"""From an element type to its tolerance."""

DEFAULT_TOLERANCES: Final[Mapping[DataType, Tolerance]] = MappingProxyType(
    {
        DataType.DOUBLE: Tolerance(1e-9, 1e-11),
        DataType.COMPLEX128: Tolerance(1e-9, 1e-11),
        DataType.FLOAT: Tolerance(1e-3, 2e-5),
        DataType.COMPLEX64: Tolerance(1e-3, 2e-5),
        DataType.FLOAT16: Tolerance(5e-3, 2e-3),
        DataType.BFLOAT16: Tolerance(2e-2, 1e-2),
    }
)
"""The default, unless you or a backend say otherwise. All other types must be equal: floats of 8
bits and less, integers, booleans and text."""

EXACT: Final = Tolerance(0.0, 0.0)


def tolerance_for(
    dtype: DataType, relative: float | None = None, absolute: float | None = None
) -> Tolerance:
    """Return the tolerance of an element type.

    Args:
        dtype: The element type.
        relative: Relative tolerance of all floating point types, in place of the table's.
        absolute: Absolute tolerance of all floating point types, in place of the table's.

    Returns:
        The tolerance; always nothing for integers, booleans and text.
    """
    found = DEFAULT_TOLERANCES.get(dtype, EXACT)
    if found is EXACT and not dtype.name.startswith("FLOAT"):
        return EXACT
    return Tolerance(
        found.relative if relative is None else relative,
        found.scaled if absolute is None else 0.0,
        absolute or 0.0,
    )


def tolerances_behind(allowed: ToleranceOf, graph: Graph, nodes: Iterable[int]) -> ToleranceOf:
    """Return the tolerances of results that nodes compute.

    A float of 64 bits that was computed in 32 is as far off as one of 32. So none of the floats has
    a narrower tolerance than those that the nodes make.
    """
    made = {graph.dtype(name) for node in nodes for name in graph.table.outputs[node]}
    known = [astuple(allowed(one)) for one in made & DEFAULT_TOLERANCES.keys()]

    def tolerance_of(dtype: DataType) -> Tolerance:
        own = allowed(dtype)
        is_float = dtype in DEFAULT_TOLERANCES
        return Tolerance(*map(max, zip(astuple(own), *known, strict=True))) if is_float else own

    return tolerance_of
