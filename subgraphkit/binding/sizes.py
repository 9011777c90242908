"""Sizes of values, and of what operators work in beside them, held against the limits at bind.

Every value has a type by now. A dimension that is open counts as 1: what it will be is known at the
step, and judged there.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from subgraphkit.ir import BoundGraph, Graph, Node, elements
from subgraphkit.ir.graph import with_bodies
from subgraphkit.limits import LoadLimits
from subgraphkit.types import DataType, Shape, TensorType

_REFERENCE: Final = 64
"""Bits that NumPy takes for each text, beside the text itself."""

_AMPLE: Final = 8
"""What an operator works in may always have this many times the elements that it reads and makes.

Windows of convolutions overlap, and attention is computed from scores.
"""


def require_bounded(graph: BoundGraph, limits: LoadLimits) -> None:
    """Refuse a graph with a value, or a node that works in something, beyond the limits.

    Raises:
        UnsupportedModelError: There is one (SGK216).
    """
    most, rank = limits.value_bytes or math.inf, limits.max_rank or math.inf
    for one in with_bodies(graph):
        # Many values have one type.
        distinct = {id(type_): type_ for type_ in one.types.values()}
        large = {
            key
            for key, type_ in distinct.items()
            if isinstance(type_, TensorType)
            and type_.shape
            and (len(type_.shape) > rank or _bytes(type_) > most)
        }
        if large:
            _refuse(one, large, limits)
        if not limits.max_elements:
            continue
        op_types = one.table.op_types
        if _WORKED_IN.keys().isdisjoint(op_types):
            continue
        for index in one.order:
            worked_in = _WORKED_IN.get(op_types[index])
            if worked_in is not None and not one.table.domains[index]:
                _require_bounded_work(Node(one, index), worked_in, limits)


def _bytes(type_: TensorType) -> int:
    bits = _REFERENCE if type_.dtype is DataType.STRING else type_.dtype.bits
    return (elements(type_.shape) * bits + 7) // 8


def _refuse(graph: Graph, large: set[int], limits: LoadLimits) -> None:
    """Refuse the first value that is too large, in the order of the nodes that make them."""
    made = [name for node in graph.order for name in graph.table.outputs[node]]
    for name in dict.fromkeys([*graph.inputs, *graph.constants, *made, *graph.types]):
        type_ = graph.types.get(name)
        if id(type_) in large and isinstance(type_, TensorType) and type_.shape is not None:
            maker = graph.producers.get(name)
            of = "" if maker is None else f" of node {Node(graph, maker).label}"
            rank = len(type_.shape)
            limits.require("max_rank", rank, f"value {name!r}{of}")
            limits.require("max_value_bytes", _bytes(type_), f"value {name!r}{of}, {type_},")


# -- what operators work in --------------------------------------------------------------------


def _require_bounded_work(
    node: Node, worked_in: Callable[[Node, Shape], int], limits: LoadLimits
) -> None:
    shape = node.shape(0)
    if shape is None:
        return
    found = worked_in(node, shape)
    if found <= limits.max_elements:
        return
    known = [elements(node.graph.shape(name)) for name in (*node.inputs, *node.outputs) if name]
    if found > _AMPLE * sum(known):
        limits.require("max_elements", found, f"what node {node.label} works in")


def _along(stated: Iterable[int], rank: int, default: int = 1) -> list[int]:
    return [*stated, *[default] * rank][:rank]


def _padded(node: Node, shape: Shape) -> int:
    """Return the elements of what windows slide over."""
    rank = len(shape) - 2
    pads = node.attribute("pads", ())
    sums = _along(map(sum, zip(pads[:rank], pads[rank:], strict=False)), rank, 0)
    return elements(shape[:2]) * math.prod(map(sum, zip(map(_size, shape[2:]), sums, strict=False)))


def _spread(node: Node, shape: Shape) -> int:
    """Return the elements that windows spread over, before the padding is cut off."""
    rank = len(shape) - 2
    filters = node.shape(1) or ()
    taps = node.attribute("kernel_shape") or tuple(map(_size, filters[2:]))
    strides, dilations, more = (
        _along(node.attribute(name, ()), rank, default)
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    rows = zip(map(_size, shape[2:]), strides, _along(taps, rank), dilations, more, strict=False)
    return elements(shape[:1]) * math.prod(
        (size - 1) * stride + (tap - 1) * dilation + 1 + max(0, extra)
        for size, stride, tap, dilation, extra in rows
    )


def _beside(node: Node, shape: Shape) -> int:
    """Return the elements of channels with those beside them."""
    channels = _size(shape[1]) if len(shape) > 1 else 1
    return elements(shape) // max(1, channels) * (channels + int(node.attribute("size", 1)))


def _size(dim: object) -> int:
    return dim if isinstance(dim, int) else 1


_WORKED_IN: Final[Mapping[str, Callable[[Node, Shape], int]]] = {
    **dict.fromkeys(
        ("AveragePool", "Conv", "ConvInteger", "DeformConv", "LpPool", "MaxPool", "QLinearConv"),
        _padded,
    ),
    "ConvTranspose": _spread,
    "LRN": _beside,
}
"""Elements that operators work in beside what they read and make, from the first input's shape."""


# -- sizes that are fed ------------------------------------------------------------------------

_DECIDING: Final[Mapping[str, Sequence[int]]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1,),
    "ConstantOfShape": (0,),
    "DFT": (1,),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "ImageDecoder": (0,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Tile": (1, 2),
    "Upsample": (1,),
}
"""Operators, and the inputs whose contents decide how large the output is."""

_DOMAINS: Final = frozenset({"", "com.microsoft"})
_MEASURING: Final = frozenset({"ArgMax", "ArgMin", "NonZero", "SequenceLength", "Shape", "Size"})
"""What these make is no larger than what they look at."""


def size_fed_nodes(graph: Graph, entering: Collection[str]) -> Iterator[tuple[int, Node]]:
    """Yield nodes that make as much as fed numbers say, each with itself or the node of a body.

    Sizes that follow from constants are known at bind, and those that follow from the shapes of
    what is there are bounded by these.
    """
    table = graph.table
    if not table.bodies and _DECIDING.keys().isdisjoint(table.op_types):
        return
    fed = {one for one in entering if graph.dtype(one) is not DataType.BOOL}  # which asks for 1
    for index in graph.order:
        op, inputs, bodies = table.op_types[index], table.inputs[index], table.bodies.get(index)
        if fed.isdisjoint(graph.read_by(index) if bodies else inputs):
            continue
        places = _DECIDING.get(op, ()) if table.domains[index] in _DOMAINS else ()
        if any(inputs[place] in fed for place in places if place < len(inputs)):
            yield index, Node(graph, index)
        for body in (bodies or {}).values():
            carried = body.inputs[1:] if op == "Loop" else body.inputs  # the first one counts
            inner = next(size_fed_nodes(body, (*carried, *fed.intersection(body.captures))), None)
            if inner is not None:
                yield index, inner[1]
                break
        if op not in _MEASURING:
            fed.update(o for o in table.outputs[index] if graph.dtype(o) is not DataType.BOOL)
