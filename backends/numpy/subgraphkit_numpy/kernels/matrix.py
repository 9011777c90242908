"""Matrix products, through BLAS wherever the element type allows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import arrayed, is_half

__all__: list[str] = []

Product = Callable[[Array, Array], Array]


def _half_matmul(a: Array, b: Array) -> Any:
    return np.asarray(np.matmul(a.astype(np.float32), b.astype(np.float32))).astype(a.dtype)


def _any_matmul(a: Array, b: Array) -> Any:
    return _half_matmul(a, b) if is_half(a.dtype) else np.matmul(a, b)


@kernel("MatMul")
def matmul(site: Site) -> Made:
    """Multiply matrices as ``numpy.matmul`` does."""
    dtype = site.dtype()
    if dtype is None:
        return arrayed(site, _any_matmul)
    if is_half(dtype):
        return arrayed(site, _half_matmul)
    if site.rank(1) == 2 and (site.rank(0) or 0) > 2:  # noqa: PLR2004 (ranks)
        return _flattened_matmul
    # a product cannot be written over one of its factors
    return Kernel(arrayed(site, np.matmul))


def _flattened_matmul(a: Array, b: Array) -> Any:
    """Multiply a stack of matrices by one matrix in one product."""
    shape = a.shape
    rows = a.reshape(-1, shape[-1]) if a.size else np.empty((0, shape[-1]), a.dtype)
    count = 1
    for dim in shape[:-1]:
        count *= dim
    return np.matmul(rows, b).reshape(*shape[:-1], b.shape[1]) if count else np.matmul(a, b)


@kernel("Gemm")
def gemm(site: Site) -> Made:
    """Return alpha * A' * B' + beta * C, where ' transposes if asked."""
    alpha, beta = site.attribute("alpha", 1.0), site.attribute("beta", 1.0)
    flip_a, flip_b = bool(site.attribute("transA", 0)), bool(site.attribute("transB", 0))
    # in versions before 7, C may be broadcast only if asked; shapes that fit are the same

    def compute(a: Array, b: Array, c: Array | None = None) -> Array:
        dtype = a.dtype
        if is_half(dtype):
            a, b = a.astype(np.float32), b.astype(np.float32)
            c = None if c is None else c.astype(np.float32)
        y: Array = np.matmul(a.T if flip_a else a, b.T if flip_b else b)
        if alpha != 1.0:
            y = _scaled(y, alpha)
        if c is not None:
            addend = c if beta == 1.0 else _scaled(c, beta)
            np.add(y, addend, y)
        return y if y.dtype == dtype else y.astype(dtype)

    return compute


def _scaled(x: Array, factor: float) -> Any:
    if x.dtype.kind in "iu":
        return (x * factor).astype(x.dtype)
    return np.multiply(x, x.dtype.type(factor))


@kernel("Einsum", aliases=True)
def einsum(site: Site) -> Made:
    """Sum products over named axes."""
    equation = site.attribute("equation").replace(" ", "")
    count = site.input_count

    def compute(*arrays: Array) -> Array:
        dtype = arrays[0].dtype
        if is_half(dtype):
            arrays = tuple(array.astype(np.float32) for array in arrays)
        result: Array = np.einsum(equation, *arrays, optimize=count > 1)
        return np.asarray(result).astype(dtype, copy=False)

    return compute
