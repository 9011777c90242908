"""Matrix products, through BLAS wherever the element type allows."""

from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import in_arrays, in_wide, is_half
from subgraphkit_numpy.parallel import cut, parts_for, parts_of, share, thread_count

SHARED: Final = 1 << 24
"""Multiplications above which a product is cut; one thread takes about 0.3 ms for them."""

UNCUT: Final = 1 << 18
"""Multiplications below which BLAS itself does not use several threads for a product."""

PRODUCTS_PER_NS: Final = 50.0
"""Multiplications of a product that one thread does in a nanosecond, roughly."""

_CUT: Final = 16
"""Products are cut at multiples of this many rows or columns; BLAS is fastest then."""

_LONG: Final = 384
"""Rows or columns of a part where there are enough: for every part BLAS copies the other factor."""

_SHORTEST: Final = 100_000
"""Nanoseconds that a part takes at least, where there are more than two."""


def areas(rows: int, columns: int, nanoseconds: float) -> list[tuple[slice, slice]]:
    """Cut the result of a product into parts that threads may share.

    Sizes alone decide where it is cut, never the number of threads. Otherwise results would differ
    with that number, because some kernels of BLAS round differently near the edge of a product.
    The longer side is cut, because each part then has less of the larger factor to read.

    ``nanoseconds``: What one thread takes for all.
    """
    by_rows = rows > columns
    length = rows if by_rows else columns
    count = min(2, parts_for(nanoseconds))
    count = max(count, min(length // _LONG, int(nanoseconds / _SHORTEST)))
    parts = parts_of(length, count, _CUT, nanoseconds=nanoseconds)
    if by_rows:
        return [(part, slice(0, columns)) for part in parts]
    return [(slice(0, rows), part) for part in parts]


def multiply(a: Array, b: Array) -> Any:
    """Multiply as ``numpy.matmul`` does, on several threads where that is faster.

    A kernel that calls it says that it shares work.
    """
    large = a.dtype.kind == "f" and min(a.ndim, b.ndim) > 1
    if not large or a.size * b.shape[-1] < SHARED:
        return np.matmul(a, b)
    if b.ndim == _MATRIX:
        return _shared_product(a, b)
    if prod(a.shape[:-2]) == prod(b.shape[:-2]) == 1:
        y = _shared_product(a.reshape(a.shape[-2:]), b.reshape(b.shape[-2:]))
        return y.reshape(*(1,) * (max(a.ndim, b.ndim) - _MATRIX), *y.shape)
    return _shared_stack(a, b)


def _shared_product(a: Array, b: Array) -> Array:
    rows = a.reshape(-1, a.shape[-1])
    out = np.empty((rows.shape[0], b.shape[1]), np.result_type(a, b))
    parts = areas(rows.shape[0], b.shape[1], rows.size * b.shape[1] / PRODUCTS_PER_NS)
    share(_multiply_area, parts, rows, b, out)
    return out.reshape(*a.shape[:-1], b.shape[1])


def _multiply_area(area: tuple[slice, slice], a: Array, b: Array, out: Array) -> None:
    rows, columns = area
    np.matmul(a[rows], b[:, columns], out[rows, columns])


def _shared_stack(a: Array, b: Array) -> Array:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    right = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    out = np.empty((*batch, a.shape[-2], b.shape[-1]), np.result_type(a, b))
    axis = batch.index(max(batch))
    parts = [(*((slice(None),) * axis), part) for part in cut(batch[axis], thread_count())]
    share(_multiply_stack, parts, left, right, out)
    return out


def _multiply_stack(part: tuple[slice, ...], a: Array, b: Array, out: Array) -> None:
    np.matmul(a[part], b[part], out[part])


@kernel("MatMul")
def matmul(site: Site) -> Made:
    """Multiply matrices as ``numpy.matmul`` does."""
    dtype = site.dtype()
    if _is_small(site, -1):
        if dtype is None or is_half(dtype):
            return in_arrays(site, in_wide(multiply))
        # a product cannot be written over one of its factors
        return Kernel(in_arrays(site, np.matmul))
    shares = dtype is None or dtype.kind == "f" or is_half(dtype)
    return Kernel(in_arrays(site, in_wide(multiply)), shares=shares)


_MATRIX: Final = 2
"""Axes of a matrix."""


@kernel("Gemm")
def gemm(site: Site) -> Kernel:
    """Return alpha * A' * B' + beta * C, where ' transposes if asked."""
    alpha, beta = site.attribute("alpha", 1.0), site.attribute("beta", 1.0)
    flip_a, flip_b = bool(site.attribute("transA", 0)), bool(site.attribute("transB", 0))
    # in versions before 7, C may be broadcast only if asked; shapes that fit are the same

    def compute(a: Array, b: Array, c: Array | None = None) -> Array:
        y: Array = multiply(a.T if flip_a else a, b.T if flip_b else b)
        if alpha != 1.0:
            y = _multiple_of(y, alpha)
        if c is not None:
            addend = c if beta == 1.0 else _multiple_of(c, beta)
            y = np.add(y, addend, y if y.dtype == addend.dtype else None)
        return y if y.dtype == a.dtype else y.astype(a.dtype)

    return Kernel(in_wide(compute), shares=not _is_small(site, 0 if flip_a else 1))


def _is_small(site: Site, axis: int) -> bool:
    """Say whether BLAS surely takes one thread for a product that sums over an axis of a factor."""
    first, shape = site.shape(0), site.output_shape()
    return first is not None and shape is not None and prod(shape) * first[axis] < UNCUT


def _multiple_of(x: Array, factor: float) -> Array:
    """Return a multiple; of integers as float64, so that the sum is cut off once, at the end."""
    is_fraction_of_integers = x.dtype.kind in "iu" and not factor.is_integer()
    return np.asarray(np.multiply(x, factor if is_fraction_of_integers else x.dtype.type(factor)))


@kernel("Einsum", aliases=True)
def einsum(site: Site) -> Made:
    """Sum products over named axes."""
    equation = site.attribute("equation").replace(" ", "")
    count = site.input_count

    def compute(*arrays: Array) -> Array:
        result: Array = np.einsum(equation, *arrays, optimize=count > 1)
        return np.asarray(result).astype(arrays[0].dtype, copy=False)

    return Kernel(in_wide(compute), shares=True)
