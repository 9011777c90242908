"""A timeline as SVG: spans in rows over an axis of time."""

from collections.abc import Iterator
from html import escape
from math import floor, log10
from typing import Final

from subgraphkit.texts import cut_word, in_seconds
from subgraphkit.viewing.drawing import colours_of
from subgraphkit.viewing.sections import Timeline
from subgraphkit.viewing.tables import text_of

_WIDTH: Final = 1300
_ROW: Final = 26
_LETTER: Final = 6.4
_NARROWEST: Final = 0.2
_TICKS: Final = 8


def timeline(drawn: Timeline) -> str:
    """Draw the spans that can be seen, each with its name where there is room."""
    end = max((one.start + one.seconds for one in drawn.spans), default=0.0) or 1.0
    rows = 1 + max((one.row for one in drawn.spans), default=0)
    height = (rows + 1) * _ROW + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="system-ui, sans-serif" font-size="11" '
        f'fill="currentColor" role="img" aria-label="{escape(text_of(drawn.title))}">'
        f"{''.join(_axis(end, height))}{''.join(_spans(drawn, end))}</svg>"
    )


def _axis(end: float, height: int) -> Iterator[str]:
    rough = end / _TICKS
    power: float = 10.0 ** floor(log10(rough))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough)
    for at in range(int(end / step) + 1):
        x = at * step / end * (_WIDTH - 1)
        yield f'<path d="M{x:.1f} 14V{height}" stroke="currentColor" stroke-opacity=".2"/>'
        if x < _WIDTH - 4 * _LETTER:
            yield f'<text x="{x + 3:.1f}" y="12">{in_seconds(at * step) if at else 0}</text>'


def _spans(drawn: Timeline, end: float) -> Iterator[str]:
    colours = colours_of(one.group for one in drawn.spans)
    for one in drawn.spans:
        x, width = one.start / end * _WIDTH, one.seconds / end * _WIDTH
        if width < _NARROWEST:
            continue
        y, name = (one.row + 1) * _ROW - 6, text_of(one.name)
        yield (
            f"<g><title>{escape(name)}: {in_seconds(one.seconds)}</title>"
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 4}" rx="2" '
            f'fill="{colours[one.group]}" stroke="currentColor" stroke-width=".5"/>'
        )
        if (letters := int((width - 6) / _LETTER)) > 3:  # noqa: PLR2004 (of fewer nobody reads a name)
            text = escape(cut_word(name, letters))
            yield f'<text x="{x + 4:.1f}" y="{y + 15}" fill="#14181f">{text}</text>'
        yield "</g>"
