"""Text and tables, as plain data for pages and for lines."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final, Self

from subgraphkit.texts import aligned, printable

Cell = str | int | float | None
"""The content of a cell: text, a number to sort by, or nothing."""

_LONGEST: Final = 300
_WHOLE: Final = 1000
_UNITS: Final = {
    "MFLOPs": {1e3: "GFLOPs", 1: "MFLOPs", 1e-3: "kFLOPs", 1e-6: "FLOPs"},
    "ms": {1e3: "s", 1: "ms", 1e-3: "us"},
}


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; ``passed`` marks it as good or bad news."""

    text: str
    title: str = ""
    passed: bool | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings: in a page, where a reader sorts and filters them, or as lines of text.

    Attributes:
        columns: The heads of the columns, with the unit where the numbers have one.
        rows: As many cells each as there are columns.
        title: The heading above; also how a drawing names the table that its boxes open.
        caption: A sentence on the rows, or nothing.
        bars: The columns of numbers that show a bar, the largest number over the whole width.
        ranges: The columns of ratios whose range, from the next column to the one after it, a page
            draws beside a line at 1.
        right: The columns that are aligned on the right in lines of text, beside those of numbers.
        marked: The places of rows to be marked, such as the chosen one.
        links: For each row, the rows whose results it reads. They are drawn as nodes inside a box
            of the drawing that opens this table.
        give: The columns that give way if a line has little room, first to last. If empty, all that
            are not in ``right``, from the last to the first.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    caption: str = ""
    bars: Sequence[str] = ()
    ranges: Sequence[str] = ()
    right: Sequence[str] = ()
    give: Sequence[str] = ()
    marked: Sequence[int] = ()
    links: Sequence[Sequence[int]] = ()

    def lines(self, width: int | None = None) -> list[str]:
        """Render as lines, the headings in capitals.

        ``width``: Cells in a line; None for lines without end.
        """
        place = list(self.columns).index
        heads = [column.upper() for column in self.columns]
        rows = [[one if isinstance(one, str) else text_of(one) for one in row] for row in self.rows]
        give = map(place, self.give) if self.give else None
        right = [at for at, number in enumerate(self.numeric()) if number]
        return aligned([heads, *rows], [*right, *map(place, self.right)], width=width, give=give)

    def drop_empty(self) -> Self:
        """Return the table without the columns that nothing is in, but for the first."""
        wanted = [not at or any(row[at] not in {None, ""} for row in self.rows)
                  for at in range(len(self.columns))]  # fmt: skip
        rows = [tuple(compress(row, wanted)) for row in self.rows]
        return replace(self, columns=list(compress(self.columns, wanted)), rows=rows)

    def scale_units(self) -> Self:
        """Return the table with FLOPs and times in a unit that suits the largest."""
        heads, cells = list(self.columns), list(zip(*self.rows, strict=True))
        for unit, powers in _UNITS.items():
            ours = [at for at, column in enumerate(cells) if heads[at].endswith(unit)]
            sizes = [one for at in ours for one in cells[at] if isinstance(one, int | float)]
            power = next((one for one in powers if max(sizes, default=1) >= one), min(powers))
            for at in ours:
                heads[at] = heads[at].removesuffix(unit) + powers[power]
                cells[at] = tuple(c / power if isinstance(c, int | float) else c for c in cells[at])
        names = dict(zip(self.columns, heads, strict=True))
        bars = [names.get(one, one) for one in self.bars]
        return replace(self, columns=heads, rows=list(zip(*cells, strict=True)), bars=bars)

    def numeric(self) -> list[bool]:
        """Say of each column whether it is one of numbers."""
        return [
            any(isinstance(row[at], int | float) for row in self.rows)
            and not any(isinstance(row[at], str) for row in self.rows)
            for at in range(len(self.columns))
        ]


def text_of(cell: Cell, most: float = 0.0) -> str:
    """Write a cell for people, a name of a model without codes that a browser would obey.

    ``most``: The largest number of the column, if all of it have the same number of decimals.

    Control characters, marks that turn the direction of writing, and halves of characters become
    escapes. Text longer than 300 characters ends with how long it is.
    """
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float) and most and math.isfinite(cell):
        return f"{cell:,.{max(0, 4 - math.floor(math.log10(abs(most))))}f}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if math.isfinite(cell) and abs(cell) >= _WHOLE else f"{cell:.4g}"
    if len(cell) > _LONGEST:
        return f"{printable(cell[:_LONGEST])}\N{HORIZONTAL ELLIPSIS} ({len(cell):,} characters)"
    return printable(cell)
