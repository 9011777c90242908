"""Sizes for the dimensions of inputs that nobody gave: small ones that the network can work with.

A size of 1 is right for a batch and for most of what has no windows. Where windows slide, though,
1 leaves nothing to slide over, and the model fails or computes nothing of meaning. So the sizes of
one input are doubled until every window fits and every step finds something to step to.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from subgraphkit.binding import BoundModel
from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Graph, Node
from subgraphkit.onnx_io import Inferred, infer
from subgraphkit.types import Dim, Shape, TensorType, ValueType, fits, slot

__all__ = ["choose_sizes", "filled"]

_TRIED: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_WEIGHT_PLACE: Final[Mapping[str, int]] = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}
_WINDOWS: Final = frozenset({*_WEIGHT_PLACE, "AveragePool", "LpPool", "MaxPool", "Pad"})


def filled(name: str, shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of an input with sizes, by ``slot``, for what is open."""
    return tuple(
        dim if isinstance(dim, int) else sizes[slot(name, axis, dim)]
        for axis, dim in enumerate(shape)
    )


def choose_sizes(
    bound: BoundModel, given: Mapping[str, tuple[int, ...]], learned: Mapping[str, int]
) -> dict[str, int]:
    """Choose a size for every dimension of the inputs that is still open.

    Args:
        bound: The bound model.
        given: Shapes of the inputs of which the arrays are given.
        learned: Sizes of named dimensions that follow from them.

    Returns:
        Sizes by ``slot``.
    """
    shapes = {name: bound.shape(name) or () for name in bound.inputs if name not in given}
    fixed = {name: shape for name, shape in given.items() if fits(shape, bound.shape(name) or ())}
    growing: dict[str, list[str]] = {}
    ones: dict[str, int] = {}
    for name, shape in shapes.items():
        for axis, dim in enumerate(shape):
            one = slot(name, axis, dim)
            if isinstance(dim, int) or one in learned:
                continue
            ones[one] = 1
            if axis > 0 or len(shape) == 1:  # the first of several is the batch
                growing.setdefault(name, []).append(one)
    for sizes in (ones, *_larger(ones, growing.values())) if ones else ():
        known = {**sizes, **learned}
        whole = {name: filled(name, shape, known) for name, shape in shapes.items()}
        if _works(bound, {**fixed, **whole}, max(sizes.values())):
            return sizes
    return ones


def _larger(
    ones: Mapping[str, int], growing: Collection[Sequence[str]]
) -> Iterator[dict[str, int]]:
    """Yield what is tried after 1: twice as much each time, of one input after the other."""
    for size in _TRIED:
        for slots in growing:
            yield {**ones, **dict.fromkeys(slots, size)}


def _works(bound: BoundModel, shapes: Mapping[str, Shape], largest: int) -> bool:
    """Say whether no window is larger than what it slides over, or steps across all of it.

    Args:
        bound: The bound model.
        shapes: Shapes of its inputs.
        largest: The largest size chosen, which stands for sizes that inference does not find.
    """
    try:
        inferred = infer(bound.inlined, bound.symbols, {**bound.input_shapes, **shapes})
    except InvalidModelError:
        return False
    return all(_fits(node, shapes, largest) for node, shapes in _nodes(bound, inferred))


def _nodes(bound: BoundModel, inferred: Inferred) -> Iterator[tuple[Node, list[Shape | None]]]:
    """Yield the nodes with windows, also in bodies, with the shapes of their inputs."""
    waiting: list[tuple[Graph, Mapping[str, ValueType]]] = [(bound, inferred.types)]
    waiting += [(body, body.types) for one in inferred.bodies.values() for body in one.values()]
    while waiting:
        graph, types = waiting.pop()
        if graph is not bound:
            inner = graph.table.bodies.values()
            waiting += [(body, body.types) for one in inner for body in one.values()]
        for node in graph.nodes:
            if node.op_type in _WINDOWS:
                # A body may read from outside, and no two values have one name.
                found = [types.get(name) or inferred.types.get(name) for name in node.inputs]
                yield node, [t.shape if isinstance(t, TensorType) else None for t in found]


def _fits(node: Node, shapes: Sequence[Shape | None], largest: int) -> bool:
    shape = shapes[0]
    if node.op_type == "Pad":
        return shape is None or _can_reflect(node, shape)
    weight = _WEIGHT_PLACE.get(node.op_type)
    implied = (shapes[weight] or ())[2:] if weight is not None else ()
    kernel: Sequence[Dim] = node.attribute("kernel_shape") or implied
    spatial = shape[2:] if shape is not None else (None,) * len(kernel)
    count = len(spatial)
    strides = node.attribute("strides") or (1,) * count
    dilations = node.attribute("dilations") or (1,) * count
    pads = node.attribute("pads") or (0,) * (2 * count)
    if node.attribute("auto_pad", b"NOTSET") in {b"SAME_UPPER", b"SAME_LOWER"}:
        kernel = (1,) * count
    if not (len(kernel) == len(strides) == count):
        return True
    for axis, (dim, length) in enumerate(zip(spatial, kernel, strict=True)):
        size = dim if isinstance(dim, int) else largest
        reach = dilations[axis] * (length - 1) if isinstance(length, int) else 0
        if size < strides[axis] or size + pads[axis] + pads[axis + count] <= reach:
            return False
    return True


def _can_reflect(node: Node, shape: Shape) -> bool:
    """Say whether there is enough to reflect."""
    pads = node.constant(1) if len(node.inputs) > 1 else node.attribute("pads")
    mode = node.attribute("mode", b"constant")
    if mode not in {b"reflect", "reflect"} or pads is None or len(pads) != 2 * len(shape):
        return True
    return all(
        not isinstance(size, int) or max(pads[axis], pads[axis + len(shape)]) < size
        for axis, size in enumerate(shape)
    )
