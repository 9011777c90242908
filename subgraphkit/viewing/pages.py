"""One HTML page that needs nothing else, and pieces of HTML for notebooks.

Every name is text: escaped where it is written here, and where the script of the page writes it,
put in as text. The page forbids itself, by its content security policy, every script and style but
its own, and every request. The rows of tables are a block of data that a browser does not run.
"""

import json
import math
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import islice
from typing import Any, ClassVar

from subgraphkit.texts import printable
from subgraphkit.viewing.drawing import drawn, group_colours, legend, limits
from subgraphkit.viewing.sections import Cell, Drawing, Section, Table, Text, shown

_ROWS_IN_A_FRAGMENT = 20
_ROWS_WITHOUT_SCRIPT = 60


class Paged(ABC):
    """A result that one page shows whole, and a notebook in part."""

    __slots__ = ()

    in_notebook: ClassVar[int | None] = None
    """How many of the sections a notebook shows; None for all."""

    @abstractmethod
    def page_title(self) -> str:
        """Return the title of the page."""

    @abstractmethod
    def sections(self) -> Iterable[Section]:
        """Go through the sections of the page, the most important first."""

    def to_html(self) -> str:
        """Return one HTML page that needs nothing else, to be written as UTF-8."""
        return page(self.page_title(), *self.sections())

    def _repr_html_(self) -> str:
        return fragment(*islice(self.sections(), self.in_notebook))


def page(title: str, *sections: Section) -> str:
    """Return a whole page, to be written as UTF-8; it shows the same without its script, still."""
    script, style = _asset("page.js"), _asset("page.css")
    body = "".join(
        _section(section, at, _ROWS_WITHOUT_SCRIPT) for at, section in enumerate(sections)
    )
    data = json.dumps([_data(section) for section in sections], separators=(",", ":"))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(shown(title))}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{escape(shown(title))}</h1>
<div class="tools" id="tools" hidden>
<input type="search" id="search" placeholder="Search all tables" aria-label="Search all tables">
<button type="button" id="theme" aria-label="Change between light and dark">Dark</button>
</div>
</header>
<main>{body}</main>
<script type="application/json" id="data">{_inert(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def fragment(*sections: Section) -> str:
    """Return a piece of HTML without frame, script and style sheet, as a notebook shows it.

    Tables have their first 20 rows, and drawings their first picture.
    """
    return "".join(_section(section, -1, _ROWS_IN_A_FRAGMENT) for section in sections)


def _section(section: Section, at: int, most_rows: int) -> str:
    """Write a section; one of a fragment has no place, which is -1."""
    kind = type(section).__name__.lower()
    place = f' data-section="{at}"' if at >= 0 else ""
    level = "h2" if at >= 0 else "h4"  # what is around a fragment has headings of its own
    head = f"<{level}>{escape(shown(section.title))}</{level}>" if section.title else ""
    body = "".join(_body(section, most_rows, whole=at >= 0))
    return f'<section class="{kind}"{place}>{head}{body}</section>\n'


def _body(section: Section, most_rows: int, *, whole: bool) -> Iterable[str]:
    match section:
        case Text():
            return (f"<p>{escape(printable(line))}</p>" for line in section.text.splitlines())
        case Table():
            return _table(section, most_rows)
        case Drawing():
            return _drawing(section, whole=whole)


def _table(table: Table, most_rows: int) -> Iterator[str]:
    numeric = table.numeric()
    longest = [
        max((_size(row[at]) for row in table.rows), default=0.0) if name in table.bars else 0.0
        for at, name in enumerate(table.columns)
    ]
    if table.caption:
        yield f'<p class="words">{escape(printable(table.caption))}</p>'
    yield '<div class="scroll"><table><thead><tr>'
    for column, number in zip(table.columns, numeric, strict=True):
        yield f'<th scope="col"{_number(number)}>{escape(shown(column))}</th>'
    yield "</tr></thead><tbody>"
    for at, row in enumerate(table.rows[:most_rows]):
        cells = (
            f"<td{_number(number)}>{_bar(cell, most)}{escape(shown(cell))}</td>"
            for cell, number, most in zip(row, numeric, longest, strict=True)
        )
        mark = ' class="marked"' if at in table.marked else ""
        yield f"<tr{mark}>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if len(table.rows) > most_rows:
        yield f'<p class="more">{len(table.rows) - most_rows:,} more rows</p>'


def _bar(cell: Cell, longest: float) -> str:
    if not longest or not isinstance(cell, int | float):
        return ""
    return f'<meter min="0" max="{longest:.6g}" value="{_size(cell):.6g}"></meter> '


def _number(number: bool) -> str:  # noqa: FBT001 (a cell of numbers or not)
    return ' class="number"' if number else ""


def _size(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else 0.0


def _drawing(drawing: Drawing, *, whole: bool) -> Iterator[str]:
    for words in filter(None, (drawing.caption, limits(drawing) if whole else "")):
        yield f'<p class="words">{escape(printable(words))}</p>'
    yield legend(drawing)
    for at, (name, picture) in enumerate(drawn(drawing)):
        hidden = " hidden" if at else ""
        yield f'<div class="picture" data-view="{at}" data-name="{name}"{hidden}>{picture}</div>'
        if not whole:
            return


def _data(section: Section) -> Any:
    """Return what the script needs of a section: columns of a table, facts of boxes."""
    if isinstance(section, Table):
        return {
            "title": shown(section.title),
            "columns": [shown(column) for column in section.columns],
            "cells": [
                _column([row[at] for row in section.rows]) for at in range(len(section.columns))
            ],
            "bars": [at for at, name in enumerate(section.columns) if name in section.bars],
            "count": len(section.rows),
            "marked": section.marked,
            "links": section.links,
        }
    if isinstance(section, Drawing):
        return {
            "opens": shown(section.opens),
            "colours": {shown(group): one for group, one in group_colours(section).items()},
            "boxes": [
                [shown(box.key), [[shown(name), shown(value)] for name, value in box.facts]]
                for box in section.boxes
            ],
        }
    return None


def _column(cells: Sequence[Cell]) -> Any:
    """Return numbers as they are; texts once each, and which is where."""
    if not any(isinstance(cell, str) for cell in cells):
        return [
            shown(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell
            for cell in cells
        ]
    texts: dict[str, int] = {}
    places = [texts.setdefault(shown(cell), len(texts)) for cell in cells]
    return {"texts": list(texts), "places": places}


def _inert(data: str) -> str:
    """Escape what could end the block that holds the data, or begin a comment in it."""
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
