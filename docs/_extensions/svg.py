"""Drawings in SVG that take the colours of the page around them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from subgraphkit.viewing.layout import Extent, place

__all__ = ["Box", "Sheet", "graph"]

_INK: Final = "#14181f"
_PANEL: Final = "var(--color-background-secondary, #f4f6f9)"
_EDGE: Final = "var(--color-foreground-border, #878787)"
_FAINT: Final = "var(--color-foreground-secondary, #5a6472)"
_LETTER: Final = 8.4


@dataclass(frozen=True)
class Box:
    """A box of a graph: its lines of words, and a colour that dark writing reads on."""

    words: str
    colour: str | None = None


@dataclass
class Sheet:
    """A sheet to draw on, as large as what is on it.

    Attributes:
        parts: What is drawn, in SVG.
        width: In pixels.
        height: In pixels.
    """

    parts: list[str] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0

    def box(
        self,
        x: float,
        y: float,
        size: tuple[float, float],
        words: str = "",
        *,
        colour: str | None = None,
        bold: bool = False,
    ) -> None:
        """Draw a box with words in its middle; x and y are its upper left."""
        width, height = size
        fill = _PANEL if colour is None else colour
        edge = "currentColor" if bold else _EDGE
        self.parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="5" '
            f'fill="{fill}" stroke="{edge}" stroke-width="{2 if bold else 1}"/>'
        )
        lines = words.split("\n")
        for at, line in enumerate(lines):
            down = y + height / 2 + 4.5 + (at - (len(lines) - 1) / 2) * 17
            ink = "currentColor" if colour is None else _INK
            self.text(x + width / 2, down, line, ink=ink, bold=at == 0, anchor="middle")
        self._grow(x + width, y + height)

    def text(  # noqa: PLR0913 (a place, words, and how they look)
        self,
        x: float,
        y: float,
        words: str,
        *,
        ink: str = "currentColor",
        bold: bool = False,
        anchor: str = "start",
        small: bool = False,
    ) -> None:
        """Write words; x and y are where their line begins, or its middle."""
        looks = f' font-size="{12 if small else 13}"' + (' font-weight="600"' if bold else "")
        ink = _FAINT if small and ink == "currentColor" else ink
        self.parts.append(
            f'<text x="{x:.0f}" y="{y:.0f}" fill="{ink}" text-anchor="{anchor}"{looks}>'
            f"{escape(words)}</text>"
        )
        length = len(words) * _LETTER * (0.9 if small else 1)
        self._grow(x + (length if anchor == "start" else length / 2), y + 6)

    def arrow(self, points: Sequence[tuple[float, float]], *, wrong: bool = False) -> None:
        """Draw an arrow through points, the way to the last from above or from its side."""
        (x, y), *rest = points
        path = f"M{x:.0f} {y:.0f}"
        for right, down in rest:
            path += f"C{x:.0f} {(y + down) / 2:.0f} {right:.0f} {(y + down) / 2:.0f} "
            path += f"{right:.0f} {down:.0f}"
            x, y = right, down
        self._line(path, (x, y), wrong=wrong)

    def back(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Draw an arrow that leads back up, around the right side of what is between."""
        out = max(start[0], end[0]) + 46
        path = f"M{start[0]:.0f} {start[1]:.0f}C{out:.0f} {start[1]:.0f} {out:.0f} {end[1]:.0f} "
        self._line(f"{path}{end[0] + 6:.0f} {end[1]:.0f}", end, wrong=True, sideways=True)
        self._grow(out, start[1])

    def put(self, other: "Sheet", x: float, y: float) -> None:
        """Put another sheet on this one."""
        self.parts.append(f'<g transform="translate({x:.0f} {y:.0f})">{"".join(other.parts)}</g>')
        self._grow(x + other.width, y + other.height)

    def svg(self, picture: str, x: float, y: float) -> None:
        """Put a whole SVG on this one; it says in its head how large it is."""
        width, height = (float(size) for size in re.findall(r'"(\d+)"', picture)[:2])
        self.parts.append(picture.replace("<svg ", f'<svg x="{x:.0f}" y="{y:.0f}" ', 1))
        self._grow(x + width, y + height)

    def html(self, described: str) -> str:
        """Return the SVG; what it shows is described in words for those who do not see it."""
        width, height = round(self.width) + 8, round(self.height) + 8
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 -4 {width} {height}" role="img" '
            f'aria-label="{escape(described)}" font-family="inherit" '
            f'style="display: block; width: 100%; max-width: {width}px; height: auto; '
            f'margin: 1rem auto"><title>{escape(described)}</title>{"".join(self.parts)}</svg>'
        )

    def _line(
        self, path: str, tip: tuple[float, float], *, wrong: bool, sideways: bool = False
    ) -> None:
        ink = "#d55e00" if wrong else "currentColor"
        dashed = ' stroke-dasharray="5 4"' if wrong else ""
        head = "l8 -4.5v9z" if sideways else "l-4.5 -8h9z"
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{ink}" stroke-opacity="0.7" '
            f'stroke-width="1.6"{dashed}/><path d="M{tip[0]:.0f} {tip[1]:.0f}{head}" fill="{ink}"/>'
        )

    def _grow(self, right: float, down: float) -> None:
        self.width, self.height = max(self.width, right), max(self.height, down)


def graph(boxes: Sequence[Box], arrows: Sequence[tuple[int, int]]) -> Sheet:
    """Draw a graph in layers; an arrow to an earlier box leads back, dashed."""
    sizes = [_size(box.words) for box in boxes]
    forward = sorted({arrow for arrow in arrows if arrow[0] < arrow[1]})
    placed = place([Extent(w / 2, w / 2, h) for w, h in sizes], forward)
    sheet = Sheet()
    for (source, target), route in zip(forward, placed.routes, strict=True):
        (x, y), (a, b) = placed.centres[source], placed.centres[target]
        above, below = (x, y + sizes[source][1] / 2), (a, b - sizes[target][1] / 2)
        sheet.arrow([above, *route, (below[0], below[1] - 1)])
    for source, target in sorted({arrow for arrow in arrows if arrow[0] > arrow[1]}):
        (x, y), (a, b) = placed.centres[source], placed.centres[target]
        sheet.back((x + sizes[source][0] / 2, y), (a + sizes[target][0] / 2, b))
    for box, (x, y), size in zip(boxes, placed.centres, sizes, strict=True):
        corner = x - size[0] / 2, y - size[1] / 2
        sheet.box(*corner, size, box.words, colour=box.colour)
    return sheet


def _size(words: str) -> tuple[float, float]:
    lines = words.split("\n")
    return max(map(len, lines)) * _LETTER + 18, len(lines) * 17 + 11
