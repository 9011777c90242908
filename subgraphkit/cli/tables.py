"""Tables of a command's records for programs, as lines of text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from subgraphkit.texts import in_bytes, in_seconds
from subgraphkit.viewing.tables import Table

_COLUMN: Final = re.compile(r"([^=:]+)(?:=(\w+))?(?::(.*))?")
_UNITS: Final = {"s": in_seconds, "B": in_bytes}


def table(columns: str, rows: Iterable[Any], *, give: str = "") -> Table:
    """Build a table for lines of text of rows that are sequences, mappings or objects.

    ``columns``: ``HEAD=MEMBER:FORMAT`` each, with blanks between. Without a member that of the same
    name is shown. Numbers with a format are on the right: ``s`` is a time in seconds, ``B`` are
    bytes.
    """
    parts = [_COLUMN.fullmatch(one) for one in columns.split()]
    heads, members, formats = zip(*(one.groups() for one in parts if one), strict=True)
    right = [head for head, form in zip(heads, formats, strict=True) if form is not None]
    keys = [member or head for head, member in zip(heads, members, strict=True)]
    cells = [list(map(_in_text, _values(row, keys), formats)) for row in rows]
    return Table(heads, cells, right=right, give=give.split())


def _values(row: Any, members: Sequence[str]) -> Iterable[object]:
    if isinstance(row, Mapping):
        return map(row.get, members)
    return row if isinstance(row, Sequence) else (getattr(row, one) for one in members)


def _in_text(value: object, form: str | None) -> str:
    if form is None or isinstance(value, str):
        return "" if value is None else str(value)
    if not isinstance(value, int | float):
        return "-"
    written = _UNITS.get(form)
    return written(value) if written else format(value, form)
