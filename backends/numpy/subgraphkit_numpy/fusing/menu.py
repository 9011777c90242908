"""The menu of groups: anchors, which start tiles, and expressions, which go on with them.

Everything is answered for shapes that hold in every run and for float32 and float64; other nodes
run on kernels of their own.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, TypeGuard

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_numpy.fusing.spaces import Shape, Space
from subgraphkit_numpy.kernels.expressions import Expression, expression
from subgraphkit_numpy.kernels.matrix import UNCUT
from subgraphkit_numpy.kernels.site import Scope, Site

AnchorKind = Literal["convolution", "product", "products"]
"""A convolution, one matrix product, or a stack of them."""

_FLOATS: Final = frozenset({np.dtype(np.float32), np.dtype(np.float64)})

ANCHORS: Final = frozenset({"Conv", "Gemm", "MatMul"})
"""Operators that may start tiles. They always run, and their own kernels are expensive to make."""

VIEWS: Final = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that may leave rows as they are."""

_SMALLEST_PRODUCT: Final = UNCUT
"""Multiplications below which a product is left to a plain call."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The way in which a node starts tiles.

    Attributes:
        space: Its result's shape and how it may be cut.
    """

    kind: AnchorKind
    space: Space


class Menu:
    """Answers questions about nodes while groups are looked for; each is worked out once.

    ``wanted``: Values that must be there in the end.
    """

    def __init__(self, scope: Scope, nodes: Collection[int], wanted: Collection[str]) -> None:
        self.scope = scope
        self.nodes = frozenset(nodes)
        self.wanted = frozenset(wanted)
        self._expressions: dict[int, Expression | None] = {}
        self._anchors: dict[int, Anchor | None] = {}
        self._shapes: dict[int, Shape | None] = {}

    def expression(self, node: Node) -> Expression | None:
        """Return how a node goes on with a tile, or None if it does not."""
        if node.id not in self._expressions:
            self._expressions[node.id] = self._expression(node)
        return self._expressions[node.id]

    def anchor(self, node: Node) -> Anchor | None:
        """Return how a node starts tiles, or None if it does not."""
        if node.id not in self._anchors:
            self._anchors[node.id] = self._anchor(node)
        return self._anchors[node.id]

    def shape(self, node: Node) -> Shape | None:
        """Return the shape of a node's only output if it is a float array of known shape."""
        if node.id not in self._shapes:
            site = Site(node, self.scope)
            is_array = site.output_count == 1 and site.output_dtype() in _FLOATS
            self._shapes[node.id] = site.output_shape() if is_array else None
        return self._shapes[node.id]

    def is_view(self, node: Node) -> bool:
        """Say whether a node leaves rows as they are and only arranges them in other axes."""
        if node.id not in self.nodes or node.domain or node.op_type not in VIEWS:
            return False
        before, after = Site(node, self.scope).shape(0), self.shape(node)
        return before is not None and _is_full(after) and before[-1:] == after[-1:]

    def _expression(self, node: Node) -> Expression | None:
        if node.id not in self.nodes or not _is_full(self.shape(node)):
            return None
        found = expression(Site(node, self.scope))
        return found if found is not None and self._are_floats(node, found.places) else None

    def _are_floats(self, node: Node, places: Collection[int]) -> bool:
        """Say whether inputs are arrays of known shape, of the element type of the output."""
        site = Site(node, self.scope)
        dtype = site.output_dtype()
        return all(site.dtype(at) == dtype and site.shape(at) is not None for at in places)

    def _anchor(self, node: Node) -> Anchor | None:
        if node.id not in self.nodes or node.domain or node.op_type not in ANCHORS:
            return None
        site, shape = Site(node, self.scope), self.shape(node)
        given = [index for index in range(site.input_count) if site.has(index)]
        if not _is_full(shape) or not self._are_floats(node, given):
            return None
        if node.op_type == "Conv":
            return _convolution(site, shape)
        if node.op_type == "Gemm":
            return _gemm(site, shape)
        return _matmul(site, shape)


def _is_full(shape: Shape | None) -> TypeGuard[Shape]:
    """Say whether a shape is known, has axes and holds elements."""
    return bool(shape) and 0 not in (shape or (0,))


def _convolution(site: Site, shape: Shape) -> Anchor | None:
    if not site.settled(1, 2):
        return None
    return Anchor("convolution", Space(shape, ((0,), (1,), tuple(range(2, len(shape))))))


def _gemm(site: Site, shape: Shape) -> Anchor | None:
    plain = site.attribute("alpha", 1.0) == 1.0 and site.attribute("beta", 1.0) == 1.0
    if not plain or site.attribute("transA", 0) or site.opset < 7:  # noqa: PLR2004 (an opset)
        return None
    return _product(site, shape)


def _matmul(site: Site, shape: Shape) -> Anchor | None:
    first, second = site.shape(0), site.shape(1)
    if first is None or second is None or min(len(first), len(second)) < 2:  # noqa: PLR2004 (rank)
        return None
    if len(second) == 2:  # noqa: PLR2004 (a matrix)
        return _product(site, shape)
    if len(shape) < 3 or math.prod(shape) * first[-1] < _SMALLEST_PRODUCT:  # noqa: PLR2004 (rank)
        return None
    return Anchor("products", Space(shape, tuple((axis,) for axis in range(len(shape)))))


def _product(site: Site, shape: Shape) -> Anchor | None:
    first = site.shape(0)
    if first is None or math.prod(shape) * first[-1] < _SMALLEST_PRODUCT:
        return None
    last = len(shape) - 1
    return Anchor("product", Space(shape, (tuple(range(last)), (last,))))
