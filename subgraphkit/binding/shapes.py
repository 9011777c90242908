"""Shapes that a caller gives: sizes of named dimensions and shapes of inputs, checked."""

import difflib
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Final, cast

from subgraphkit.errors import BindError
from subgraphkit.ir import Graph
from subgraphkit.types import Dim, Shape, TensorType

__all__ = ["Shapes", "given_shapes"]

_LARGEST: Final = 2**63 - 1

Shapes = Mapping[str, int | Sequence[Dim]]
"""Values of named dimensions (``{"batch": 8}``) and shapes of inputs (``{"x": (8, 3)}``), mixed."""


def given_shapes(graph: Graph, shapes: Shapes) -> tuple[dict[str, int], dict[str, Shape]]:
    """Split what was given into values of symbols and whole input shapes, checked."""
    inputs = (*graph.inputs, *graph.defaults)
    known = _symbols(graph, inputs)
    symbols: dict[str, int] = {}
    whole: dict[str, Sequence[Dim]] = {}
    for name, given in shapes.items():
        if _is_size(given):
            if name not in known:
                raise _unknown("symbolic dimension", name, known)
            symbols[name] = _size(name, cast("int", given))
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
    for name, dims in whole.items():
        _collect_symbols(graph, name, dims, symbols)
    return symbols, {name: _resolved(graph, name, dims, symbols) for name, dims in whole.items()}


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
        return dim
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


def _collect_symbols(graph: Graph, name: str, dims: Sequence[Dim], symbols: dict[str, int]) -> None:
    """Check a given input shape against the model's and learn the symbols it fixes."""
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
        expected = symbols.setdefault(have, given) if isinstance(have, str) else have
        if expected is not None and expected != given:
            raise BindError(
                "SGK221",
                f"shapes gives input {name!r} the shape {dims}, but dimension {axis} of "
                f"{graph.types[name]} is {expected}",
                hint="A fixed dimension cannot be changed, and a symbol has one value everywhere.",
            )


def _resolved(graph: Graph, name: str, dims: Sequence[Dim], symbols: Mapping[str, int]) -> Shape:
    declared = graph.shape(name) or (None,) * len(dims)
    merged = [have if given is None else given for have, given in zip(declared, dims, strict=True)]
    return tuple(symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in merged)
