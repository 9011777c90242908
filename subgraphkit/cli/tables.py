"""Tables: aligned text everywhere, and with rich where it is installed and a person is reading."""

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self, TextIO

__all__ = ["Table", "markdown_table", "plain_table", "rich_table"]

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings.

    Attributes:
        columns: The headings.
        rows: One tuple of cells per row, as many as there are columns.
        right: Headings of the columns that are aligned right.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()

    @classmethod
    def of(cls, columns: str, rows: Any, *, right: str = "") -> Self:
        """Build a table.

        Args:
            columns: The headings, separated by blanks.
            rows: Rows of anything that can be written.
            right: Headings of the columns that are aligned right, separated by blanks.
        """
        cells = tuple(tuple("" if cell is None else str(cell) for cell in row) for row in rows)
        return cls(tuple(columns.split()), cells, frozenset(right.split()))


def plain_table(table: Table, stream: TextIO | None = None) -> str:
    """Render as columns of text, with the headings in capitals."""
    del stream
    lines = [tuple(column.upper() for column in table.columns), *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]
    return "".join(_line(table, line, widths) for line in lines)


def _line(table: Table, cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [
        cell.rjust(width) if column in table.right else cell.ljust(width)
        for cell, column, width in zip(cells, table.columns, widths, strict=True)
    ]
    return _GAP.join(padded).rstrip() + "\n"


def markdown_table(table: Table) -> str:
    """Render as a table of Markdown."""
    rule = ["---:" if column in table.right else "---" for column in table.columns]
    lines = [table.columns, rule, *table.rows]
    return "\n".join(_markdown_line(one) for one in lines)


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def rich_table(table: Table, stream: TextIO) -> str:
    """Render with rich, in the width and the colours of a terminal."""
    text, styled = import_module("rich.text"), import_module("rich.table").Table(box=None)
    for column in table.columns:
        styled.add_column(
            column.upper(), justify="right" if column in table.right else "left", overflow="fold"
        )
    for row in table.rows:
        styled.add_row(*map(text.Text, row))
    buffer = io.StringIO()
    console = import_module("rich.console").Console(
        file=buffer,
        width=shutil.get_terminal_size().columns,
        force_terminal=stream.isatty(),
        highlight=False,
    )
    console.print(styled)
    return buffer.getvalue()
