"""The sections of a page, as plain data: text, tables and drawings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from subgraphkit.texts import fold_text, printable
from subgraphkit.viewing.tables import Cell, Table, Text


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a drawing.

    Attributes:
        key: Its name, which is in the first column of the table it opens.
        size: What its area stands for, in any unit; 0 is drawn as a small box.
        facts: What is shown of it when it is opened.
    """

    key: str
    group: str
    size: float = 0.0
    note: str = ""
    facts: Sequence[tuple[str, Cell]] = ()
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one box to another.

    Attributes:
        source: Place of the box it leaves, in the boxes of the drawing.
        target: Place of the box it reaches; a later one.
        bytes: What goes along it.
        detail: What is shown when a pointer rests on it.
    """

    source: int
    target: int
    bytes: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes and arrows in layers; many boxes are drawn as groups that open.

    Attributes:
        boxes: The boxes, in an order in which no arrow leads back.
        caption: A sentence on the meaning of boxes, areas and arrows.
        colours: The colour of every group, in the order of the legend; if empty, those of
            ``colours_of``.
        opens: Title of the table that shows the rows of a box when it is opened, or nothing.
    """

    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    title: str = ""
    caption: str = ""
    colours: Mapping[str, str] = field(default_factory=dict)
    opens: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that takes time: the row it is drawn in, its name, group, start and seconds."""

    row: int
    name: str
    group: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Spans over an axis of time."""

    spans: Sequence[Span]
    title: str = ""
    caption: str = ""


Section = Text | Table | Drawing | Timeline


def lines_of(sections: Iterable[Section], width: int | None = None) -> list[str]:
    """Render sections as lines, with a blank one between two; drawings are left out.

    ``width``: Cells in a line, to which tables are fitted; None for lines without end.
    """
    lines: list[str] = []
    for one in sections:
        if isinstance(one, Table) and one.rows:
            lines += ["", *one.lines(width)]
        lines += [""] if isinstance(one, Text) else []
        text = one.text if isinstance(one, Text) else one.caption if isinstance(one, Table) else ""
        lines += (fold_text(printable(line), width) for line in text.splitlines())
    return lines[1:]
