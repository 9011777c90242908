"""Tables of a command: rows of text under headings, for people and in Markdown."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from subgraphkit.texts import aligned


class Table(NamedTuple):
    """Rows of text under headings.

    Attributes:
        rows: One tuple of cells per row, as many as there are columns.
        give: Headings of the columns that give way where there is little room, first to last; if
            empty, all that are not aligned right, from the last to the first.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()
    give: tuple[str, ...] = ()

    @classmethod
    def of(cls, columns: str, rows: Any, *, right: str = "", give: str = "") -> Self:
        """Build a table."""
        cells = tuple(tuple("" if cell is None else str(cell) for cell in row) for row in rows)
        return cls(tuple(columns.split()), cells, frozenset(right.split()), tuple(give.split()))

    def lines(self, width: int | None = None) -> list[str]:
        """Render as lines, the headings in capitals.

        ``width``: Cells in a line; None for lines without end.
        """
        place = self.columns.index
        rows = [tuple(column.upper() for column in self.columns), *self.rows]
        give = map(place, self.give) if self.give else None
        return aligned(rows, map(place, self.right), width=width, give=give)


def markdown_table(table: Table) -> str:
    """Render as a table of Markdown."""
    rule = ["---:" if column in table.right else "---" for column in table.columns]
    lines = [table.columns, rule, *table.rows]
    return "\n".join(_markdown_line(one) for one in lines)


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
