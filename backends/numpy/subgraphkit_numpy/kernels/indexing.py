"""Reading and writing elements by index."""

from collections.abc import Callable
from heapq import merge
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.reference import reference_kernel
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import PART

_COLUMNS: Final = 16
"""Of rows that are compared, how many columns at a time; more are of no use once all differ."""


@kernel("Gather", aliases=True)
def gather(site: Site) -> Made:
    """Read slices along an axis; negative indices count from the end, others must be in range."""
    axis = site.attribute("axis", 0)
    indices = site.constant(1)
    rank = site.rank()
    if indices is not None and indices.ndim == 0 and rank and rank > 1:
        site.absorb(1)
        index = (*(slice(None),) * (axis % rank), int(indices))
        return lambda x: x[index]
    if site.dtype() == np.dtype(object):
        return lambda x, indices: _take_objects(x, indices, axis)
    if site.output_rank():
        return lambda x, indices: x.take(indices, axis)
    return lambda x, indices: np.asarray(x.take(indices, axis), dtype=x.dtype)


def _take_objects(x: Array, indices: Array, axis: int) -> Array:
    """Take objects in parts: it keeps the interpreter from all else."""
    flat = indices.reshape(-1)
    parts = [x.take(flat[at : at + PART], axis) for at in range(0, max(1, flat.size), PART)]
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis:][1:])
    return np.concatenate(parts, axis).reshape(shape)


@kernel("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(site: Site) -> Made:
    """Read places along the last axis; of a vector, as of one row."""
    take = _take_objects if site.dtype() == np.dtype(object) else np.take

    def compute(x: Array, places: Array) -> Array:
        rows = x.reshape(-1, x.shape[-1])
        return take(rows, places.reshape(-1), 1).reshape(*(x.shape[:-1] or (1,)), places.size)

    return compute


@kernel("GatherElements")
def gather_elements(site: Site) -> Made:
    """Read one element per index along an axis."""
    axis = site.attribute("axis", 0)
    return lambda x, indices: x[grid_index(indices, axis)]


def grid_index(indices: Array, axis: int) -> tuple[Any, ...]:
    """Return an index that takes the place ``indices`` along ``axis`` and its own elsewhere."""
    grid: list[Any] = list(np.ogrid[tuple(slice(dim) for dim in indices.shape)])
    grid[axis] = indices
    return tuple(grid)


@kernel("GatherND", aliases=True)
def gather_nd(site: Site) -> Made:
    """Read slices by tuples of indices in the last axis."""
    batch_dims = site.attribute("batch_dims", 0)

    def compute(x: Array, indices: Array) -> Array:
        batch = x.shape[:batch_dims]
        if indices.shape[:batch_dims] != batch:
            raise ValueError(
                f"the indices have batch dimensions {indices.shape[:batch_dims]}, the data {batch}"
            )
        grid = np.ogrid[tuple(map(slice, indices.shape[:-1]))][:batch_dims]
        return np.asarray(x[*grid, *columns(indices, x.ndim - batch_dims)], dtype=x.dtype)

    return compute


def columns(indices: Array, rank: int) -> tuple[Array, ...]:
    """Return tuples in the last axis as an index; a tuple of very many arrays would take long.

    Raises:
        ValueError: They are longer than an array has axes.
    """
    if indices.shape[-1] > rank:
        raise ValueError(f"tuples of {indices.shape[-1]} indices are too long for {rank} axes")
    return tuple(np.moveaxis(indices, -1, 0))


@kernel("OneHot")
def one_hot(site: Site) -> Made:
    """Write ``on`` where the index is and ``off`` elsewhere; indices out of range give ``off``."""
    axis = site.attribute("axis", -1)

    def compute(indices: Array, depth: Array, values: Array) -> Any:
        count = int(depth.reshape(-1)[0])
        if count < 0:
            raise ValueError(f"the depth is {count}, expected 0 or more")
        places = indices.astype(np.int64)
        places = np.where(places < 0, places + count, places)
        place = axis + indices.ndim + 1 if axis < 0 else axis
        steps = np.arange(count).reshape((count,) + (1,) * (indices.ndim - place))
        # slices rather than elements, since of strings the latter would lose their type
        return np.where(np.expand_dims(places, place) == steps, values[1:2], values[:1])

    return compute


@kernel("Compress")
def compress(site: Site) -> Made:
    """Keep slices, or elements of the flattened array, where a condition holds."""
    axis = site.attribute("axis")
    return lambda x, condition: np.compress(condition, x, axis)


@kernel("NonZero")
def non_zero(site: Site) -> Made:
    """Return the places of what is not zero, one column each."""
    if site.dtype() == np.dtype(object) or site.dtype() is None:
        return reference_kernel(site)
    # of a single element there is no row: (0, N), where NumPy would say (1, N)
    return lambda x: np.array(np.nonzero(np.atleast_1d(x)), np.int64)[: x.ndim]


@kernel("Unique")
def unique(site: Site) -> Made:
    """Return what occurs, sorted or in order of appearance; also where, and how often."""
    axis, is_sorted = site.attribute("axis"), bool(site.attribute("sorted", 1))
    count = site.output_count

    def compute(x: Array) -> Any:
        found = _unique(x, axis)
        if not is_sorted:
            found = _by_appearance(*found)
        first, inverse, counts = found
        y = x.reshape(-1)[first] if axis is None else x.take(first, axis)
        places = [part.astype(np.int64, copy=False) for part in (first, inverse, counts)]
        return (y, *places)[:count] if count > 1 else y

    return compute


def _unique(x: Array, axis: int | None) -> tuple[Array, Array, Array]:
    """Return first places, the place of each in the result, and counts; sorted by value."""
    if x.dtype.kind == "O":
        x = _ranks_of_texts(x)
    if axis is not None:
        moved = np.moveaxis(x, axis, 0)
        x = _ranks_of_rows(moved.reshape(len(moved), prod(moved.shape[1:])))
    _, first, inverse, counts = np.unique(x, True, True, True)  # noqa: FBT003 (data)
    return first, inverse.reshape(-1), counts


def _ranks_of_texts(x: Array) -> Array:
    """Return the place of every text among all in order; done in parts."""
    flat = x.reshape(-1)
    parts = [flat[at : at + PART].tolist() for at in range(0, flat.size, PART)]
    found: set[str] = set()
    for part in parts:
        found.update(part)
    different = list(found)
    runs = [sorted(different[at : at + PART]) for at in range(0, len(different), PART)]
    ranks = {text: rank for rank, text in enumerate(merge(*runs))}
    of_all = [np.array([ranks[text] for text in part], np.int64) for part in parts]
    return np.concatenate([np.zeros(0, np.int64), *of_all]).reshape(x.shape)


def _ranks_of_rows(x: Array) -> Array:
    """Return the place of every row among all in order, equal ones at the same.

    NumPy would compare rows without letting go of the interpreter.
    """
    ranks = np.zeros(len(x), np.int64)
    for at in range(0, x.shape[1], _COLUMNS):
        keys = [*x[:, at : at + _COLUMNS].T[::-1], ranks]
        order = np.lexsort(keys)
        changes = [key[order[1:]] != key[order[:-1]] for key in keys]
        ranks[order[1:]] = np.cumsum(np.logical_or.reduce(changes), axis=0)
        ranks[order[:1]] = 0
        if len(x) and ranks[order[-1]] == len(x) - 1:
            break
    return ranks


def _by_appearance(first: Array, inverse: Array, counts: Array) -> tuple[Array, Array, Array]:
    order = np.argsort(first)
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    return first[order], places[inverse], counts[order]


_UPDATES: dict[str, Callable[[Array, Any, Array], None]] = {
    "none": np.ndarray.__setitem__, "add": np.add.at, "mul": np.multiply.at,
    "max": np.maximum.at, "min": np.minimum.at,
}  # fmt: skip


@kernel("ScatterElements", "ScatterND", since=11)
@kernel("Scatter", since=9, until=10)
def scatter(site: Site) -> Made:
    """Write one element per index along an axis, or slices by tuples of indices at the end."""
    axis, by_tuples = site.attribute("axis", 0), site.node.op_type == "ScatterND"
    update = _UPDATES[site.attribute("reduction", "none")]

    def compute(x: Array, indices: Array, updates: Array) -> Array:
        wanted = indices.shape
        if by_tuples:
            wanted = (*wanted[:-1], *x.shape[wanted[-1] :])
        if updates.shape != wanted:
            raise ValueError(f"the updates have shape {updates.shape}, expected {wanted}")
        y = x.copy()
        update(y, (columns(indices, x.ndim) if by_tuples else grid_index(indices, axis)), updates)
        return y

    return compute
