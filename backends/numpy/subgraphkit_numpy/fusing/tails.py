"""Tails of groups: all that follows an anchor, as one straight-line function of a tile."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_numpy.fusing.menu import VIEWS
from subgraphkit_numpy.fusing.spaces import Shape, Space
from subgraphkit_numpy.kernels.expressions import Expression, expression
from subgraphkit_numpy.kernels.registry import Array, Kernel
from subgraphkit_numpy.kernels.site import Scope, Site
from subgraphkit_numpy.sourcing import function_code

_EVERYTHING: Final = slice(None)
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Tail:
    """The rest of a group after its anchor.

    Attributes:
        function: ``function(tile, place, *operands)`` finishes a tile in place. ``place`` holds one
            index or slice per merged axis of the space: where the tile lies. The operands are whole
            arrays seen in the space, as ``views`` says.
        operands: Names of the values it reads besides the tile.
        views: The shape each operand has to be given in.
        passes: What it costs, in plain passes over the tile.
        whole_rows: Whether the tile must hold whole rows.
    """

    function: Callable[..., None]
    operands: tuple[str, ...]
    views: tuple[tuple[int, ...], ...]
    reads: frozenset[str]
    passes: int
    whole_rows: bool


def make_tail(
    scope: Scope,
    nodes: Sequence[Node],
    space: Space,
    *,
    start: str = "",
    indexed: int = 0,
    addend: tuple[Node, int] | None = None,
) -> Tail | None:
    """Write the function.

    Returns:
        None if an expression cannot be made or an operand cannot be seen in the space.
    """
    writer = _Writer(scope, nodes, start, space, indexed)
    if addend is not None and not writer.add_input(*addend):
        return None
    for index, node in enumerate(nodes):
        site = Site(node, scope)
        if node.op_type in VIEWS:
            if not writer.knows(node.inputs[0]):
                return None
            continue
        found = expression(site)
        if found is None or not writer.add(index, site, found):
            return None
    return writer.tail()


def _column(tile: Array) -> Array:
    """Return memory for one element of every row of a tile."""
    return np.empty((*tile.shape[:-1], 1), tile.dtype)


class _Writer:
    """The text of the function as far as it is written."""

    def __init__(
        self, scope: Scope, nodes: Sequence[Node], start: str, space: Space, indexed: int
    ) -> None:
        self._scope = scope
        self._nodes = nodes
        self._space = space
        self._indexed = indexed
        # nodes that only arrange axes hand on what they are given, under another name
        self._roots: dict[str, str] = {}
        for node in nodes:
            if node.op_type in VIEWS:
                self._roots[node.outputs[0]] = self._root(node.inputs[0])
        self._last_use = {
            self._root(name): at for at, node in enumerate(nodes) for name in node.inputs
        }
        self._registers = {start: "tile"} if start else {}
        self._free = [] if start else ["tile"]
        self._temporaries = 0
        self._passes = 0
        self._whole_rows = False
        self._lines: list[str] = []
        self._names: dict[str, Any] = {
            "everything": _EVERYTHING,
            "empty": np.empty,
            "column": _column,
        }
        self._operands: dict[str, str] = {}
        self._views: list[tuple[int, ...]] = []
        self._reads: set[str] = set()

    def add(self, index: int, site: Site, found: Expression) -> bool:
        """Write one expression; False if an operand cannot be seen in the space."""
        node = self._nodes[index]
        arguments = [self._operand(node, place) for place in found.places]
        arguments += [self._constant(node, constant) for constant in found.constants]
        if None in arguments:
            return False
        self._reads |= site.reads
        self._passes += found.passes
        self._whole_rows |= found.whole_rows
        call = self._bind("f", found.call)
        given = [a for a in arguments if a is not None]
        dying = self._dying(index, node)
        result = node.outputs[0]
        if not found.takes_out or self._is_narrow(node):
            register = self._temporary()
            if found.takes_out:
                self._lines.append(f"{register} = column(tile)")
                given.append(f"out={register}")
            self._lines.append(
                f"{'' if found.takes_out else f'{register} = '}{call}({', '.join(given)})"
            )
        else:
            register = self._target(index, dying)
            self._lines.append(f"{call}({', '.join(given)}, out={register})")
        self._free += [freed for freed in dying if freed != register]
        self._registers[result] = register
        return True

    def knows(self, name: str) -> bool:
        """Say whether a value is one of the group's that was computed."""
        return self._root(name) in self._registers

    def _root(self, name: str) -> str:
        return self._roots.get(name, name)

    def add_input(self, node: Node, place: int) -> bool:
        """Add an input of a node to the tile; False if it cannot be seen in the space."""
        operand = self._operand(node, place)
        if operand is None:
            return False
        self._lines.append(f"{self._bind('f', np.add)}(tile, {operand}, out=tile)")
        self._passes += 1
        return True

    def tail(self) -> Tail:
        """Return what was written."""
        result = self._registers[self._nodes[-1].outputs[0]] if self._nodes else "tile"
        if result != "tile":
            self._lines.append(f"tile[...] = {result}")
        axes = ", ".join(f"p{axis}" for axis in range(len(self._space.groups)))
        parameters = ", ".join(["tile", "place", *self._operands.values()])
        head = [f"def tail({parameters}):", f"    {axes}, = place"]
        body = [f"    {line}" for line in self._lines]
        filename = f"<subgraphkit-numpy tile {next(_NUMBERS)}>"
        code = function_code("\n".join(head + body) + "\n", filename)
        return Tail(
            FunctionType(code, {"__builtins__": {}, **self._names}),
            tuple(self._operands),
            tuple(self._views),
            frozenset(self._reads),
            self._passes,
            self._whole_rows,
        )

    def _operand(self, node: Node, place: int) -> str | None:
        name = self._root(node.inputs[place])
        if name in self._registers:
            return self._registers[name]
        site = Site(node, self._scope)
        constant = site.constant(place)
        if constant is not None:
            self._reads |= site.reads
            return self._constant(node, constant)
        shape = site.shape(place)
        space = self._arranged(node)
        view = None if shape is None or space is None else space.view(shape)
        if view is None:
            return None
        if name not in self._operands:
            self._operands[name] = f"v{len(self._operands)}"
            self._views.append(view)
        return self._tile_of(self._operands[name], view)

    def _arranged(self, node: Node) -> Space | None:
        shape = Site(node, self._scope).output_shape()
        return None if shape is None else self._space.arranged(shape)

    def _constant(self, node: Node, constant: Array) -> str | None:
        space = self._arranged(node)
        view = None if space is None else space.view(constant.shape)
        if view is None:
            return None
        if constant.size == 1:
            return self._bind("c", constant.reshape(()))
        return self._tile_of(self._bind("c", constant.reshape(view)), view)

    def _tile_of(self, name: str, view: tuple[int, ...]) -> str:
        indices = []
        for axis, (dim, full) in enumerate(zip(view, self._space.merged, strict=True)):
            if dim == full and full > 1:
                indices.append(f"p{axis}")
            else:
                indices.append("0" if axis < self._indexed else "everything")
        return f"{name}[{', '.join(indices)}]"

    def _bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self._names)}"
        self._names[name] = value
        return name

    def _dying(self, index: int, node: Node) -> list[str]:
        """Return registers whose value nobody reads after this node."""
        names = dict.fromkeys(map(self._root, node.inputs))
        return [
            self._registers[name]
            for name in names
            if name in self._registers and self._last_use[name] == index
        ]

    def _is_narrow(self, node: Node) -> bool:
        shape, space = Site(node, self._scope).output_shape(), self._arranged(node)
        return space is None or shape != space.shape

    def _target(self, index: int, dying: list[str]) -> str:
        wide = [register for register in dying if not register.startswith("n")]
        choices = [*wide, *(r for r in self._free if not r.startswith("n"))]
        if index == len(self._nodes) - 1:
            # nothing is read after the last expression, so the tile can take its result
            return "tile"
        if choices:
            chosen = choices[0]
            if chosen in self._free:
                self._free.remove(chosen)
            return chosen
        register = f"t{self._temporaries}"
        self._temporaries += 1
        self._lines.append(f"{register} = empty(tile.shape, tile.dtype)")
        return register

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"n{self._temporaries}"


@dataclass(frozen=True, slots=True)
class MadeGroup:
    """The kernel of a group."""

    kernel: Kernel
    operands: tuple[str, ...]
    reads: frozenset[str]


def made(kernel: Kernel, site: Site, places: Sequence[int], tail: Tail | None) -> MadeGroup:
    """Put together a kernel that takes inputs of its anchor and then the operands of its tail."""
    names = [site.node.inputs[place] for place in places]
    reads = frozenset(site.reads)
    if tail is not None:
        names += tail.operands
        reads |= tail.reads
    return MadeGroup(kernel, tuple(names), reads)


def seen(operands: Sequence[Array], views: Sequence[Shape]) -> list[Array]:
    """Return operands with their axes merged as a tail wants them."""
    return [value.reshape(view) for value, view in zip(operands, views, strict=True)]


def shape_of(site: Site, index: int | None = None) -> Shape:
    """Return the shape of an input, or of the output; the menu lets nothing unknown in."""
    shape = site.output_shape() if index is None else site.shape(index)
    assert shape is not None  # noqa: S101 (see above)
    return shape
