"""Whether results are what they should be, in kind, shape, dtype and value.

A float may differ from what is expected by ``rtol`` times its own size and by ``atol`` times
the size of the largest element if that is over 1: where large numbers cancel, what remains is as
uncertain as they are. Integers, booleans, strings and floats of at most eight bits must be equal,
because the operators that make them round by a rule; if a tolerance is declared for them all the
same, ``atol`` is a plain number. Infinities, and where NaN stands, are always exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from subgraphkit.types import DataType

__all__ = ["DEFAULTS", "EXACT", "Difference", "Tolerance", "difference", "tolerance_of"]

_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from what is expected; see the module."""

    rtol: float
    atol: float


EXACT: Final = Tolerance(0.0, 0.0)
"""Not at all."""

DEFAULTS: Final[Mapping[str, Tolerance]] = MappingProxyType(
    {
        "float64": Tolerance(1e-7, 1e-9),
        "float32": Tolerance(1e-3, 1e-5),
        "float16": Tolerance(5e-3, 2e-3),
        "bfloat16": Tolerance(2e-2, 1e-2),
        "complex64": Tolerance(1e-3, 1e-5),
        "complex128": Tolerance(1e-7, 1e-9),
    }
)
"""By the label of the dtype (``DataType.label``); all others are exact."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What is wrong with a result.

    Attributes:
        stage: ``"shape"``, ``"dtype"`` or ``"value"``; a value of another kind, such as a list for
            an array, differs in dtype.
        text: Where in the value, what was expected and got.
    """

    stage: Literal["shape", "dtype", "value"]
    text: str


def tolerance_of(
    label: str, declared: Mapping[str, tuple[float, float]] = MappingProxyType({})
) -> Tolerance:
    """Return the tolerance of a dtype.

    Args:
        label: Label of the dtype, such as ``"float16"``.
        declared: What holds instead of ``DEFAULTS``, by label.
    """
    return Tolerance(*declared[label]) if label in declared else DEFAULTS.get(label, EXACT)


def difference(
    expected: Any,
    actual: Any,
    declared: Mapping[str, tuple[float, float]] = MappingProxyType({}),
    rtol: float | None = None,
    atol: float | None = None,
) -> Difference | None:
    """Compare a result with what it should be.

    Arrays must agree in shape, dtype and value; lists and mappings element by element; None only
    equals None.

    Args:
        expected: The value as it should be.
        actual: The value as it is.
        declared: Relative and absolute tolerance by the label of the dtype, such as ``"float16"``;
            they replace ``DEFAULTS``.
        rtol: The least relative tolerance of every dtype that is not exact; None for none.
        atol: The least absolute tolerance, likewise.

    Returns:
        The first difference, or None.
    """
    return _compare(expected, actual, "", _Measure(declared, rtol, atol))


@dataclass(frozen=True, slots=True)
class _Measure:
    """What a comparison measures by."""

    declared: Mapping[str, tuple[float, float]]
    rtol: float | None
    atol: float | None

    def of(self, array: _Array) -> Tolerance:
        label = _label(array)
        own = tolerance_of(label, self.declared)
        if own == EXACT:
            return EXACT
        return Tolerance(max(own.rtol, self.rtol or 0.0), max(own.atol, self.atol or 0.0))


def _compare(want: Any, have: Any, path: str, measure: _Measure) -> Difference | None:
    if _kind(want) != _kind(have):
        return Difference("dtype", f"{_at(path)}expected {_kind(want)}, got {_kind(have)}")
    if isinstance(want, np.ndarray):
        return _compare_arrays(want, have, path, measure)
    if isinstance(want, list | dict):
        return _compare_members(want, have, path, measure)
    return None if want is None or want == have else _values(path, want, have)


def _at(path: str) -> str:
    return f"{path.strip()}: " if path else ""


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    kinds = ((np.ndarray, "an array"), (list, "a list"), (dict, "a mapping"))
    return next((text for kind, text in kinds if isinstance(value, kind)), type(value).__name__)


def _compare_members(want: Any, have: Any, path: str, measure: _Measure) -> Difference | None:
    if len(want) != len(have):
        return Difference("shape", f"{_at(path)}expected length {len(want)}, got {len(have)}")
    if isinstance(want, dict) and want.keys() != have.keys():
        return _values(f"{path} keys", list(want), list(have))
    for key in want if isinstance(want, dict) else range(len(want)):
        found = _compare(want[key], have[key], f"{path}[{key!r}]", measure)
        if found is not None:
            return found
    return None


def _compare_arrays(want: _Array, have: _Array, path: str, measure: _Measure) -> Difference | None:
    if want.shape != have.shape:
        return Difference("shape", f"{_at(path)}expected shape {want.shape}, got {have.shape}")
    if _label(want) != _label(have):
        return Difference("dtype", f"{_at(path)}expected {_label(want)}, got {_label(have)}")
    if want.dtype.kind in "OUST":
        wrong = np.asarray(want.astype(str) != have.astype(str))
        return _elements(path, want, have, wrong, EXACT)
    tolerance = measure.of(want)
    return _elements(path, want, have, ~_close(want, have, tolerance), tolerance)


def _label(array: _Array) -> str:
    try:
        return DataType.of(array.dtype).label
    except KeyError:
        return str(array.dtype)


def _close(want: _Array, have: _Array, tolerance: Tolerance) -> _Array:
    """Say of every element whether it is close enough."""
    if want.dtype.kind in "biu" and tolerance == EXACT:
        return np.asarray(want == have)
    is_float = want.dtype.kind in "fc" or _label(want).startswith(("bfloat", "float"))
    wide = np.promote_types(want.dtype, np.float32) if want.dtype.kind in "fc" else np.float64
    want, have = want.astype(wide), have.astype(wide)
    largest = np.abs(want[np.isfinite(want)]).max(initial=1.0) if is_float else 1.0
    atol = tolerance.atol * float(largest)
    return np.isclose(have, want, rtol=tolerance.rtol, atol=atol, equal_nan=True)


def _elements(
    path: str, want: _Array, have: _Array, wrong: _Array, tolerance: Tolerance
) -> Difference | None:
    """Word the differences of two arrays by the one that is furthest off."""
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    place = _worst(want, have, wrong)
    where = f"[{', '.join(map(str, place))}]" if place else ""
    allowed = "" if tolerance == EXACT else f" (rtol {tolerance.rtol:g}, atol {tolerance.atol:g})"
    return Difference(
        "value",
        f"{_at(path)}{count} of {want.size} elements differ; at {where or 'its one element'} "
        f"expected {want[place]!s}, got {have[place]!s}{allowed}",
    )


def _worst(want: _Array, have: _Array, wrong: _Array) -> tuple[int, ...]:
    places = np.argwhere(wrong)
    if want.dtype.kind in "OUST":
        return tuple(places[0].tolist())
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        distances = np.abs(want[wrong].astype(wide) - have[wrong].astype(wide))
    # NaN and infinity against a number are as far off as can be
    furthest = int(np.argmax(np.where(np.isnan(distances), np.inf, distances)))
    return tuple(places[furthest].tolist())


def _values(path: str, want: Any, have: Any) -> Difference:
    return Difference("value", f"{_at(path)}expected {want!r}, got {have!r}")
