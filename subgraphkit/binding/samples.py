"""Made-up inputs of a model: random arrays, as small as the network can work with.

A size of 1 is right for a batch and for most networks without windows. Where windows slide, though,
1 leaves nothing to slide over, and the model fails or computes nothing of meaning. So the sizes of
one input are doubled until every window fits and every step finds something to step to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.binding import BoundModel
from subgraphkit.errors import CallerError, InvalidModelError
from subgraphkit.ir import Graph, Node
from subgraphkit.onnx_io import Inferred
from subgraphkit.types import DataType, Dim, Shape, TensorType, ValueType, fits, slot

_TRIED: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_WEIGHT_PLACE: Final[Mapping[str, int]] = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}
_WINDOWS: Final = frozenset({*_WEIGHT_PLACE, "AveragePool", "LpPool", "MaxPool", "Pad"})


@dataclass(frozen=True, slots=True)
class Feed:
    """One input.

    Attributes:
        array: What is fed.
        source: The file, or ``"random"``.
        assumed: Sizes of dimensions that nobody gave; by name, or as ``x[2]``.
    """

    array: npt.NDArray[Any]
    source: str
    assumed: Mapping[str, int] = field(default_factory=dict)


def samples(
    bound: BoundModel,
    given: Mapping[str, tuple[int, ...]],
    shapes: Mapping[str, Shape],
    symbols: Mapping[str, int],
    seed: int,
) -> dict[str, Feed]:
    """Make up an array for every input that is not given; CallerError (SGK197) if one cannot be.

    Floating point inputs are standard normal; whole numbers are 0 or 1, which are right for masks,
    indices and counts alike. Sizes that nobody gave are small ones that the network can work with.

    ``given``: Shapes of the inputs that are given.
    ``shapes``: Shapes that others are to have, if not as the graph says; axes may be open.
    ``symbols``: Sizes of named dimensions; others are those of the shapes that are given.
    """
    wanted = {name: shapes.get(name, bound.shape(name)) for name in bound.inputs}
    wanted = {name: shape for name, shape in wanted.items() if name not in given}
    made_up = {name: shape or () for name, shape in wanted.items()}
    learned = {**_sizes(bound, given), **symbols}
    chosen = _choose_sizes(bound, made_up, given, learned)
    rng = np.random.default_rng(seed)
    return {
        name: _made_up(name, bound.types.get(name), shape, (learned, chosen), rng)
        for name, shape in wanted.items()
    }


def _sizes(bound: BoundModel, given: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Learn the sizes of named dimensions from shapes."""
    sizes: dict[str, int] = {}
    for name, shape in given.items():
        for dim, size in zip(bound.shape(name) or (), shape, strict=False):
            if isinstance(dim, str):
                sizes.setdefault(dim, size)
    return sizes


def _made_up(
    name: str,
    type_: ValueType | None,
    declared: Shape | None,
    sizes: tuple[Mapping[str, int], Mapping[str, int]],
    rng: np.random.Generator,
) -> Feed:
    maker = _maker(type_.dtype) if isinstance(type_, TensorType) else None
    if maker is None or not isinstance(type_, TensorType) or declared is None:
        raise CallerError(
            "SGK197",
            f"input {name!r} is {type_}, which cannot be made up",
            hint=f"Give an array for it: feeds={{{name!r}: array}} in Python, or "
            f"--input {name}=FILE.npy on the command line.",
            input=name,
        )
    learned, chosen = sizes
    shape = _fill_shape(name, declared, {**chosen, **learned})
    assumed = {
        one: chosen[one]
        for axis, dim in enumerate(declared)
        if (one := slot(name, axis, dim)) in chosen and not isinstance(dim, int)
    }
    try:
        made = np.asarray(maker(rng, shape), dtype=type_.dtype.numpy)
    except (MemoryError, ValueError) as error:
        raise CallerError(
            "SGK197",
            f"input {name!r} of shape {shape} cannot be made up: {error}",
            hint="Give smaller sizes: shapes={'N': 1} in Python, or --symbol N=1 on the command "
            "line.",
            input=name,
        ) from error
    return Feed(made, "random", assumed)


_Maker = Callable[[np.random.Generator, tuple[int, ...]], npt.NDArray[Any]]


def _maker(dtype: DataType) -> _Maker | None:
    if dtype in {DataType.UNDEFINED, DataType.STRING}:
        return None
    name = dtype.label
    if name.startswith(("int", "uint", "bool")):
        return lambda rng, shape: rng.integers(0, 2, shape)
    if dtype is DataType.DOUBLE:
        return lambda rng, shape: rng.standard_normal(shape)
    return lambda rng, shape: rng.standard_normal(shape, np.float32)


def _fill_shape(name: str, shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of an input, with sizes by ``slot`` for its open dimensions."""
    return tuple(
        dim if isinstance(dim, int) else sizes[slot(name, axis, dim)]
        for axis, dim in enumerate(shape)
    )


def _choose_sizes(
    bound: BoundModel,
    shapes: Mapping[str, Shape],
    given: Mapping[str, tuple[int, ...]],
    learned: Mapping[str, int],
) -> dict[str, int]:
    """Choose a size for every dimension of the inputs that is still open."""
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
    # After 1, twice as much each time, of one input after the other.
    larger = ({**ones, **dict.fromkeys(s, n)} for n in _TRIED for s in growing.values())
    for sizes in chain((ones,), larger) if ones else ():
        known = {**sizes, **learned}
        whole = {name: _fill_shape(name, shape, known) for name, shape in shapes.items()}
        if _works(bound, {**fixed, **whole}, max(sizes.values())):
            return sizes
    return ones


def _works(bound: BoundModel, shapes: Mapping[str, Shape], largest: int) -> bool:
    """Say whether no window is larger than its input, or steps across all of it."""
    try:
        inferred = bound.inferred(shapes=shapes)
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
