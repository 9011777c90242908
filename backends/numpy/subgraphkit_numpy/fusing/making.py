"""Make the kernel of a group."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from subgraphkit_numpy.fusing.blocks import elementwise
from subgraphkit_numpy.fusing.grouping import Group
from subgraphkit_numpy.fusing.made import MadeGroup, made, seen
from subgraphkit_numpy.fusing.menu import AnchorKind, Menu
from subgraphkit_numpy.fusing.products import attention, product, products
from subgraphkit_numpy.fusing.spaces import Space
from subgraphkit_numpy.fusing.tails import make_tail
from subgraphkit_numpy.kernels.convolution import convolution
from subgraphkit_numpy.kernels.expressions import folded_normalization
from subgraphkit_numpy.kernels.registry import Array, Kernel
from subgraphkit_numpy.kernels.site import Scope, Site

__all__ = ["make_group"]


def make_group(group: Group, scope: Scope) -> MadeGroup | None:
    """Make the kernel of a group, or return None if that is not possible after all."""
    if group.anchor is None:
        return elementwise(group, scope)
    anchor = Menu(scope, [group.anchor.id], ()).anchor(group.anchor)
    if anchor is None:
        return None
    if group.closing is not None:
        return attention(group, scope, anchor.space)
    return _MAKERS[anchor.kind](group, scope, anchor.space)


def _convolution(group: Group, scope: Scope, space: Space) -> MadeGroup | None:
    site = Site(group.nodes[0], scope)
    rest: Sequence[Any] = group.nodes[1:]
    scale = shift = None
    if rest and rest[0].op_type == "BatchNormalization":
        normalization = Site(rest[0], scope)
        scale, shift = folded_normalization(normalization)
        site.reads |= normalization.reads
        rest = rest[1:]
    tail = None
    if rest:
        start = group.nodes[-len(rest) - 1].outputs[0]
        tail = make_tail(scope, rest, space, start=start, sliced=(False, True, True))
        if tail is None:
            return None
    kernel = convolution(site, None if tail is None else tail.function, scale, shift)
    call, extra = kernel.call, kernel.extra
    views = () if tail is None else tail.views

    def compute(x: Array, *operands: Array) -> Any:
        return call(x, *extra, *seen(operands, views))

    return made(Kernel(compute, shares=True), site, (0,), tail)


_MAKERS: Final[dict[AnchorKind, Callable[[Group, Scope, Space], MadeGroup | None]]] = {
    "convolution": _convolution,
    "product": product,
    "products": products,
}
