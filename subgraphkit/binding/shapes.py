"""Shapes that a caller gives, checked; and sizes that follow from feeds."""

import difflib
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, Final, cast

from subgraphkit.errors import BindError, SubgraphkitWarning
from subgraphkit.ir import BoundGraph, Graph, Node, elements
from subgraphkit.ir.graph import with_bodies
from subgraphkit.limits import LoadLimits
from subgraphkit.types import DataType, Dim, Shape, TensorType, dim_name

_LARGEST: Final = 2**63 - 1

Shapes = Mapping[str, int | Sequence[Dim]]
"""Values of named dimensions (``{"batch": 8}``), shapes of inputs (``{"x": (8, 3)}``) and sizes of
single axes, named or not (``{"x[0]": 8}``), mixed."""

Places = Sequence[tuple[str, int]]

_AXIS_OF: Final = re.compile(r"(?P<input>.+)\[(?P<axis>\d+)\]", re.DOTALL)


def renaming(graph: Graph, symbol: str, places: Places) -> str:
    """Write the argument that gives the dimensions of one name a name each."""
    numbers = {place: number for number, place in enumerate(places, 1)}
    shapes = {
        name: tuple(
            f"{symbol}_{numbers[name, axis]}" if numbers.get((name, axis), 1) > 1 else dim
            for axis, dim in enumerate(graph.shape(name) or ())
        )
        for name, _ in places
    }
    told = {name: shape for name, shape in shapes.items() if shape != graph.shape(name)}
    return f"shapes={told!r}"


def shapes_of_inputs(graph: Graph) -> dict[str, Shape]:
    """Return the shapes of inputs as they were bound, of those that have one."""
    found = {name: graph.shape(name) for name in (*graph.inputs, *graph.defaults)}
    return {name: shape for name, shape in found.items() if shape is not None}


def given_shapes(
    graph: Graph, shapes: Shapes, *, strict: bool
) -> tuple[dict[str, int], dict[str, Shape]]:
    """Split the given shapes into values of symbols and whole input shapes, checked."""
    inputs = (*graph.inputs, *graph.defaults)
    symbols: dict[str, int] = {}
    whole: dict[str, Sequence[Dim]] = {}
    single: dict[tuple[str, int], int] = {}
    for name, given in shapes.items():
        if _is_size(given):
            size = _size(name, cast("int", given))
            if name in _symbols(graph, inputs):
                symbols[name] = size
            else:
                single[_place(graph, inputs, name)] = size
        elif isinstance(given, Sequence) and not isinstance(given, str):
            if name not in inputs:
                raise _unknown("input", name, inputs)
            whole[name] = tuple(_dim(name, dim) for dim in given)
        else:
            raise _wrong(
                f"shapes[{name!r}] is {given!r}, which is neither a size nor a shape",
                "Give an int for a symbolic dimension, or a list of sizes for an input.",
            )
    for (name, axis), size in single.items():
        dims = list(whole.get(name) or (None,) * len(graph.shape(name) or ()))
        dims[axis] = size
        whole[name] = dims
    _learn(graph, whole, symbols, strict=strict)
    return symbols, {name: _known_shape(graph, name, dims, symbols) for name, dims in whole.items()}


def _place(graph: Graph, inputs: Sequence[str], name: str) -> tuple[str, int]:
    """Read ``x[2]``, an axis of an input."""
    found = _AXIS_OF.fullmatch(name)
    if found is not None and found["input"] in inputs:
        place = found["input"], int(found["axis"])
        if place[1] < len(graph.shape(place[0]) or ()):
            return place
    axes = ((one, *axis) for one in inputs for axis in enumerate(graph.shape(one) or ()))
    unnamed = [f"{one}[{axis}]" for one, axis, dim in axes if dim is None]
    raise _unknown("symbolic dimension", name, [*_symbols(graph, inputs), *unnamed])


def _learn(
    graph: Graph, whole: Mapping[str, Sequence[Dim]], symbols: dict[str, int], *, strict: bool
) -> None:
    """Check the shapes given, and learn the symbols that they fix.

    A symbol of which they give several sizes gets none elsewhere, and that is said.
    """
    stated = dict(symbols)
    places: dict[str, list[tuple[str, int]]] = {}
    sizes: dict[str, set[int]] = {}
    for name, dims in whole.items():
        for symbol, axis, size in _sizes_of_symbols(
            graph, name, dims, symbols if strict else stated
        ):
            symbols.setdefault(symbol, size)
            places.setdefault(symbol, []).append((name, axis))
            sizes.setdefault(symbol, set()).add(size)
    for symbol in [one for one, found in sizes.items() if len(found) > 1]:
        del symbols[symbol]
        told = ", ".join(f"{name}[{axis}]" for name, axis in places[symbol])
        text = (
            f"[SGK221] shapes gives dimension {symbol!r} the sizes "
            f"{', '.join(map(str, sorted(sizes[symbol])))} ({told}); they are taken to be "
            f"different dimensions. To say so: {renaming(graph, symbol, places[symbol])}"
        )
        warnings.warn(SubgraphkitWarning(text), stacklevel=4)


def _symbols(graph: Graph, inputs: Sequence[str]) -> list[str]:
    dims = (dim for name in inputs for dim in graph.shape(name) or ())
    return list(dict.fromkeys(dim for dim in dims if isinstance(dim, str)))


def _unknown(kind: str, name: str, known: Sequence[str]) -> BindError:
    close = difflib.get_close_matches(name, known, 1)
    suggestion = f"Did you mean {close[0]!r}? " if close else ""
    return BindError(
        "SGK220",
        f"shapes names {name!r}, but the model has no {kind} of that name",
        hint=f"{suggestion}It has: {', '.join(map(repr, known)) or 'none'}.",
        name=name,
    )


def _wrong(problem: str, hint: str = "") -> BindError:
    return BindError("SGK221", problem, hint=hint)


def _is_size(given: object) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool)


def _dim(name: str, dim: Any) -> Dim:
    if dim is None or isinstance(dim, str):
        return dim_name(dim) if dim is not None else None
    if not _is_size(dim):
        raise _wrong(
            f"shapes gives input {name!r} the dimension {dim!r}, which is not a size",
            "A dimension is an int, the name of a symbol, or None to leave it as it is.",
        )
    return _size(name, dim)


def _size(name: str, size: int) -> int:
    if size < 0:
        raise _wrong(f"shapes gives {name!r} the size {size}; sizes are 0 or more")
    if size > _LARGEST:
        raise _wrong(f"shapes gives {name!r} the size {size}; ONNX has 64 bits for it")
    return int(size)


def _sizes_of_symbols(
    graph: Graph, name: str, dims: Sequence[Dim], symbols: Mapping[str, int]
) -> Iterator[tuple[str, int, int]]:
    """Check a given input shape against the model's; yield symbols, their axes and their sizes."""
    declared = graph.shape(name)
    if not isinstance(graph.types.get(name), TensorType):
        raise _wrong(f"input {name!r} is not a tensor, so it takes no shape")
    if declared is None:
        return
    if len(declared) != len(dims):
        raise _wrong(
            f"shapes gives input {name!r} the shape {dims}, of rank {len(dims)}; the model "
            f"declares {graph.types[name]}, of rank {len(declared)}"
        )
    for axis, (have, given) in enumerate(zip(declared, dims, strict=True)):
        if not isinstance(given, int):
            continue
        expected = symbols.get(have) if isinstance(have, str) else have
        if expected is not None and expected != given:
            raise _wrong(
                f"shapes gives input {name!r} the shape {dims}, but dimension {axis} of "
                f"{graph.types[name]} is {expected}",
                "A fixed dimension cannot be changed, and a symbol has one value everywhere.",
            )
        if isinstance(have, str):
            yield have, axis, given


def _known_shape(graph: Graph, name: str, dims: Sequence[Dim], symbols: Mapping[str, int]) -> Shape:
    declared = graph.shape(name) or (None,) * len(dims)
    merged = [have if given is None else given for have, given in zip(declared, dims, strict=True)]
    return tuple(symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in merged)


# Bits that NumPy takes for each text, beside the text itself.
_REFERENCE: Final = 64

# An operator's work area may always have this many times the elements that it reads and makes.
#
# Windows of convolutions overlap, and attention is computed from scores.
_AMPLE: Final = 8


def require_bounded(graph: BoundGraph, limits: LoadLimits) -> None:
    """Refuse values and nodes beyond the limits (UnsupportedModelError, SGK216)."""
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
    found = 0 if shape is None else worked_in(node, shape)
    if found > limits.max_elements:
        known = [elements(node.graph.shape(name)) for name in (*node.inputs, *node.outputs) if name]
        if found > _AMPLE * sum(known):
            limits.require("max_elements", found, f"what node {node.label} works in")


def _along(stated: Iterable[int], rank: int, default: int = 1) -> list[int]:
    return [*stated, *[default] * rank][:rank]


def _slid_over(node: Node, shape: Shape) -> int:
    """Return the elements of the inputs of windows."""
    rank = len(shape) - 2
    pads = node.attribute("pads", ())
    sums = _along(map(sum, zip(pads[:rank], pads[rank:], strict=False)), rank, 0)
    return elements(shape[:2]) * math.prod(
        map(sum, zip(map(_known_size, shape[2:]), sums, strict=False))
    )


def _spread(node: Node, shape: Shape) -> int:
    """Return the elements that windows spread over, before the padding is cut off."""
    rank = len(shape) - 2
    filters = node.shape(1) or ()
    taps = node.attribute("kernel_shape") or tuple(map(_known_size, filters[2:]))
    strides, dilations, more = (
        _along(node.attribute(name, ()), rank, default)
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    rows = zip(
        map(_known_size, shape[2:]), strides, _along(taps, rank), dilations, more, strict=False
    )
    return elements(shape[:1]) * math.prod(
        (size - 1) * stride + (tap - 1) * dilation + 1 + max(0, extra)
        for size, stride, tap, dilation, extra in rows
    )


def _beside(node: Node, shape: Shape) -> int:
    """Return the elements of channels with those beside them."""
    channels = _known_size(shape[1]) if len(shape) > 1 else 1
    return elements(shape) // max(1, channels) * (channels + int(node.attribute("size", 1)))


def _known_size(dim: object) -> int:
    return dim if isinstance(dim, int) else 1


# Elements of operators' work areas beside inputs and outputs, from the first input's shape.
_WORKED_IN: Final[Mapping[str, Callable[[Node, Shape], int]]] = {
    **dict.fromkeys(
        ("AveragePool", "Conv", "ConvInteger", "DeformConv", "LpPool", "MaxPool", "QLinearConv"),
        _slid_over,
    ),
    "ConvTranspose": _spread,
    "LRN": _beside,
}


# -- sizes that are fed ------------------------------------------------------------------------

# Operators, and the inputs whose contents decide how large the output is.
_DECIDING: Final[Mapping[str, Sequence[int]]] = {
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), (0,)),
    **dict.fromkeys(("ConstantOfShape", "ImageDecoder"), (0,)),
    **dict.fromkeys(("AffineGrid", "CenterCropPad", "Col2Im", "DFT", "Expand"), (1,)),
    **dict.fromkeys(("OneHot", "Pad", "Upsample"), (1,)),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Tile": (1, 2),
}

_DOMAINS: Final = frozenset({"", "com.microsoft"})
# Their results are no larger than their inputs.
_MEASURING: Final = frozenset({"ArgMax", "ArgMin", "NonZero", "SequenceLength", "Shape", "Size"})


def size_fed_nodes(graph: Graph, entering: Collection[str]) -> Iterator[tuple[int, Node]]:
    """Yield nodes that make as much as fed numbers say, each with itself or the node of a body.

    The bind knows sizes that follow from constants. Other shapes bound the sizes that follow from
    them.
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
