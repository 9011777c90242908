"""Sequences, which are lists, and optional values, which are the value itself or None."""

from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, Same, kernel
from subgraphkit_numpy.kernels.site import Site


@kernel("SequenceEmpty")
def sequence_empty(_site: Site) -> Made:
    """Return a sequence without elements."""
    return list


@kernel("SequenceConstruct", aliases=True)
def sequence_construct(_site: Site) -> Made:
    """Return a sequence of the inputs."""
    return lambda *values: list(values)


@kernel("SequenceAt", aliases=True)
def sequence_at(_site: Site) -> Made:
    """Return one element; a negative position counts from the end."""
    return lambda sequence, place: sequence[place.item()]


@kernel("SequenceInsert", aliases=True)
def sequence_insert(_site: Site) -> Made:
    """Return a longer sequence, with a value before a position or at the end."""

    def compute(sequence: list[Any], value: Any, place: Array | None = None) -> list[Any]:
        count = len(sequence)
        position = count if place is None else place.item()
        if not -count <= position <= count:
            raise IndexError(f"position {position} is outside a sequence of {count} elements")
        position += count if position < 0 else 0
        return [*sequence[:position], value, *sequence[position:]]

    return compute


@kernel("SequenceErase", aliases=True)
def sequence_erase(_site: Site) -> Made:
    """Return a sequence without one element, the last unless a position is given."""

    def compute(sequence: list[Any], place: Array | None = None) -> list[Any]:
        shorter = list(sequence)
        del shorter[-1 if place is None else place.item()]
        return shorter

    return compute


@kernel("SequenceLength")
def sequence_length(_site: Site) -> Made:
    """Return the number of elements as int64."""
    return lambda sequence: np.array(len(sequence), dtype=np.int64)


@kernel("ConcatFromSequence")
def concat_from_sequence(site: Site) -> Made:
    """Join the elements along an axis, or along a new one."""
    axis = site.attribute("axis")
    if site.attribute("new_axis", 0):
        return lambda sequence: np.stack(sequence, axis)
    return lambda sequence: np.concatenate(sequence, axis)


@kernel("SplitToSequence", aliases=True)
def split_to_sequence(site: Site) -> Made:
    """Cut into parts of given sizes; without sizes into slices, whose axis may be dropped."""
    axis, keepdims = site.attribute("axis", 0), bool(site.attribute("keepdims", 1))

    def compute(x: Array, sizes: Array | None = None) -> list[Any]:
        length = x.shape[axis]
        if sizes is None:
            parts = [x.take([place], axis) for place in range(length)]
            return parts if keepdims else [part.squeeze(axis) for part in parts]
        if sizes.ndim == 0:
            edges = list(range(sizes.item(), length, sizes.item()))
        else:
            edges = np.cumsum(sizes)[:-1].tolist()
        return list(np.split(x, edges, axis)) if (length if sizes.ndim == 0 else sizes.size) else []

    return compute


@kernel("Optional", aliases=True)
def optional(site: Site) -> Made:
    """Return the input as an optional value, or nothing."""
    return Same() if site.has(0) else lambda: None


@kernel("OptionalHasElement")
def optional_has_element(site: Site) -> Made:
    """Say whether there is a value."""
    if not site.has(0):
        return lambda *_: np.array(False)  # noqa: FBT003 (data)
    return lambda value: np.array(value is not None)


@kernel("OptionalGetElement", aliases=True)
def optional_get_element(_site: Site) -> Made:
    """Return the value; its absence is an error."""

    def compute(value: Any) -> Any:
        if value is None:
            raise ValueError("the optional value is empty")
        return value

    return compute
