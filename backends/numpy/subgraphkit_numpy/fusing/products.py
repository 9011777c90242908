"""Groups that start with matrix products: one product, a stack of them, attention.

Attention is two stacks of products with a softmax between them. Its scores are never whole: a block
of rows of one head is multiplied, normalised and multiplied again while it is in cache.

Source: T. Dao et al., "FlashAttention: fast and memory-efficient exact attention with
IO-awareness", NeurIPS 2022, for the idea of blocks; rows are kept whole here.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_numpy.fusing.selecting import Group
from subgraphkit_numpy.fusing.spaces import Shape, Space
from subgraphkit_numpy.fusing.tails import MadeGroup, Tail, made, make_tail, seen, shape_of
from subgraphkit_numpy.fusing.tiles import (
    in_parts,
    is_worth_sharing,
    matrix_parts,
    nanoseconds,
    stack_tiles,
)
from subgraphkit_numpy.kernels.matrix import multiply
from subgraphkit_numpy.kernels.registry import Array, Kernel
from subgraphkit_numpy.kernels.repeats import find_repeats
from subgraphkit_numpy.kernels.site import Scope, Site
from subgraphkit_numpy.parallel import share

_EVERYTHING: Final = slice(None)

_GEMM_ADDEND: Final = 2
"""Input of Gemm that is added to the product."""


def product(group: Group, first: Node, scope: Scope, space: Space) -> MadeGroup | None:
    """Multiply rows by one matrix and go on with the result."""
    site = Site(first, scope)
    has_addend = site.node.op_type == "Gemm" and site.has(_GEMM_ADDEND)
    tail = None
    if has_addend or group.rest:
        addend = (site.node, _GEMM_ADDEND) if has_addend else None
        tail = _tail(group, first, scope, space, addend)
        if tail is None:
            return None
    compute = _product_kernel(group, scope, site, space, tail, np.matmul)
    flipped = bool(site.attribute("transB", 0))
    if not site.settled(1):
        return made(Kernel(partial(compute, flipped), shares=True), site, (0, 1), tail)
    (factor,) = site.absorb(1)
    assert factor is not None  # noqa: S101 (the second factor is not optional)
    factor = factor.T if flipped else factor
    repeats = find_repeats(factor.T)
    if repeats is not None:
        distinct, places = np.ascontiguousarray(factor[:, repeats.kept]), repeats.places[None]
        gather = _product_kernel(group, scope, site, space, tail, _gathered)

        def compute_once(x: Array, *operands: Array) -> Array:
            return gather(False, multiply(x, distinct), places, *operands)  # noqa: FBT003 (as below)

        return made(Kernel(compute_once, shares=True), site, (0,), tail)

    def compute_with_factor(x: Array, *operands: Array) -> Array:
        return compute(False, x, factor, *operands)  # noqa: FBT003 (laid out already)

    return made(Kernel(compute_with_factor, shares=True), site, (0,), tail)


def _gathered(x: Array, places: Array, out: Array) -> None:
    """Put the columns of a product that differ wherever they occur."""
    np.take(x, places[0], 1, out, "clip")


def _product_kernel(
    group: Group,
    scope: Scope,
    site: Site,
    space: Space,
    tail: Tail | None,
    matmul: Callable[..., Any],
) -> Callable[..., Array]:
    """Return what computes a product from its factors and goes on with it."""
    rows, columns = space.merged
    inner = shape_of(site, 0)[-1]
    passes = 0 if tail is None else tail.passes
    taken = nanoseconds(rows * columns * inner, passes, rows * columns)
    parts = matrix_parts(
        rows,
        columns,
        whole_rows=tail is not None and tail.whole_rows,
        nanoseconds=taken,
    )
    work = _product_work(None if tail is None else tail.function, matmul)
    views: Sequence[Shape] = () if tail is None else tail.views
    dtype, shape = site.output_dtype(), shape_of(Site(group.nodes[-1], scope))

    def compute(flipped: bool, x: Array, y: Array, *operands: Array) -> Array:  # noqa: FBT001 (inner)
        out = np.empty((rows, columns), dtype)
        factor = y.T if flipped else y
        share(work, parts, x.reshape(rows, x.shape[-1]), factor, out, *seen(operands, views))
        return out.reshape(shape)

    return compute


def _product_work(finish: Any, matmul: Callable[..., Any]) -> Any:
    def multiply(part: Any, x: Array, y: Array, out: Array) -> None:
        rows, columns, _ = part
        matmul(x[rows], y[:, columns], out[rows, columns])

    def multiply_and_finish(part: Any, x: Array, y: Array, out: Array, *operands: Array) -> None:
        rows, columns, tiles = part
        matmul(x[rows], y[:, columns], out[rows, columns])
        for place in tiles:
            finish(out[place], place, *operands)

    return multiply if finish is None else multiply_and_finish


def products(group: Group, anchor: Node, scope: Scope, space: Space) -> MadeGroup | None:
    """Multiply stacks of matrices and go on with each result."""
    site = Site(anchor, scope)
    first, second = shape_of(site, 0), shape_of(site, 1)
    tail = None
    if group.rest:
        tail = _tail(group, anchor, scope, space)
        if tail is None:
            return None
    passes = 0 if tail is None else tail.passes
    size = math.prod(space.shape)
    shared = is_worth_sharing(nanoseconds(size * first[-1], passes, size))
    batch, (rows, columns) = space.shape[:-2], space.shape[-2:]
    parts = in_parts(stack_tiles(batch, rows, columns), share=shared)
    left, right = _factor(first, batch), _factor(second, batch)
    finish = None if tail is None else tail.function
    views: Sequence[Shape] = () if tail is None else tail.views
    dtype, matmul = site.output_dtype(), np.matmul

    def work(part: Sequence[Any], x: Array, y: Array, out: Array, *operands: Array) -> None:
        for place in part:
            tile = out[place]
            matmul(x[left(place)][..., place[-2], :], y[right(place)], tile)
            if finish is not None:
                finish(tile, place, *operands)

    def compute(x: Array, y: Array, *operands: Array) -> Array:
        out = np.empty(space.shape, dtype)
        share(work, parts, x, y, out, *seen(operands, views))
        return out

    return made(Kernel(compute, shares=True), site, (0, 1), tail)


def attention(group: Group, anchor: Node, scope: Scope, space: Space) -> MadeGroup | None:
    """Multiply, go on with the scores, and multiply again, a block of rows at a time."""
    assert group.closing is not None  # noqa: S101 (asked by the caller)
    site, closing = Site(anchor, scope), Site(group.closing, scope)
    first, second, third = shape_of(site, 0), shape_of(site, 1), shape_of(closing, 1)
    tail = _tail(group, anchor, scope, space)
    if tail is None:
        return None
    size = math.prod(space.shape)
    shared = is_worth_sharing(nanoseconds(size * (first[-1] + third[-1]), tail.passes, size))
    batch, (rows, columns) = space.shape[:-2], space.shape[-2:]
    parts = in_parts(stack_tiles(batch, rows, columns), share=shared)
    left, right, last = (_factor(shape, batch) for shape in (first, second, third))
    finish, views = tail.function, tail.views
    dtype, matmul, shape = site.output_dtype(), np.matmul, shape_of(closing)

    def work(
        part: Sequence[Any], x: Array, y: Array, z: Array, out: Array, *operands: Array
    ) -> None:
        for place in part:
            size = [_length(s, dim) for s, dim in zip(place, space.shape, strict=True)]
            scores = np.empty(size, dtype)
            matmul(x[left(place)][..., place[-2], :], y[right(place)], scores)
            finish(scores, place, *operands)
            matmul(scores, z[last(place)], out[place[:-1]])

    def compute(x: Array, y: Array, z: Array, *operands: Array) -> Array:
        out = np.empty(shape, dtype)
        share(work, parts, x, y, z, out, *seen(operands, views))
        return out

    group_made = made(Kernel(compute, shares=True), site, (0, 1), tail)
    names = (*group_made.operands[:2], group.closing.inputs[1], *group_made.operands[2:])
    return MadeGroup(group_made.kernel, names, group_made.reads)


def _tail(
    group: Group,
    anchor: Node,
    scope: Scope,
    space: Space,
    addend: tuple[Node, int] | None = None,
) -> Tail | None:
    return make_tail(scope, group.rest, space, start=anchor.outputs[0], addend=addend)


def _factor(shape: Shape, batch: Shape) -> Any:
    """Return what finds, for a place, the matrices of a factor that it needs."""
    padded = (1,) * (len(batch) - len(shape) + 2) + shape[:-2]
    skipped = len(batch) + 2 - len(shape)
    spans = [dim > 1 for dim in padded]

    def find(place: Any) -> tuple[Any, ...]:
        return tuple(
            place[axis] if spans[axis] else _EVERYTHING for axis in range(skipped, len(batch))
        )

    return find


def _length(part: slice, dim: int) -> int:
    start, stop, _ = part.indices(dim)
    return stop - start
