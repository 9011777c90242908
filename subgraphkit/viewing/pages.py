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
from subgraphkit.viewing.drawing import draw_pictures, group_colours, legend, limits
from subgraphkit.viewing.sections import Drawing, Section, Timeline
from subgraphkit.viewing.tables import Cell, Table, Text, text_of
from subgraphkit.viewing.timelines import timeline

_ROWS_IN_A_FRAGMENT = 20
_ROWS_WITHOUT_SCRIPT = 60
_WIDE = 80
_INKS = {"bar": 'fill="#6f8fb3"', "range": 'fill="#6f8fb3" stroke="#6f8fb3" stroke-width="1.5"'}


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
    sections = _scale_tables(sections)
    body = "".join(_section(one, at, _ROWS_WITHOUT_SCRIPT) for at, one in enumerate(sections))
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
<title>{escape(text_of(title))}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{escape(text_of(title))}</h1>
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
    return "".join(_section(one, -1, _ROWS_IN_A_FRAGMENT) for one in _scale_tables(sections))


def _scale_tables(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(one.scale_units() if isinstance(one, Table) else one for one in sections)


def _section(section: Section, at: int, most_rows: int) -> str:
    """Write a section; one of a fragment has no place, which is -1."""
    kind = type(section).__name__.lower()
    place = f' data-section="{at}"' if at >= 0 else ""
    level = "h2" if at >= 0 else "h4"  # the page around a fragment has its own headings
    head = f"<{level}>{escape(text_of(section.title))}</{level}>" if section.title else ""
    body = "".join(_body(section, most_rows, whole=at >= 0))
    return f'<section class="{kind}"{place}>{head}{body}</section>\n'


def _body(section: Section, most_rows: int, *, whole: bool) -> Iterable[str]:
    match section:
        case Text():
            mark = "" if section.passed is None else f' class="passed {section.passed}"'.lower()
            return (f"<p{mark}>{escape(printable(line))}</p>" for line in section.text.splitlines())
        case Timeline():
            words = f'<p class="words">{escape(section.caption)}</p>'
            return (words, f'<div class="picture">{timeline(section)}</div>')
        case Table():
            return _table(section, most_rows)
        case Drawing():
            return _drawing(section, whole=whole)


def _table(table: Table, most_rows: int) -> Iterator[str]:
    numeric = table.numeric()
    most = [_most(table, at) for at in range(len(table.columns))]
    if table.caption:
        yield f'<p class="words">{escape(printable(table.caption))}</p>'
    yield '<div class="scroll"><table><thead><tr>'
    for column, number in zip(table.columns, numeric, strict=True):
        yield f'<th scope="col"{_number(number)}>{escape(text_of(column))}</th>'
    yield "</tr></thead><tbody>"
    for at, row in enumerate(table.rows[:most_rows]):
        cells = (
            f"<td{_number(numeric[place])}>{_bar(row[place : place + 3], most[place])}"
            f"{escape(text_of(cell, most[place]))}</td>"
            for place, cell in enumerate(row)
        )
        mark = ' class="marked"' if at in table.marked else ""
        yield f"<tr{mark}>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if len(table.rows) > most_rows:
        yield f'<p class="more">{len(table.rows) - most_rows:,} more rows</p>'


def _most(table: Table, at: int) -> float:
    """Return the number that fills a bar; below 0 where a range ends there; 0 without a bar."""
    name, ends = table.columns[at], 3 if table.columns[at] in table.ranges else 1
    if name not in (*table.bars, *table.ranges):
        return 0.0
    found = max((_size(one) for row in table.rows for one in row[at : at + ends]), default=0.0)
    return found if ends == 1 else -max(found, 1.0)


def _bar(cells: Sequence[Cell], most: float) -> str:
    """Draw a bar, or a range beside a line at 1; the script of a page draws the same."""
    if not most or not isinstance(cells[0], int | float):
        return ""
    at, *ends = (f"{_WIDE * _size(one) / abs(most):.4g}" for one in cells)
    if most > 0:
        shape = f"M0 3H{at}V9H0z"
    else:
        one = f"{_WIDE / -most:.4g}"
        ends = ends if isinstance(cells[1], int | float) else [at, at]
        shape = (
            f"M{one} 0V12M{ends[0]} 3v6m0-3H{ends[1]}m0-3v6M{at} 6m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0"
        )
    kind = "bar" if most > 0 else "range"
    return (
        f'<svg class="{kind}" width="{_WIDE}" height="12"><path d="{shape}" {_INKS[kind]}/></svg> '
    )


def _number(number: bool) -> str:  # noqa: FBT001 (a cell of numbers or not)
    return ' class="number"' if number else ""


def _size(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else 0.0


def _drawing(drawing: Drawing, *, whole: bool) -> Iterator[str]:
    for words in filter(None, (drawing.caption, limits(drawing) if whole else "")):
        yield f'<p class="words">{escape(printable(words))}</p>'
    yield legend(drawing)
    for at, (name, picture) in enumerate(draw_pictures(drawing)):
        hidden = " hidden" if at else ""
        yield f'<div class="picture" data-view="{at}" data-name="{name}"{hidden}>{picture}</div>'
        if not whole:
            return


def _data(section: Section) -> Any:
    """Return the data of a section for the script: columns of a table, facts of boxes."""
    if isinstance(section, Table):
        return {
            "title": text_of(section.title),
            "columns": [text_of(column) for column in section.columns],
            "cells": [
                _column([row[at] for row in section.rows]) for at in range(len(section.columns))
            ],
            "bars": [_most(section, at) for at in range(len(section.columns))],
            "count": len(section.rows),
            "marked": section.marked,
            "links": section.links,
        }
    if isinstance(section, Drawing):
        return {
            "opens": text_of(section.opens),
            "colours": {text_of(group): one for group, one in group_colours(section).items()},
            "boxes": [
                [text_of(box.key), [[text_of(name), text_of(value)] for name, value in box.facts]]
                for box in section.boxes
            ],
        }
    return {"boxes": [], "colours": {}, "opens": ""}


def _column(cells: Sequence[Cell]) -> Any:
    """Return numbers as they are; texts once each, and which is where."""
    if not any(isinstance(cell, str) for cell in cells):
        return [
            text_of(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell
            for cell in cells
        ]
    texts: dict[str, int] = {}
    places = [texts.setdefault(text_of(cell), len(texts)) for cell in cells]
    return {"texts": list(texts), "places": places}


def _inert(data: str) -> str:
    """Escape text that could end the block of data, or begin a comment in it."""
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
