"""Make the kernel of a group."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_numpy.fusing.menu import AnchorKind
from subgraphkit_numpy.fusing.products import attention, product, products
from subgraphkit_numpy.fusing.selecting import Group
from subgraphkit_numpy.fusing.spaces import Shape, Space, align, grouped_by_use
from subgraphkit_numpy.fusing.tails import MadeGroup, made, make_tail, seen, shape_of
from subgraphkit_numpy.fusing.tiles import (
    ELEMENTS,
    in_parts,
    is_worth_sharing,
    leading_tiles,
    nanoseconds,
)
from subgraphkit_numpy.kernels.convolution import convolution
from subgraphkit_numpy.kernels.expressions import expression, folded_normalization
from subgraphkit_numpy.kernels.limits import is_covered
from subgraphkit_numpy.kernels.registry import Array, Kernel
from subgraphkit_numpy.kernels.site import Scope, Site
from subgraphkit_numpy.kernels.sizes import BROADCASTING
from subgraphkit_numpy.parallel import share


def elementwise(group: Group, scope: Scope) -> MadeGroup | None:
    """Compute a group of expressions tile by tile."""
    last = Site(group.nodes[-1], scope)
    space, whole_rows = _space(group, scope, shape_of(last))
    tail = make_tail(scope, group.nodes, space)
    if tail is None:
        return None
    places = leading_tiles(space.merged, whole_rows=whole_rows)
    shared = is_worth_sharing(nanoseconds(0, tail.passes, math.prod(space.shape)))
    parts = in_parts(places, share=shared)
    dtype, function, views = last.output_dtype(), tail.function, tail.views

    def work(part: Sequence[Any], out: Array, *operands: Array) -> None:
        for place in part:
            function(out[place], place, *operands)

    def compute(*operands: Array) -> Array:
        out = np.empty(space.merged, dtype)
        share(work, parts, out, *seen(operands, views))
        return out.reshape(space.shape)

    return MadeGroup(Kernel(compute, shares=shared), tail.operands, tail.reads)


def _space(group: Group, scope: Scope, whole: Shape) -> tuple[Space, bool]:
    """Merge axes as far as every value of the group allows; say whether rows must stay whole."""
    shapes: list[Shape] = []
    whole_rows = False
    for node in group.nodes:
        site = Site(node, scope)
        found = expression(site)
        if found is not None:
            shapes += [shape_of(site, place) for place in found.places]
            shapes += [constant.shape for constant in found.constants]
            whole_rows |= found.whole_rows
        shapes.append(shape_of(site))
    aligned = [align(shape, whole) for shape in shapes]
    fitting = [shape for shape in aligned if shape is not None]
    return grouped_by_use(whole, fitting, keep_last=whole_rows), whole_rows


_FEW: Final = 16
"""A product of matrices with fewer columns than this in the first is far larger than they are."""


def make_group(group: Group, scope: Scope) -> MadeGroup | None:
    """Make the kernel of a group, or return None if that is not possible after all."""
    if any(_may_spread(Site(node, scope)) for node in group.nodes):
        return None
    first, anchor = group.first, group.anchor
    if first is None or anchor is None:
        return elementwise(group, scope)
    if group.closing is not None:
        return attention(group, first, scope, anchor.space)
    return _MAKERS[anchor.kind](group, first, scope, anchor.space)


def _may_spread(site: Site) -> bool:
    """Say whether a node has to run by itself, because the size of what it makes is looked at."""
    if site.output_shape() is not None or is_covered(site):
        return False
    (*_, inner) = site.node.shape(0) or (None,)
    is_outer = site.node.op_type == "MatMul" and isinstance(inner, int) and inner < _FEW
    return is_outer or site.node.op_type in BROADCASTING


def _convolution(group: Group, first: Node, scope: Scope, space: Space) -> MadeGroup | None:
    site = Site(first, scope)
    rest, start = group.rest, first.outputs[0]
    scale = shift = None
    normalization = _only_normalization(group, first)
    if normalization is not None:
        folded = Site(normalization, scope)
        scale, shift = folded_normalization(folded)
        site.reads |= folded.reads
        rest = tuple(node for node in rest if node.id != normalization.id)
        start = normalization.outputs[0]
    tail = None
    if rest:
        tail = make_tail(scope, rest, space, start=start, indexed=1)
        if tail is None:
            return None
    finish = None if tail is None else tail.function
    finish_ns = 0.0 if tail is None else tail.passes / ELEMENTS
    kernel = convolution(site, finish, scale, shift, finish_ns=finish_ns)
    call = kernel.call
    views = () if tail is None else tail.views

    def compute(x: Array, *operands: Array) -> Any:
        return call(x, *seen(operands, views))

    return made(Kernel(compute, shares=True), site, (0,), tail)


def _only_normalization(group: Group, first: Node) -> Node | None:
    """Return the normalisation that alone reads a convolution, which can be folded into it."""
    readers = {consumer.id: consumer for consumer in first.consumers()}
    if len(readers) != 1:
        return None
    (reader,) = readers.values()
    inside = any(node.id == reader.id for node in group.rest)
    is_folded = reader.op_type == "BatchNormalization" and reader.inputs[0] == first.outputs[0]
    return reader if inside and is_folded and first.outputs[0] not in reader.inputs[1:] else None


_MAKERS: Final[dict[AnchorKind, Callable[[Group, Node, Scope, Space], MadeGroup | None]]] = {
    "convolution": _convolution,
    "product": product,
    "products": products,
}
