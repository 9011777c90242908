"""Groups of expressions alone."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from subgraphkit_numpy.fusing.grouping import Group
from subgraphkit_numpy.fusing.made import MadeGroup, keep_rows, seen, shape_of
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
    whole_rows = keep_rows(group.nodes, scope)
    space = _space(group, scope, shape_of(last), whole_rows=whole_rows)
    tail = make_tail(scope, group.nodes, space, sliced=[True] * len(space.groups))
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


def _space(group: Group, scope: Scope, whole: Shape, *, whole_rows: bool) -> Space:
    """Merge axes as far as every value of the group allows."""
    shapes: list[Shape] = []
    for node in group.nodes:
        site = Site(node, scope)
        found = expression(site)
        if found is not None:
            shapes += [shape_of(site, place) for place in found.places]
            shapes += [constant.shape for constant in found.constants]
        shapes.append(shape_of(site))
    aligned = [align(shape, whole) for shape in shapes]
    return grouped_by_use(whole, [s for s in aligned if s is not None], keep_last=whole_rows)
