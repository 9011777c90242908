"""Groups of expressions alone."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from subgraphkit_numpy.fusing.grouping import Group
from subgraphkit_numpy.fusing.made import MadeGroup, seen, shape_of
from subgraphkit_numpy.fusing.spaces import Shape, Space, align, grouped_by_use
from subgraphkit_numpy.fusing.tails import make_tail
from subgraphkit_numpy.fusing.tiles import (
    in_parts,
    is_worth_sharing,
    leading_tiles,
    nanoseconds,
)
from subgraphkit_numpy.kernels.expressions import expression
from subgraphkit_numpy.kernels.registry import Array, Kernel
from subgraphkit_numpy.kernels.site import Scope, Site
from subgraphkit_numpy.parallel import share

__all__ = ["elementwise"]


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
