"""Operators as their tables have them: what a line reads, its nodes, and how it is judged."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import onnx
from onnx import parser

from subgraphkit.testing.operator_tables import TABLES

__all__ = ["FAMILIES", "Argument", "OperatorForm", "operations"]

FAMILIES: Final = tuple(TABLES)
"""The tables, by name: operators that are varied in the same sizes."""

_ARGUMENT: Final = re.compile(
    r"\b(?P<name>\w+)(?P<kind>[+~]?)(?::(?P<type>\w+))?(?P<stored>!?)"
    r"\[(?P<dims>[\w,]*)\](?:=\{(?P<values>[^}]*)\})?"
)

_MAKES: Final = re.compile(r"[\w, ]+=")
_NEW_LINE: Final = re.compile(r"(?<=[)])\n\s*(?=\S)")
"""Where one line of a table ends: those that go on end in something else than a bracket."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A value that a line reads and no node of it makes.

    Attributes:
        name: Its name in the line.
        kind: ``+`` positive, ``~`` between -1 and 1, or empty.
        element_type: Its element type, as onnx's text form has it; empty for the line's own.
        dims: Its dimensions: numbers, and ``N``.
        is_stored: Whether it is a constant.
        values: Its values where they are stated, as text.
    """

    name: str
    kind: str
    element_type: str
    dims: tuple[str, ...]
    is_stored: bool
    values: str


@dataclass(frozen=True, slots=True)
class OperatorForm:
    """A line of a table, for one element type.

    Attributes:
        family: The table.
        judged: How its results are judged: ``bits``, ``equal``, ``ulp`` or ``near``.
        element_type: Its element type, as onnx's text form has it.
        text: The line.
    """

    family: str
    judged: str
    element_type: str
    text: str

    @property
    def label(self) -> str:
        """The line with its type, as a finding names it."""
        return f"{self.text} of {self.element_type}"

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What it reads."""
        return tuple(
            Argument(
                one["name"],
                one["kind"],
                one["type"] or "",
                tuple(one["dims"].split(",")) if one["dims"] else (),
                bool(one["stored"]),
                one["values"] or "",
            )
            for one in _ARGUMENT.finditer(self.text)
        )

    @property
    def is_square(self) -> bool:
        """Whether something of it is as large as the square of ``N``."""
        return any(one.dims.count("N") > 1 for one in self.arguments)

    @property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """Its nodes."""
        plain = _ARGUMENT.sub(lambda found: found["name"], self.text)
        steps = [step.strip() for step in plain.split(";")]
        steps[-1] = steps[-1] if _MAKES.match(steps[-1]) else f"y = {steps[-1]}"
        return tuple(map(parser.parse_node, steps))


@lru_cache(maxsize=1)
def _all() -> Mapping[str, tuple[OperatorForm, ...]]:
    return {family: tuple(_read(family, table)) for family, table in TABLES.items()}


def _read(family: str, table: Mapping[str, str]) -> Iterator[OperatorForm]:
    for head, body in table.items():
        judged, *element_types = head.split()
        for line in _NEW_LINE.split(body.strip()):
            for element_type in element_types:
                yield OperatorForm(family, judged, element_type, " ".join(line.split()))


def operations(family: str) -> tuple[OperatorForm, ...]:
    """Return the operations of a family, in the order of its table."""
    return _all()[family]
