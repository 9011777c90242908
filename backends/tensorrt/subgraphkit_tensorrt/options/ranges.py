"""The ranges of shapes that options ask for, read into one form and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.errors import OptionError
from subgraphkit_tensorrt.backend_options import Options

__all__ = ["ShapeRanges", "contradiction", "read_buckets", "read_ranges"]

_WORDS: Final = ("min_shapes", "opt_shapes", "max_shapes")
_THREE: Final = 3

Range = tuple[int, int, int]
"""Smallest, usual and largest."""
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShapeRanges:
    """The ranges of shapes known before the first run.

    Attributes:
        dims: Smallest, usual and largest value, by symbolic dimension.
        inputs: Smallest, usual and largest shape, by input of the model.
    """

    dims: Mapping[str, Range] = field(default_factory=lambda: MappingProxyType({}))
    inputs: Mapping[str, tuple[Shape, Shape, Shape]] = field(
        default_factory=lambda: MappingProxyType({})
    )


def read_ranges(options: Options) -> ShapeRanges:
    """Read ``dims``, ``min_shapes``, ``opt_shapes`` and ``max_shapes``.

    Returns:
        The ranges; of a dimension with several, the one that spans them all, which is as usual as
        the largest.

    Raises:
        OptionError: They contradict one another or themselves (SGK161).
    """
    dims = {name: _span(one) for name, one in _dims_of(options).items()}
    given = [options.min_shapes, options.opt_shapes, options.max_shapes]
    names = {name: None for shapes in given for name in shapes}
    inputs = {name: _shape_range(name, given) for name in names}
    return ShapeRanges(MappingProxyType(dims), MappingProxyType(inputs))


def read_buckets(options: Options) -> tuple[ShapeRanges, ...]:
    """Read what ``read_ranges`` reads, apart for every combination of ranges of dimensions.

    Raises:
        OptionError: As ``read_ranges``, or they are to have more engines than are kept (SGK161).
    """
    span, several = read_ranges(options), _dims_of(options)
    buckets = tuple(
        replace(span, dims=MappingProxyType(dict(zip(several, chosen, strict=True))))
        for chosen in product(*several.values())
    )
    if options.engine_per_range and len(buckets) > options.max_engines:
        raise contradiction(
            f"option 'dims' of backend 'tensorrt' asks for {len(buckets)} engines of a subgraph, "
            f"max_engines={options.max_engines} keeps fewer",
            "Give fewer ranges, or raise max_engines.",
            "dims",
            "max_engines",
        )
    return buckets


def _dims_of(options: Options) -> dict[str, tuple[Range, ...]]:
    return {name: _dim_ranges(name, values) for name, values in options.dims.items()}


def _span(ranges: Sequence[Range]) -> Range:
    largest = max(ranges, key=lambda one: one[2])
    return min(one[0] for one in ranges), largest[1], largest[2]


def contradiction(message: str, hint: str, *options: str) -> OptionError:
    """Build the error for options that cannot hold together (SGK161)."""
    return OptionError("SGK161", message, hint=hint, backend="tensorrt", options=options)


def _dim_ranges(name: str, values: tuple[Any, ...]) -> tuple[Range, ...]:
    """Read one range, or several: ``1x8x32``, ``1|1x8x32``, ``(1, 8, 32)``, ``[1, (1, 8, 32)]``."""
    words = [word for value in values for word in _apart(value)]
    several = words if any(isinstance(word, tuple) for word in words) else [tuple(words)]
    found = [_dim_range(one if isinstance(one, tuple) else (one,)) for one in several]
    ranges = tuple(dict.fromkeys(one for one in found if one is not None))
    if None in found or not ranges:
        raise contradiction(
            f"option 'dims' of backend 'tensorrt' gives dimension {name!r} the range {values!r}, "
            "expected one number, or the smallest, the usual and the largest, or several such "
            "ranges",
            f"Write dims={{{name!r}: (1, 8, 32)}}, or {name}=1x8x32 where text is wanted; for "
            f"several ranges, dims={{{name!r}: [(1, 1, 1), (1, 8, 32)]}}, or {name}=1|1x8x32.",
            "dims",
        )
    return ranges


def _apart(value: Any) -> list[Any]:
    """Return the ranges in a word of text; what is no text, as it is."""
    if not isinstance(value, str):
        return [value]
    return [
        tuple(int(size) if size.strip().isdigit() else size for size in word.split("x"))
        for word in value.split("|")
    ]


def _dim_range(values: tuple[Any, ...]) -> Range | None:
    if not all(isinstance(value, int) and value >= 0 for value in values):
        return None
    if len(values) == 1:
        return (values[0],) * 3
    if len(values) == _THREE and list(values) == sorted(values):
        return (values[0], values[1], values[2])
    return None


def _shape_range(
    name: str, given: list[Mapping[str, tuple[Any, ...]]]
) -> tuple[Shape, Shape, Shape]:
    missing = [word for word, shapes in zip(_WORDS, given, strict=True) if name not in shapes]
    if missing:
        raise contradiction(
            f"input {name!r} has no shape in {' and '.join(missing)} of backend 'tensorrt'",
            "Give an input in min_shapes, opt_shapes and max_shapes, or in none of them.",
            *missing,
        )
    low, usual, high = (shapes[name] for shapes in given)
    whole = all(isinstance(dim, int) for shape in (low, usual, high) for dim in shape)
    ranks = {len(low), len(usual), len(high)}
    if whole and len(ranks) == 1 and all(map(_rises, low, usual, high)):
        return low, usual, high
    raise contradiction(
        f"the shapes of input {name!r} for backend 'tensorrt' are {low!r}, {usual!r} and {high!r} "
        "(min, opt, max), expected whole numbers, equally many, none larger than the next",
        "Correct min_shapes, opt_shapes and max_shapes.",
        *_WORDS,
    )


def _rises(low: int, usual: int, high: int) -> bool:
    return 0 <= low <= usual <= high
