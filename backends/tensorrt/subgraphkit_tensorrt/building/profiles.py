"""Ranges of shapes: what the user says of the model, said of the inputs of a subgraph.

A user speaks of symbolic dimensions and inputs of the model. A subgraph in the middle of it has
inputs of its own. Their ranges follow: shapes are inferred three times, with the model's inputs at
their smallest, usual and largest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend import BindContext
from subgraphkit.errors import InvalidModelError, OptionError
from subgraphkit.ir import Graph, Subgraph
from subgraphkit.types import DataType, Shape, TensorType, ValueType
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.option_rules import ShapeRanges, read_ranges

_POINTS: Final = ("smallest", "usual", "largest")

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InputRange:
    """The shapes of one input of a subgraph that an engine takes.

    Attributes:
        values: For an input that shapes are computed from, its smallest, usual and largest
            elements; None for all others.
    """

    min: Dims
    opt: Dims
    max: Dims
    values: tuple[Dims, Dims, Dims] | None = None

    def covers(self, shape: Sequence[int]) -> bool:
        """Say whether a shape is within."""
        return _are_between(self.min, shape, self.max)

    def covers_values(self, values: Sequence[int]) -> bool:
        """Say whether the elements of an input are within; any are if they do not count."""
        return self.values is None or _are_between(self.values[0], values, self.values[2])

    def cover(self, other: "InputRange", *, rounds: bool = False) -> "InputRange":
        """Return a range that covers both, tuned for the shape of ``other``.

        ``rounds``: Whether the range of an axis that varies is widened, so that fewer new shapes
        lead to another range. Its upper end goes to a power of two; its lower end to 1, unless 0.
        """
        values = other.values
        if self.values is not None and values is not None:
            low = tuple(map(min, self.values[0], values[0]))
            values = (low, values[1], tuple(map(max, self.values[2], values[2])))
        lows, highs = tuple(map(min, self.min, other.min)), tuple(map(max, self.max, other.max))
        if rounds:
            ends = [_round_ends(*one) for one in zip(lows, highs, strict=True)]
            lows, highs = tuple(low for low, _ in ends), tuple(high for _, high in ends)
        return InputRange(lows, other.opt, highs, values)

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        found: dict[str, Any] = {"min": self.min, "opt": self.opt, "max": self.max}
        return found if self.values is None else {**found, "values": self.values}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "InputRange":
        """Read what ``to_json`` returned."""
        low, usual, high = (tuple(map(int, found[key])) for key in ("min", "opt", "max"))
        values: Any = found.get("values")
        if values is not None:
            values = tuple(tuple(map(int, one)) for one in values)
        return cls(low, usual, high, values)


def _are_between(low: Sequence[int], numbers: Sequence[int], high: Sequence[int]) -> bool:
    rows = zip(low, numbers, high, strict=True)
    return len(low) == len(numbers) and all(a <= number <= b for a, number, b in rows)


def _round_ends(low: int, high: int) -> tuple[int, int]:
    return (min(low, 1), 1 << (high - 1).bit_length()) if low != high else (low, high)


def exact_ranges(subgraph: Subgraph, inputs: Sequence[Any]) -> dict[str, InputRange]:
    """Return the ranges that hold nothing but the shapes of some arrays."""
    found = {}
    for name, array in zip(subgraph.inputs, inputs, strict=True):
        shape = tuple(map(int, array.shape))
        values = _values_of(array) if may_hold_a_shape(subgraph.graph, name) else None
        found[name] = InputRange(shape, shape, shape, values)
    return found


def may_hold_a_shape(graph: Graph, name: str) -> bool:
    """Say whether an input could be one that shapes are computed from: few whole numbers."""
    type_ = graph.types.get(name)
    return (
        isinstance(type_, TensorType)
        and type_.dtype in {DataType.INT32, DataType.INT64}
        and type_.shape is not None
        and len(type_.shape) <= 1
    )


def _values_of(array: npt.NDArray[Any]) -> tuple[Dims, Dims, Dims]:
    values = tuple(int(one) for one in np.asarray(array).reshape(-1))
    return values, values, values


def buckets_at_bind(
    subgraph: Subgraph, context: BindContext[Options]
) -> list[dict[str, InputRange]] | None:
    """Return the ranges of a subgraph's inputs, as far as they are known before anything runs.

    Returns:
        A range for every input, for each combination that was asked for. Combinations that give
        this subgraph the same ranges count once. None if the shapes of some inputs are known only
        when it runs.

    Raises:
        OptionError: The ranges asked for do not fit the model (SGK169).
    """
    found: list[dict[str, InputRange]] = []
    for asked in read_ranges(context.options):
        if (ranges := _ranges_of(subgraph, context, asked)) is None:
            return None
        if ranges not in found:
            found.append(ranges)
    return found


def _ranges_of(
    subgraph: Subgraph, context: BindContext[Options], asked: ShapeRanges
) -> dict[str, InputRange] | None:
    graph = subgraph.graph
    check_options(graph, asked)
    values = {name: given for name, given in asked.inputs.items() if _is_shape_like(graph, name)}
    shapes = {name: _static(graph.types.get(name)) for name in subgraph.inputs}
    static = {name: shape for name, shape in shapes.items() if shape is not None}
    if len(static) == len(shapes):
        return {name: InputRange(one, one, one, values.get(name)) for name, one in static.items()}
    if not asked.dims and not asked.inputs:
        return None
    points = [_shapes_at(subgraph, context, asked, point) for point in range(3)]
    found = {}
    for name in subgraph.inputs:
        low, usual, high = (at[name] for at in points)
        if low is None or usual is None or high is None:
            return None
        # An inner size may shrink while the model's inputs grow.
        ordered = [sorted(sizes) for sizes in zip(low, usual, high, strict=True)]
        lowest, highest = (tuple(sizes[at] for sizes in ordered) for at in (0, 2))
        found[name] = InputRange(lowest, usual, highest, values.get(name))
    return found


def _shapes_at(
    subgraph: Subgraph, context: BindContext[Options], asked: ShapeRanges, point: int
) -> dict[str, Dims | None]:
    graph = subgraph.graph
    sizes = {name: sizes[point] for name, sizes in asked.dims.items() if name not in graph.symbols}
    whole: dict[str, Shape] = {}
    for name, shapes in asked.inputs.items():
        if _is_shape_like(graph, name):
            continue
        whole[name] = shapes[point]
        for dim, size in zip(graph.shape(name) or (), shapes[point], strict=False):
            if isinstance(dim, str):
                sizes.setdefault(dim, size)
    try:
        types = context.reshape(sizes, whole)
    except InvalidModelError as error:
        raise _wrong(
            f"with the {_POINTS[point]} shapes asked for, the shapes inside the model contradict "
            f"each other: {error.message}",
            "See whether the model takes these sizes at all, and whether sizes depend on one "
            "another.",
        ) from error
    return {name: _static(types.get(name)) for name in subgraph.inputs}


def _static(type_: ValueType | None) -> Dims | None:
    if (shape := type_.shape if isinstance(type_, TensorType) else None) is None:
        return None
    sizes = tuple(dim for dim in shape if isinstance(dim, int))
    return sizes if len(sizes) == len(shape) else None


def _is_shape_like(graph: Graph, name: str) -> bool:
    """Say whether what options call a shape of this input is its elements, as in other tools."""
    return may_hold_a_shape(graph, name) and _static(graph.types.get(name)) is not None


# -- checks ----------------------------------------------------------------------------------


def check_options(graph: Graph, asked: ShapeRanges) -> None:
    """Refuse ranges that are none of this model (OptionError, SGK169)."""
    known = (*graph.inputs, *graph.defaults)
    dims = (dim for name in known for dim in graph.shape(name) or ())
    symbols = list(dict.fromkeys(dim for dim in dims if isinstance(dim, str)))
    given = getattr(graph, "symbols", {})
    for name, sizes in asked.dims.items():
        if name in given:
            if not sizes[0] <= given[name] <= sizes[2]:
                raise _wrong(
                    f"option 'dims' gives dimension {name!r} the range {write_sizes(sizes)}, but "
                    f"it was bound to {given[name]}",
                    "Bind it to a size of the range, or leave it open at bind.",
                )
        elif name not in symbols:
            raise _wrong(
                f"option 'dims' names {name!r}, but the model has no symbolic dimension of that "
                "name",
                f"It has: {', '.join(map(repr, symbols)) or 'none'}.",
            )
    sizes_of = {name: tuple(sizes) for name, sizes in asked.dims.items()}
    for name, shapes in asked.inputs.items():
        if name not in known:
            raise _wrong(
                f"a range of shapes is given for {name!r}, which is no input of the model",
                f"It has: {', '.join(map(repr, known)) or 'none'}.",
            )
        _check_input(graph, name, shapes, sizes_of)


def _check_input(
    graph: Graph, name: str, shapes: tuple[Dims, Dims, Dims], sizes_of: dict[str, tuple[int, ...]]
) -> None:
    declared = graph.shape(name)
    if _is_shape_like(graph, name):
        _check_values(graph, name, shapes)
        return
    if declared is None:
        return
    if len(declared) != len(shapes[0]):
        raise _wrong(
            f"the range of input {name!r} has {len(shapes[0])} dimensions, the model declares "
            f"{graph.types[name]}",
            "Give one size per axis.",
        )
    for axis, dim in enumerate(declared):
        sizes = tuple(shape[axis] for shape in shapes)
        if isinstance(dim, int) and set(sizes) != {dim}:
            raise _wrong(
                f"the range of input {name!r} is {write_sizes(sizes)} at axis {axis}, which is "
                f"{dim} in the model",
                "A size that is fixed in the model cannot have a range.",
            )
        if isinstance(dim, str) and sizes_of.setdefault(dim, sizes) != sizes:
            raise _wrong(
                f"dimension {dim!r} has the range {write_sizes(sizes_of[dim])} in one place and "
                f"{write_sizes(sizes)} at axis {axis} of input {name!r}",
                "A dimension of one name has one size at a time; give it the same range "
                "everywhere.",
            )


def _check_values(graph: Graph, name: str, values: tuple[Dims, Dims, Dims]) -> None:
    count = int(np.prod(_static(graph.types.get(name)) or ()))
    if len(values[0]) != count:
        raise _wrong(
            f"input {name!r} is {graph.types[name]}, from which shapes may be computed; the range "
            f"given has {len(values[0])} elements",
            f"Give the smallest, usual and largest elements of it, {count} each.",
        )


def write_sizes(sizes: Sequence[int]) -> str:
    """Write sizes as people do, such as ``1x3x224``."""
    return "x".join(map(str, sizes))


def _wrong(problem: str, hint: str) -> OptionError:
    return OptionError("SGK169", f"backend 'tensorrt': {problem}", hint=hint, backend="tensorrt")
