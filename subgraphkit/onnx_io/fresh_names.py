"""Names of open dimensions that onnx makes up, kept apart from one run of it to the next."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import onnx

from subgraphkit.ir import Graph
from subgraphkit.onnx_io.reading import read_types
from subgraphkit.types import TensorType, ValueType

__all__ = ["FreshNames", "made_up_names", "output_types"]

_MADE_UP: Final = "unk__"
"""How the names begin."""


class FreshNames:
    """Names of dimensions that onnx makes up: the same in no two of its runs over one model.

    Args:
        types: The types that are known before; names in them are taken.
    """

    def __init__(self, types: Iterable[ValueType]) -> None:
        self._taken = {dim for type_ in types for dim in _symbols(type_)}
        self._number = 0

    def renamed(
        self, types: Mapping[str, ValueType], made_up: Collection[str]
    ) -> Mapping[str, ValueType]:
        """Return the types found by one run with names changed that an earlier one made up.

        Args:
            types: The types.
            made_up: The names in them that the run made up.
        """
        names = {dim: self._fresh(made_up) for dim in sorted(made_up) if dim in self._taken}
        self._taken.update(dim for dim in made_up if dim not in names)
        self._taken.update(names.values())
        if not names:
            return types
        return {value: _with_names(type_, names) for value, type_ in types.items()}

    def _fresh(self, avoided: Collection[str]) -> str:
        while True:
            name = f"{_MADE_UP}{self._number}"
            self._number += 1
            if name not in self._taken and name not in avoided:
                return name


def made_up_names(types: Iterable[ValueType], graph: onnx.GraphProto) -> Collection[str]:
    """Return the names in types that onnx found which it made up in that run.

    Args:
        types: The types.
        graph: What they were found in; names in its inputs are what they are.
    """
    # Many values have one type.
    distinct = {id(type_): type_ for type_ in types}.values()
    made_up = {dim for one in distinct for dim in _symbols(one) if dim.startswith(_MADE_UP)}
    if made_up:
        for type_ in read_types(graph.input, inferred=True).values():
            made_up.difference_update(_symbols(type_))
    return made_up


def output_types(body: Graph, names: Sequence[str]) -> dict[str, ValueType]:
    """Return the types of the outputs of a body, if no name of a dimension in them was made up.

    Args:
        body: The body.
        names: Names for the outputs, in order.
    """
    return {
        name: body.types[inner]
        for name, inner in zip(names, body.outputs, strict=True)
        if inner in body.types
        and not any(dim.startswith(_MADE_UP) for dim in _symbols(body.types[inner]))
    }


def _symbols(type_: ValueType) -> Iterator[str]:
    if isinstance(type_, TensorType) and type_.shape:
        for dim in type_.shape:
            if isinstance(dim, str):
                yield dim


def _with_names(type_: ValueType, names: Mapping[str, str]) -> ValueType:
    if names.keys().isdisjoint(_symbols(type_)) or not isinstance(type_, TensorType):
        return type_
    dims = (names.get(dim, dim) if isinstance(dim, str) else dim for dim in type_.shape or ())
    return TensorType(type_.dtype, tuple(dims))
