"""Writing elements by index into a copy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.indexing import columns, grid_index
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

Update = Callable[[Array, Any, Array], None]


def _write(x: Array, index: Any, updates: Array) -> None:
    x[index] = updates


def _require_shape(updates: Array, expected: tuple[int, ...]) -> None:
    if updates.shape != expected:
        raise ValueError(f"the updates have shape {updates.shape}, expected {expected}")


_UPDATES: dict[str, Update] = {
    "none": _write,
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


@kernel("ScatterElements", since=11)
@kernel("Scatter", since=9, until=10)
def scatter_elements(site: Site) -> Made:
    """Write one element per index along an axis."""
    axis = site.attribute("axis", 0)
    update = _UPDATES[site.attribute("reduction", "none")]

    def compute(x: Array, indices: Array, updates: Array) -> Array:
        _require_shape(updates, indices.shape)
        y = x.copy()
        update(y, grid_index(indices, axis), updates)
        return y

    return compute


@kernel("ScatterND", since=11)
def scatter_nd(site: Site) -> Made:
    """Write slices by tuples of indices in the last axis."""
    update = _UPDATES[site.attribute("reduction", "none")]

    def compute(x: Array, indices: Array, updates: Array) -> Array:
        _require_shape(updates, (*indices.shape[:-1], *x.shape[indices.shape[-1] :]))
        y = x.copy()
        update(y, columns(indices, x.ndim), updates)
        return y

    return compute
