"""Chains: a convolution with its epilogue, the elementwise nodes that follow it, as one kernel."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_numpy.fusion import BINARY, flat_view
from subgraphkit_numpy.kernels import Implementation, Kernel, Site, as_kernel, implementation
from subgraphkit_numpy.kernels.convolution import convolution
from subgraphkit_numpy.kernels.elementwise import Block
from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.kernels.scope import Scope

View = tuple[int, int, int]
"""The shape of an operand as (images, channels, pixels), one where it is repeated."""

Place = tuple[int, slice, slice]
Step = Callable[[Array, Place, Sequence[Array]], object]
"""Goes on with a tile in place; also takes where it lies, and the operands of the epilogue."""

_UFUNCS: Final = dict(
    zip(sorted(BINARY), (np.add, np.divide, np.multiply, np.subtract), strict=True)
)
_EVERYTHING: Final = slice(None)


def make_chain(nodes: Sequence[Node], scope: Scope) -> tuple[Kernel, tuple[str, ...]] | None:
    """Make the kernel of a convolution and its epilogue, and name the values it takes.

    None if a node cannot be done in tiles.
    """
    site = Site(nodes[0], scope)
    operands: dict[str, View] = {}
    if (steps := _epilogue(nodes, scope, operands)) is None:
        return None

    def finish(tile: Array, place: Place, *given: Array) -> None:
        for step in steps:
            step(tile, place, given)

    call, views = convolution(site, finish).call, tuple(operands.values())

    def compute(x: Array, *given: Array) -> Any:
        return call(x, *(one.reshape(view) for one, view in zip(given, views, strict=True)))

    return Kernel(compute, shares=True), (site.node.inputs[0], *operands)


def _epilogue(nodes: Sequence[Node], scope: Scope, operands: dict[str, View]) -> list[Step] | None:
    """Return the steps after a convolution; also fills in what they take."""
    (root, *rest), steps = nodes, []
    value, whole = root.outputs[0], Site(root, scope).output_shape() or ()
    while rest:
        node = rest.pop(0)
        if node.op_type in BINARY:
            steps.append(_binary(node, value, whole, operands))
        else:
            if (block := _block(Site(node, scope))) is None:
                return None
            is_gate = bool(rest) and value in rest[0].inputs
            steps.append(_gate(block) if is_gate else _unary(block))
            node = rest.pop(0) if is_gate else node
        value = node.outputs[0]
    return steps


def _block(site: Site) -> Block | None:
    """Return what computes a block of a function of one value, if there is that."""
    entry = implementation(site.node)
    made = entry.factory(site) if isinstance(entry, Implementation) else None
    if not (isinstance(made, Kernel) or callable(made)):
        return None
    kernel = as_kernel(made)
    return kernel.call if isinstance(kernel.call, np.ufunc) else kernel.block


def _unary(block: Block) -> Step:
    return lambda tile, _place, _given: block(tile, tile)


def _gate(function: Block) -> Step:
    """Multiply a value by a function of itself."""

    def step(tile: Array, _place: Place, _given: Sequence[Array]) -> None:
        factor = np.empty_like(tile)
        function(tile, factor)
        np.multiply(tile, factor, tile)

    return step


def _binary(node: Node, value: str, whole: tuple[int, ...], operands: dict[str, View]) -> Step:
    ufunc = _UFUNCS[node.op_type]
    first, second = node.inputs
    if first == second:
        return lambda tile, _place, _given: ufunc(tile, tile, tile)
    at = 1 if first == value else 0
    view = flat_view(node.shape(at), whole)
    assert view is not None  # noqa: S101 (the fusion rule takes no other)
    number = list(operands | {node.inputs[at]: view}).index(node.inputs[at])
    operands[node.inputs[at]] = view
    images, *dims = (dim > 1 for dim in view)

    def step(tile: Array, place: Place, given: Sequence[Array]) -> None:
        image, *along = place
        parts = [part if spans else _EVERYTHING for part, spans in zip(along, dims, strict=True)]
        other = given[number][image if images else 0][tuple(parts)]
        left, right = (tile, other) if at else (other, tile)
        ufunc(left, right, tile)

    return step
