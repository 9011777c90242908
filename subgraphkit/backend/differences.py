"""Differences between a value and the one expected: kind, dtype, shape, numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.tolerances import Tolerance, ToleranceOf, tolerance_for
from subgraphkit.types import DataType

_Array = npt.NDArray[Any]

_INDICES: Final = ("int32", "int64")
"""Dtypes of classes and places: to agree on another one than the first is no accident."""

Stage = Literal["", "shape", "dtype", "value"]
"""The first difference: none, the shape or length, the dtype or kind, or elements."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two tensors, or two values that are no tensors.

    Attributes:
        name: Name of the value; ``y[2]`` is an element of the sequence ``y``.
        stage: What differs first; empty if nothing does.
        problem: What makes a comparison of numbers impossible, such as another dtype; or empty.
        dtype: Element type expected, as a label; empty if no tensor is.
        shape: Shape expected; empty if no tensor is.
        elements: How many elements there are.
        wrong: How many of them are beyond the tolerance.
        nan: How many of them are NaN on one side only.
        infinite: How many of them are infinite on one side only, or of the other sign.
        max_abs: Largest absolute difference of finite elements.
        max_rel: Largest difference of finite elements by the element expected, where it is not 0.
        scaled: ``max_abs`` by the largest finite value expected; ``inf`` where that is 0.
        cosine: Cosine of the angle between the two as vectors, of finite elements; NaN where one
            of them is all zeros.
        worst: Where the difference exceeds the tolerance most, or is largest if it never does;
            None if nothing differs.
        got: The element there.
        expected: The element expected there.
        rms: The signal: root of the mean square of the finite elements expected.
        low: The least finite element expected; of complex ones the least magnitude.
        high: The largest.
        nothing: Why agreement proves nothing, for example because one constant would also agree;
            empty if it proves something.
    """

    name: str
    stage: Stage = ""
    problem: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    elements: int = 0
    wrong: int = 0
    nan: int = 0
    infinite: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    scaled: float = 0.0
    cosine: float = math.nan
    worst: tuple[int, ...] | None = None
    got: Any = None
    expected: Any = None
    rms: float = 0.0
    low: float = math.nan
    high: float = math.nan
    nothing: str = ""

    @property
    def agrees(self) -> bool:
        """Whether it equals the expected result within the tolerance."""
        return not self.stage

    @property
    def result(self) -> Literal["ok", "FAIL", "nothing"]:
        """The outcome; ``nothing`` if it agrees and this means nothing."""
        if not self.agrees:
            return "FAIL"
        return "nothing" if self.nothing else "ok"

    @property
    def type(self) -> str:
        """Element type and shape expected, such as ``float32[2,3]``; ``-`` if it is no tensor."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]" if self.dtype else "-"

    @property
    def nbytes(self) -> int:
        """The bytes of the expected result, as ONNX stores it; 0 if it is text or no tensor."""
        bits = next((dtype.bits for dtype in DataType if dtype.label == self.dtype), 0)
        return self.elements * bits // 8

    @property
    def remark(self) -> str:
        """A sentence on it: the mismatch, why it means nothing, or the worst place."""
        if self.problem or (self.agrees and self.nothing):
            return self.problem or self.nothing
        if self.worst is None:
            return "-"
        place = ",".join(map(str, self.worst))
        return f"[{place}] {_text_of(self.got)}, expected {_text_of(self.expected)}"

    @property
    def text(self) -> str:
        """The difference in words; empty if there is none."""
        if self.agrees:
            return ""
        where = f"{self.name}: " if self.name else ""
        if self.problem:
            return f"{where}{self.problem}"
        place = f"[{', '.join(map(str, self.worst))}]" if self.worst else "its one element"
        return (
            f"{where}{self.wrong} of {self.elements} elements differ; at {place} expected "
            f"{self._in_full(self.expected)}, got {self._in_full(self.got)}"
        )

    def _in_full(self, value: Any) -> str:
        """Write an element with no more digits than its type has."""
        is_short = isinstance(value, float) and self.dtype != DataType.DOUBLE.label
        return f"{value:.9g}" if is_short else str(value)


def compare_values(
    name: str, got: Any, expected: Any, tolerance: ToleranceOf = tolerance_for
) -> list[Difference]:
    """Compare a value with the one expected.

    Args:
        name: Name of the value, for the findings.
        got: The value: an array, a list (sequence), a mapping, or None (absent optional).
        expected: The value expected.
        tolerance: Tells the tolerance of an element type.

    Returns:
        One finding per tensor, in order; one for a value of another kind or length.
    """
    return list(_values(name, got, expected, tolerance))


def first_difference(
    got: Any, expected: Any, tolerance: ToleranceOf = tolerance_for
) -> Difference | None:
    """Return the first difference beyond the tolerance, or None; as ``compare_values``."""
    return next((one for one in _values("", got, expected, tolerance) if not one.agrees), None)


def compare_results(
    got: Mapping[str, Any],
    expected: Mapping[str, Any],
    tolerance: ToleranceOf,
    max_error: float,
) -> Iterator[Difference]:
    """Compare outputs, by element or, where ``max_error`` is given, by their relative L2 error."""
    for name, value in got.items():
        is_near = max_error > 0 and relative_error([value], [expected[name]]) <= max_error
        for one in compare_values(name, value, expected[name], tolerance):
            yield replace(one, stage="") if is_near and one.stage == "value" else one


def relative_error(results: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the largest relative L2 error of any output; infinity where they cannot be compared.

    For integers, truth values and texts, it is the part of the elements that differ.
    """
    return max(map(_error_of, results, expected), default=0.0)


def _error_of(got: Any, expected: Any) -> float:
    if not (isinstance(got, np.ndarray) and isinstance(expected, np.ndarray)):
        return math.inf if first_difference([got], [expected]) else 0.0
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return math.inf
    if expected.dtype.kind not in "fcV":
        return float(np.mean(got != expected)) if expected.size else 0.0
    right = expected.astype(np.complex128 if expected.dtype.kind == "c" else np.float64)
    off = np.where(got == expected, 0, got.astype(right.dtype) - right)  # the same infinities
    off[np.isnan(right) & np.isnan(got)] = 0
    size = float(np.linalg.norm(right[np.isfinite(right)]))
    error = float(np.linalg.norm(off))
    if math.isnan(error) or (error and not size):
        return math.inf
    return error / size if size else 0.0


def _values(name: str, got: Any, expected: Any, tolerance: ToleranceOf) -> Iterator[Difference]:
    kinds = _kind(got), _kind(expected)
    if kinds[0] != kinds[1]:
        yield Difference(name, "dtype", f"{kinds[0]}, expected {kinds[1]}")
    elif isinstance(expected, list | tuple):
        yield from _elements(name, got, expected, tolerance)
    elif isinstance(expected, Mapping):
        yield from _entries(name, got, expected, tolerance)
    elif expected is None:
        yield Difference(name)
    else:
        yield _tensors(name, np.asarray(got), np.asarray(expected), tolerance)


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "a sequence"
    if isinstance(value, Mapping):
        return "a map"
    if isinstance(value, np.ndarray):
        return "an array"
    return "nothing" if value is None else "a number or a text"


def _elements(name: str, got: Any, expected: Any, tolerance: ToleranceOf) -> Iterator[Difference]:
    if len(got) != len(expected):
        problem = f"a sequence of {len(got)}, expected one of {len(expected)}"
        yield Difference(name, "shape", problem)
        return
    if not expected:
        yield Difference(name)
    for at, (one, other) in enumerate(zip(got, expected, strict=True)):
        yield from _values(f"{name}[{at}]", one, other, tolerance)


def _entries(name: str, got: Any, expected: Any, tolerance: ToleranceOf) -> Iterator[Difference]:
    if set(got) != set(expected):
        yield Difference(name, "value", "a map with other keys than expected")
        return
    for key, other in expected.items():
        yield from _values(f"{name}[{key!r}]", got[key], other, tolerance)


def _text_of(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _tensors(name: str, got: _Array, expected: _Array, tolerance: ToleranceOf) -> Difference:
    found, wanted = _data_type(got), _data_type(expected)
    plain = Difference(
        name, dtype=_label(wanted, expected), shape=expected.shape, elements=expected.size
    )
    if found is not wanted or wanted is None:
        problem = f"dtype {_label(found, got)}, expected {plain.dtype}"
        return replace(plain, stage="dtype", problem=problem)
    if got.shape != expected.shape:
        problem = f"shape {list(got.shape)}, expected {list(expected.shape)}"
        return replace(plain, stage="shape", problem=problem)
    if wanted is DataType.STRING:
        return _texts(plain, got, expected)
    return _numbers(plain, got, expected, tolerance(wanted))


def _data_type(array: _Array) -> DataType | None:
    try:
        return DataType.of(array.dtype)
    except KeyError:
        return None


def _label(dtype: DataType | None, array: _Array) -> str:
    return str(array.dtype) if dtype is None else dtype.label


def _texts(plain: Difference, got: _Array, expected: _Array) -> Difference:
    """Compare texts, which may be str on one side and UTF-8 on the other."""
    pairs = zip(got.reshape(-1).tolist(), expected.reshape(-1).tolist(), strict=True)
    places = [at for at, (one, other) in enumerate(pairs) if _text(one) != _text(other)]
    if not places:
        return plain
    worst = _index(places[0], expected.shape)
    have, want = _text(got[worst]), _text(expected[worst])
    return replace(plain, stage="value", wrong=len(places), worst=worst, got=have, expected=want)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _numbers(plain: Difference, got: _Array, expected: _Array, allowed: Tolerance) -> Difference:
    other = _widen_array(expected)
    plain = _with_signal(plain, other, allowed)
    if not expected.size or (expected.dtype.kind in "iub" and np.array_equal(got, expected)):
        return plain
    one = _widen_array(got)
    finite = np.isfinite(one) & np.isfinite(other)
    nan = np.isnan(one) != np.isnan(other)
    infinite = ~finite & ~nan & ~(np.isnan(one) & np.isnan(other)) & (one != other)
    apart, size = _sizes(one, other, finite)
    largest = float(size.max())
    limit = allowed.limit(size, largest)
    wrong = (apart > limit) | nan | infinite
    max_abs, nonzero = float(apart.max()), size > 0
    at = _worst(apart, limit, nan | infinite)
    worst = None if at is None else _index(at, expected.shape)
    return replace(
        plain,
        stage="value" if wrong.any() else "",
        wrong=int(wrong.sum()),
        nan=int(nan.sum()),
        infinite=int(infinite.sum()),
        max_abs=max_abs,
        max_rel=float((apart[nonzero] / size[nonzero]).max()) if nonzero.any() else 0.0,
        scaled=max_abs / largest if largest else (math.inf if max_abs else 0.0),
        cosine=_cosine(one[finite], other[finite]),
        worst=worst,
        got=None if worst is None else _plain(got, one, worst),
        expected=None if worst is None else _plain(expected, other, worst),
    )


def _with_signal(plain: Difference, expected: _Array, allowed: Tolerance) -> Difference:
    """Add the figures of the expected result, and why agreement with it means nothing, if so."""
    finite = expected[np.isfinite(expected)]
    if not finite.size:
        return replace(plain, nothing="no element is finite" if expected.size else "it is empty")
    size = np.abs(finite)
    shown = size if finite.dtype.kind == "c" else finite
    largest = float(size.max())
    rms = largest * float(np.sqrt(np.mean((size / largest) ** 2))) if largest else 0.0
    low, high = float(shown.min()), float(shown.max())
    limit = allowed.limit(size, largest)
    nothing = ""
    is_index = plain.dtype in _INDICES and low != 0
    if finite.size < expected.size or is_index:
        pass  # where those are that are not finite means something, and so does which index it is
    elif expected.size > 1 and (finite == finite[0]).all():
        nothing = f"every element is {low:.6g}"
    elif (size <= limit).all() and not plain.dtype.startswith(("int", "uint", "bool")):
        nothing = "the tolerance is larger than the signal: zeros would agree as well"
    elif expected.size > 1 and (np.abs(finite - finite.mean()) <= limit).all():
        nothing = f"{low:.6g} everywhere would agree as well"
    return replace(plain, rms=rms, low=low, high=high, nothing=nothing)


def _sizes(one: _Array, other: _Array, finite: _Array) -> tuple[_Array, _Array]:
    """Return how far apart the elements are and how large those expected are; 0 if not finite."""
    apart, size = np.zeros(other.shape), np.zeros(other.shape)
    with np.errstate(over="ignore"):
        distance = np.subtract(one, other, where=finite, out=np.zeros_like(other))
        np.abs(distance, out=apart)
    np.abs(other, out=size, where=finite)
    return apart, size


def _plain(array: _Array, widened: _Array, place: tuple[int, ...]) -> Any:
    return (array if array.dtype.kind in "iub" else widened)[place].item()


def _widen_array(array: _Array) -> _Array:
    """Return numbers whose differences do not overflow, as far as NumPy has any."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    # 64-bit integers beyond 2**53 would be rounded to one another
    if array.dtype in (np.int64, np.uint64):
        return array.astype(np.longdouble)
    return array.astype(np.float64)


def _worst(apart: _Array, limit: _Array, unlike: _Array) -> int | None:
    if unlike.any():
        return int(unlike.argmax())
    if not apart.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(apart > 0, apart / limit, 0)
    if not np.isfinite(excess).all():  # nothing is allowed there
        excess = np.where(np.isfinite(excess), 0, apart)
    return int(excess.argmax())


def _cosine(one: _Array, other: _Array) -> float:
    # scaled first: squares of large values are beyond any float
    one, other = (part / (np.abs(part).max() or 1) if part.size else part for part in (one, other))
    product = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.vdot(one, other).real / product) if product else math.nan


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(at) for at in np.unravel_index(flat, shape))
