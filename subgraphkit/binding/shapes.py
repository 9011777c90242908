"""Shapes that a caller gives: sizes of dimensions and shapes of inputs, checked."""

import difflib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, Final, cast

from subgraphkit.errors import BindError, SubgraphkitWarning
from subgraphkit.ir import Graph
from subgraphkit.types import Dim, Shape, TensorType, named

_LARGEST: Final = 2**63 - 1

Shapes = Mapping[str, int | Sequence[Dim]]
"""Values of named dimensions (``{"batch": 8}``), shapes of inputs (``{"x": (8, 3)}``) and sizes of
single axes, named or not (``{"x[0]": 8}``), mixed."""

Places = Sequence[tuple[str, int]]
"""Inputs with an axis each."""

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
    """Split what was given into values of symbols and whole input shapes, checked."""
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
            raise BindError(
                "SGK221",
                f"shapes[{name!r}] is {given!r}, which is neither a size nor a shape",
                hint="Give an int for a symbolic dimension, or a list of sizes for an input.",
            )
    for (name, axis), size in single.items():
        dims = list(whole.get(name) or (None,) * len(graph.shape(name) or ()))
        dims[axis] = size
        whole[name] = dims
    _learn(graph, whole, symbols, strict=strict)
    return symbols, {name: _resolved(graph, name, dims, symbols) for name, dims in whole.items()}


def _place(graph: Graph, inputs: Sequence[str], name: str) -> tuple[str, int]:
    """Read ``x[2]``, an axis of an input."""
    found = _AXIS_OF.fullmatch(name)
    if found is not None and found["input"] in inputs:
        place = found["input"], int(found["axis"])
        if place[1] < len(graph.shape(place[0]) or ()):
            return place
    unnamed = [
        f"{one}[{axis}]"
        for one in inputs
        for axis, dim in enumerate(graph.shape(one) or ())
        if dim is None
    ]
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


def _is_size(given: object) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool)


def _dim(name: str, dim: Any) -> Dim:
    if dim is None or isinstance(dim, str):
        return named(dim) if dim is not None else None
    if not _is_size(dim):
        raise BindError(
            "SGK221",
            f"shapes gives input {name!r} the dimension {dim!r}, which is not a size",
            hint="A dimension is an int, the name of a symbol, or None to leave it as it is.",
        )
    return _size(name, dim)


def _size(name: str, size: int) -> int:
    if size < 0:
        raise BindError("SGK221", f"shapes gives {name!r} the size {size}; sizes are 0 or more")
    if size > _LARGEST:
        raise BindError("SGK221", f"shapes gives {name!r} the size {size}; ONNX has 64 bits for it")
    return int(size)


def _sizes_of_symbols(
    graph: Graph, name: str, dims: Sequence[Dim], symbols: Mapping[str, int]
) -> Iterator[tuple[str, int, int]]:
    """Check a given input shape against the model's; yield symbols, their axes and their sizes."""
    declared = graph.shape(name)
    if not isinstance(graph.types.get(name), TensorType):
        raise BindError("SGK221", f"input {name!r} is not a tensor, so it takes no shape")
    if declared is None:
        return
    if len(declared) != len(dims):
        raise BindError(
            "SGK221",
            f"shapes gives input {name!r} the shape {dims}, of rank {len(dims)}; the model "
            f"declares {graph.types[name]}, of rank {len(declared)}",
        )
    for axis, (have, given) in enumerate(zip(declared, dims, strict=True)):
        if not isinstance(given, int):
            continue
        expected = symbols.get(have) if isinstance(have, str) else have
        if expected is not None and expected != given:
            raise BindError(
                "SGK221",
                f"shapes gives input {name!r} the shape {dims}, but dimension {axis} of "
                f"{graph.types[name]} is {expected}",
                hint="A fixed dimension cannot be changed, and a symbol has one value everywhere.",
            )
        if isinstance(have, str):
            yield have, axis, given


def _resolved(graph: Graph, name: str, dims: Sequence[Dim], symbols: Mapping[str, int]) -> Shape:
    declared = graph.shape(name) or (None,) * len(dims)
    merged = [have if given is None else given for have, given in zip(declared, dims, strict=True)]
    return tuple(symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in merged)
