"""The ranges of shapes that options ask for, read into one form and checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.errors import OptionError

__all__ = ["Ranges", "contradiction", "read_ranges"]

_WORDS: Final = ("min_shapes", "opt_shapes", "max_shapes")
_THREE: Final = 3

Range = tuple[int, int, int]
"""Smallest, usual and largest."""
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ranges:
    """What is known of shapes before the first run.

    Attributes:
        dims: Smallest, usual and largest value, by symbolic dimension.
        inputs: Smallest, usual and largest shape, by input of the model.
    """

    dims: Mapping[str, Range] = field(default_factory=lambda: MappingProxyType({}))
    inputs: Mapping[str, tuple[Shape, Shape, Shape]] = field(
        default_factory=lambda: MappingProxyType({})
    )


def read_ranges(options: Mapping[str, Any]) -> Ranges:
    """Read ``dims``, ``min_shapes``, ``opt_shapes`` and ``max_shapes``.

    Args:
        options: The options of the backend.

    Raises:
        OptionError: They contradict one another or themselves (SGK161).
    """
    dims = {name: _dim_range(name, values) for name, values in options["dims"].items()}
    given = [options[word] for word in _WORDS]
    names = {name: None for shapes in given for name in shapes}
    inputs = {name: _shape_range(name, given) for name in names}
    return Ranges(MappingProxyType(dims), MappingProxyType(inputs))


def contradiction(message: str, hint: str, *options: str) -> OptionError:
    """Build the error for options that cannot hold together (SGK161)."""
    return OptionError("SGK161", message, hint=hint, backend="tensorrt", options=options)


def _dim_range(name: str, values: tuple[Any, ...]) -> Range:
    whole = all(isinstance(value, int) and value >= 0 for value in values)
    if whole and len(values) == 1:
        return (values[0],) * 3
    if whole and len(values) == _THREE and list(values) == sorted(values):
        return (values[0], values[1], values[2])
    raise contradiction(
        f"option 'dims' of backend 'tensorrt' gives dimension {name!r} the range {values!r}, "
        "expected one number, or the smallest, the usual and the largest",
        f"Write dims={{{name!r}: (1, 8, 32)}}, or {name}=1x8x32 where text is wanted.",
        "dims",
    )


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
