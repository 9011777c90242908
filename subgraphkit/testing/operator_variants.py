"""Operators as ``operators.txt`` and ``older.txt`` have them: inputs of a line, and its nodes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import onnx
from onnx import parser

_HERE: Final = Path(__file__).parent
_FAMILY: Final = re.compile(r"^\[(\w+)\]\n", re.MULTILINE)
_HEAD: Final = re.compile(r"^(\w.*):\n", re.MULTILINE)
_ARGUMENT: Final = re.compile(
    r"\b(?P<name>\w+)(?P<kind>[+~*#^]?)(?::(?P<type>\w+))?(?P<stored>!?)"
    r"\[(?P<dims>[\w,]*)\](?:=\{(?P<values>[^}]*)\})?"
)

_MAKES: Final = re.compile(r'[\w, "]+=')
_NEW_LINE: Final = re.compile(r"(?<=[)])\n\s*(?=\S)")
"""The end of a line of a table, which is a bracket; lines that go on end otherwise."""
_CHOICE: Final = re.compile(r"\w+(?:\s*\|\s*\w+)+")
"""Operators, or values of an attribute, in the place of which a line has each in its turn."""
_FEATURES: Final = re.compile(r"\b(\d*)C\b")
USUAL_OPSET: Final = 21
"""The operator set of lines that name none."""
_WIDE, _NARROW = 8, 4
_AXES_OF_PICTURES: Final = 4
_ELEMENTWISE: Final = frozenset({"arithmetic", "curves"})
_OF_ANY_SHAPE: Final = frozenset({("N",), ("1",), ()})


@dataclass(frozen=True, slots=True)
class Argument:
    """A value that a line reads and no node of it makes.

    Attributes:
        name: Its name in the line.
        kind: ``+`` positive, ``~`` between -1 and 1, ``*`` up to 200, ``#`` up to 2 to the 40th,
            ``^`` about 3000, or empty.
        element_type: Its element type, as onnx's text variant has it; empty for the line's own.
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

    @property
    def text(self) -> str:
        """It as a line has it."""
        typed = f":{self.element_type}" if self.element_type else ""
        stated = f"={{{self.values}}}" if self.values else ""
        stored = "!" if self.is_stored else ""
        return f"{self.name}{self.kind}{typed}{stored}[{','.join(self.dims)}]{stated}"


@dataclass(frozen=True, slots=True)
class OperatorVariant:
    """A line of a table, for one element type.

    Attributes:
        family: The table.
        strictness: How its results are judged: ``bits``, ``equal``, ``ulp`` or ``near``.
        element_type: Its element type, as onnx's text variant has it.
        opset: Version of the operator set.
        meaning: The same in other operators of the usual set, if ``onnx.reference`` does not
            compute the line, or not as ONNX says. Else empty.
    """

    family: str
    strictness: str
    element_type: str
    text: str
    opset: int = USUAL_OPSET
    meaning: str = ""

    @property
    def label(self) -> str:
        """The line with its type, as a finding names it."""
        return f"{self.text} of {self.element_type}"

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Its inputs."""
        found = []
        for one in _ARGUMENT.finditer(self.text):
            name, kind, type_, stored, dims, values = one.groups("")
            sizes = tuple(filter(None, dims.split(",")))
            found.append(Argument(name, kind, type_, sizes, bool(stored), values))
        return tuple(found)

    @property
    def is_square(self) -> bool:
        """Whether something of it is as large as the square of ``N``."""
        return any(one.dims.count("N") > 1 for one in self.arguments)

    @property
    def is_elementwise(self) -> bool:
        """Whether ``N`` may stand for any shape."""
        fits = {one.dims for one in self.arguments} <= _OF_ANY_SHAPE
        return fits and self.family in _ELEMENTWISE

    @property
    def is_heavy(self) -> bool:
        """Whether it is of those that backends are made for: products of whole axes."""
        return not {"Attention", "MatMul"}.isdisjoint(self.operators) or any(
            sum(dim.endswith("C") for dim in one.dims) > 1 for one in self.arguments
        )

    @property
    def width(self) -> int:
        """How many features it has unless told otherwise."""
        axes = max((len(one.dims) for one in self.arguments), default=0)
        return _WIDE if axes < _AXES_OF_PICTURES else _NARROW

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of its nodes, each once, in order."""
        return tuple(dict.fromkeys(node.op_type for node in self.with_width(1).nodes))

    @property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """Its nodes."""
        plain = _ARGUMENT.sub(lambda found: found["name"], self.text)
        steps = [step.strip() for step in plain.split(";")]
        steps[-1] = steps[-1] if _MAKES.match(steps[-1]) else f"y = {steps[-1]}"
        return tuple(map(parser.parse_node, steps))

    def with_width(self, width: int) -> "OperatorVariant":
        """Return it with so many features."""
        text, meaning = (
            _FEATURES.sub(lambda found: str(int(found[1] or 1) * width), one)
            for one in (self.text, self.meaning)
        )
        return replace(self, text=text, meaning=meaning)

    @property
    def meant(self) -> "OperatorVariant":
        """It in the words of its meaning, if that is given."""
        return replace(self, text=self.meaning or self.text, opset=USUAL_OPSET, meaning="")


@cache
def _all(file: str = "operators.txt") -> Mapping[str, tuple[OperatorVariant, ...]]:
    tables = tables_of((_HERE / file).read_text(encoding="utf-8"))
    return {family: tuple(_read(family, table)) for family, table in tables}


def tables_of(text: str) -> Iterator[tuple[str, str]]:
    """Read the tables of a file: their names in brackets, and the lines below each."""
    _, *parts = _FAMILY.split(text)
    return zip(parts[::2], map(str.strip, parts[1::2]), strict=True)


def _read(family: str, table: str) -> Iterator[OperatorVariant]:
    _, *parts = _HEAD.split(table)
    for head, body in zip(parts[::2], parts[1::2], strict=True):
        strictness, *words = head.split()
        opset = int(words.pop()[1:]) if words[-1].startswith("@") else USUAL_OPSET
        for line in _NEW_LINE.split(body.strip()):
            for one in _each_choice(" ".join(line.split())):
                text, _, meaning = one.partition(" == ")
                for element_type in words:
                    yield OperatorVariant(family, strictness, element_type, text, opset, meaning)


def _each_choice(line: str) -> Iterator[str]:
    if (found := _CHOICE.search(line)) is None:
        yield line
        return
    for word in found[0].split("|"):
        yield from _each_choice(line[: found.start()] + word.strip() + line[found.end() :])


@cache
def operations(family: str) -> tuple[OperatorVariant, ...]:
    """Return the operations of a family in their usual sizes, in the order of its table."""
    return tuple(one.with_width(one.width) for one in _all()[family])


@cache
def older_operations(family: str) -> tuple[OperatorVariant, ...]:
    """Return a family in earlier operator sets, where an operator was different then."""
    stated = (one for one in operations(family) if one.opset < USUAL_OPSET)
    return (*stated, *_all("older.txt").get(family, ()))


def probed_variants() -> Iterator[OperatorVariant]:
    """Yield the lines to offer: their ``x`` has any shape or features, each in one type.

    Those of float are first. Elementwise ones come once for each choice of operators.
    """
    known: set[object] = set()
    variants = [one for family in _all().values() for one in family]
    for variant in sorted(variants, key=lambda one: one.element_type != "float"):
        x = next((one for one in variant.arguments if one.name == "x" and not one.kind), None)
        if x is None or not ("C" in x.dims or (variant.is_elementwise and x.dims)):
            continue
        key = variant.operators if variant.is_elementwise else variant.text
        if key not in known:
            known.add(key)
            yield variant


FAMILIES: Final = tuple(_all())
