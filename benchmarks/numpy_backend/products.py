"""The matrix products a network cannot do without, and how long NumPy takes for nothing but them.

A MatMul, Gemm or Einsum is one product, a Conv is one over columns that are taken as written
already (*im2col*), a Conv with one filter per channel is none: its sums are too short for BLAS.
"""

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from quiet import Quiet

from subgraphkit.ir import Graph, Node

__all__ = ["Product", "floor_seconds", "products"]

_MATRIX = 2


@dataclass(frozen=True)
class Product:
    """``batch`` products of (rows, depth) by (depth, columns) that one node needs.

    Attributes:
        node: Id of the node.
        batch: Number of products.
        rows: Rows of the left matrix.
        depth: Length of the sums.
        columns: Columns of the right matrix.
        shared: Operands, 0 or 1, that are one matrix for the whole batch.
        weights: Operands that are constant, 0 or 1.
    """

    node: int
    batch: int
    rows: int
    depth: int
    columns: int
    shared: frozenset[int] = frozenset()
    weights: frozenset[int] = frozenset()

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.rows * self.depth * self.columns

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of both operands and of the result."""
        left, right = (self.rows, self.depth), (self.depth, self.columns)
        result = (self.rows, self.columns)
        if self.batch == 1:
            return left, right, result
        stack = (self.batch,)
        return (
            left if 0 in self.shared else stack + left,
            right if 1 in self.shared else stack + right,
            stack + result,
        )


def products(graph: Graph) -> list[Product]:
    """Return the products of a graph with known shapes, in the order in which nodes can run."""
    found = []
    for index in graph.order:
        node = Node(graph, index)
        if not node.domain and node.op_type in _READERS and not _is_constant(node):
            found.append(_READERS[node.op_type](node))
    return [product for product in found if product is not None and product.operations]


def floor_seconds(needed: Sequence[Product], repeat: int, quiet: Quiet) -> dict[int, float]:
    """Measure the products alone, with results preallocated, one after the other as in a run.

    Every constant operand has memory of its own, because a run reads its weights from memory, not
    from the caches; operands that are computed share memory by shape.

    Args:
        needed: The products.
        repeat: Times to measure; one round more is not counted.
        quiet: Repeats rounds that others disturb.

    Returns:
        Median seconds by node.
    """
    dice = np.random.default_rng(0)
    pool: dict[tuple[Any, ...], np.ndarray[Any, Any]] = {}

    def operand(shape: tuple[int, ...], *key: Any) -> np.ndarray[Any, Any]:
        if (shape, *key) not in pool:
            pool[shape, *key] = dice.standard_normal(shape, dtype=np.float32)
        return pool[shape, *key]

    calls = []
    for product in needed:
        left, right, result = product.shapes()
        a, b = (
            operand(shape, place, product.node if place in product.weights else None)
            for place, shape in enumerate((left, right))
        )
        calls.append((product.node, a, b, operand(result, "result")))
    _round(calls)
    rounds = [quiet.measure(lambda: _round(calls)) for _ in range(repeat)]
    return {
        product.node: statistics.median(one[product.node] for one in rounds) for product in needed
    }


def _round(calls: Sequence[tuple[int, Any, Any, Any]]) -> dict[int, float]:
    taken = {}
    for node, a, b, out in calls:
        started = time.perf_counter()
        np.matmul(a, b, out)
        taken[node] = time.perf_counter() - started
    return taken


def _is_constant(node: Node) -> bool:
    return all(node.is_constant(index) for index in range(len(node.inputs)))


def _known(shape: Sequence[Any] | None) -> tuple[int, ...] | None:
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    return tuple(shape)


def _weights(node: Node, *places: int) -> frozenset[int]:
    return frozenset(at for at, place in enumerate(places) if node.is_constant(place))


def _matmul(node: Node) -> Product | None:
    a, b = _known(node.shape(0)), _known(node.shape(1))
    if a is None or b is None or min(len(a), len(b)) < _MATRIX:
        return None
    rows, depth, columns = a[-2], a[-1], b[-1]
    constant = _weights(node, 0, 1)
    if math.prod(b[:-2]) == 1:
        return Product(node.id, 1, math.prod(a[:-1]), depth, columns, weights=constant)
    batch = math.prod(np.broadcast_shapes(a[:-2], b[:-2]))
    shared = frozenset({0}) if math.prod(a[:-2]) == 1 else frozenset[int]()
    return Product(node.id, batch, rows, depth, columns, shared, constant)


def _gemm(node: Node) -> Product | None:
    a, b = _known(node.shape(0)), _known(node.shape(1))
    if a is None or b is None:
        return None
    rows, depth = a[::-1] if node.attribute("transA", 0) else a
    columns = b[0] if node.attribute("transB", 0) else b[1]
    return Product(node.id, 1, rows, depth, columns, weights=_weights(node, 0, 1))


def _conv(node: Node) -> Product | None:
    x, w = _known(node.shape(0)), _known(node.shape(1))
    output = node.output_type(0)
    y = _known(getattr(output, "shape", None))
    if x is None or w is None or y is None:
        return None
    groups = node.attribute("group", 1)
    if groups == x[1] and groups > 1:
        return None
    rows, depth, columns = w[0] // groups, math.prod(w[1:]), math.prod(y[2:])
    shared = frozenset({0}) if groups == 1 else frozenset[int]()
    return Product(node.id, x[0] * groups, rows, depth, columns, shared, _weights(node, 1, 0))


def _einsum(node: Node) -> Product | None:
    """Read an Einsum of two operands; what is in both and in the result is the batch."""
    equation = node.attribute("equation").replace(" ", "")
    shapes = [_known(node.shape(place)) for place in range(len(node.inputs))]
    terms = equation.partition("->")
    operands = terms[0].split(",")
    if len(operands) != _MATRIX or "." in equation or None in shapes or not terms[1]:
        return None
    sizes = {
        axis: dim
        for letters, shape in zip(operands, shapes, strict=True)
        for axis, dim in zip(letters, shape or (), strict=True)
    }
    left, right, result = set(operands[0]), set(operands[1]), set(terms[2])

    def size(axes: Iterator[str] | set[str]) -> int:
        return math.prod(sizes[axis] for axis in axes)

    batch, depth = left & right & result, (left & right) - result
    rows, columns = size((left & result) - batch), size((right & result) - batch)
    return Product(node.id, size(batch), rows, size(depth), columns, weights=_weights(node, 0, 1))


_READERS = {"MatMul": _matmul, "Gemm": _gemm, "Conv": _conv, "Einsum": _einsum}
