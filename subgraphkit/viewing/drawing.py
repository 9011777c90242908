"""A drawing as SVG: boxes coloured by group, areas by size, arrows as wide as their bytes.

All style is in attributes of the SVG, so it needs no style sheet and runs no script. Boxes keep
their colours and dark text on light and dark pages. The rest takes the colour of the text around
it.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from math import log10, sqrt
from typing import Final
from zlib import crc32

from subgraphkit.texts import cut_word, in_bytes, width_of
from subgraphkit.viewing.grouping import DRAWN_AT_ONCE, DRAWN_IN_ALL, Item, Picture, pictures
from subgraphkit.viewing.layout import Column, Extent, place
from subgraphkit.viewing.sections import Arrow, Drawing
from subgraphkit.viewing.tables import text_of

_COLOURS: Final = {
    "onednn": "#56b4e9",
    "onnxruntime": "#e69f00",
    "tensorrt": "#3fbf95",
    "openvino": "#cc79a7",
    "tvm": "#f0e442",
    "iree": "#e8825a",
    "numpy": "#bbbbbb",
}
"""After Okabe and Ito: everybody can tell them apart, and dark text is readable on each."""

_INK: Final = "#14181f"
_FEW: Final = 24
_LARGEST: Final = 26000.0
_LARGEST_OF_MANY: Final = 15000.0
_SMALLEST_SIDE: Final = 12.0
_ASPECT: Final = 2.1
_LETTER: Final = 6.7
_LINE: Final = 16.0
_LONGEST_LABEL: Final = 34
_ENOUGH: Final = 16
"""Letters for which a name is shortened rather than written beside its box."""

_MANY_ARROWS: Final = 60
"""From so many arrows on, only the one under the pointer shows its bytes."""

_Size = tuple[float, float]
_Point = tuple[float, float]
_Place = tuple[float, float, float, float]
_Path = tuple[str, _Point, _Point]


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name, in every picture the same; two names may share one."""
    return {
        name: _COLOURS.get(name) or f"hsl({crc32(name.encode(errors='replace')) % 360},55%,72%)"
        for name in sorted(set(names))
    }


def group_colours(drawing: Drawing) -> dict[str, str]:
    """Return the colours of the groups of a drawing, in the order of the legend."""
    used = {box.group for box in drawing.boxes}
    colours = drawing.colours or colours_of(used)
    return {group: colour for group, colour in colours.items() if group in used}


def legend(drawing: Drawing) -> str:
    """Return the groups with their colours, as a list of HTML."""
    entries = [
        f'<li><svg width="14" height="14" aria-hidden="true"><rect width="14" height="14" rx="3" '
        f'fill="{colour}"/></svg> {escape(text_of(group))}</li>'
        for group, colour in group_colours(drawing).items()
    ]
    return f'<ul class="legend">{"".join(entries)}</ul>'


def limits(drawing: Drawing) -> str:
    """Return a sentence on the boxes that are not drawn singly, or nothing."""
    count = len(drawing.boxes)
    if count <= DRAWN_AT_ONCE:
        return ""
    opened = "open one to see them" if count <= DRAWN_IN_ALL else "the table lists them singly"
    return (
        f"{count:,} are too many for one picture: each box stands for a run of neighbours in "
        f"running order, named by their places in it, its colours as large as their shares; "
        f"{opened}."
    )


def draw_pictures(drawing: Drawing) -> Iterator[tuple[str, str]]:
    """Go through the pictures of a drawing: the name of each, and its SVG."""
    colours = group_colours(drawing)
    for picture in pictures(drawing):
        yield picture.name, _picture(picture, colours, drawing.title)


def _picture(picture: Picture, colours: dict[str, str], title: str) -> str:
    largest = max((item.box.size for item in picture.items), default=0.0) or 1.0
    scale = (_LARGEST if len(picture.items) <= _FEW else _LARGEST_OF_MANY) / largest
    sizes = [_size(item, scale) for item in picture.items]
    extents = [_extent(item, size) for item, size in zip(picture.items, sizes, strict=True)]
    placed = place(extents, [(arrow.source, arrow.target) for arrow in picture.arrows])
    centred = zip(placed.centres, sizes, strict=True)
    boxes = [(x - size[0] / 2, y - size[1] / 2, *size) for (x, y), size in centred]
    arrows: list[str] = []
    labelled = len(picture.arrows) <= _MANY_ARROWS
    for at, (arrow, route) in enumerate(zip(picture.arrows, placed.routes, strict=True)):
        ends = boxes[arrow.source], boxes[arrow.target]
        path = _path(
            [_middle(ends[0], ends[0][3]), *route, _middle(ends[1], -4)],
            placed.columns,
            at % 4 * 5.0,
        )
        names = [picture.items[at].box.key for at in (arrow.source, arrow.target)]
        arrows += _arrow(arrow, names, path, labelled=labelled)
    boxed = zip(picture.items, boxes, strict=True)
    drawn_boxes = [part for item, box in boxed for part in _box(item, box, colours)]
    width, height = round(placed.width), round(placed.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="currentColor" role="group" aria-label="{escape(text_of(title))}">'
        f'<g stroke="currentColor" font-size="11">{"".join(arrows)}</g>{"".join(drawn_boxes)}</svg>'
    )


def _lines(item: Item, most: int = _LONGEST_LABEL) -> list[str]:
    note = text_of(item.box.note)
    note = note if width_of(note) <= most else f"{note[: most - 1]}\N{HORIZONTAL ELLIPSIS}"
    return list(filter(None, (cut_word(text_of(item.box.key), most), note))) or [""]


def _text_size(item: Item) -> _Size:
    lines = _lines(item)
    return max(map(width_of, lines)) * _LETTER + 14, len(lines) * _LINE + 8


def _letters(size: _Size) -> int:
    """Return how many letters a line has room for inside of a box."""
    return min(int((size[0] - 14) / _LETTER), _LONGEST_LABEL)


def _size(item: Item, scale: float) -> _Size:
    """Return width and height, their product in proportion to the size of the box."""
    area = max(item.box.size, 0.0) * scale
    height = max(sqrt(area / _ASPECT), _SMALLEST_SIDE)
    return max(height * _ASPECT, _SMALLEST_SIDE), height


def _fits(item: Item, size: _Size) -> bool:
    """Say whether the words go inside: whole, or shortened where most of them have room."""
    text = _text_size(item)
    enough = text[0] <= size[0] or _letters(size) >= _ENOUGH
    return enough and text[1] <= size[1]


def _extent(item: Item, size: _Size) -> Extent:
    """Return the place of a box with its words, which are right of it if they do not fit."""
    half = size[0] / 2
    if _fits(item, size):
        return Extent(half, half, size[1])
    text = _text_size(item)
    return Extent(half, half + text[0], max(size[1], text[1]))


def _middle(box: _Place, down: float) -> _Point:
    return box[0] + box[2] / 2, box[1] + down


def _path(points: Sequence[_Point], columns: Sequence[Column], aside: float) -> _Path:
    """Draw curves from point to point; to the next column along its left side, with corners.

    Returns the line, where it ends, and where its label is.
    """
    legs = [f"M{points[0][0]:.0f} {points[0][1]:.0f}"]
    middle = (len(points) - 1) // 2
    label = points[0]
    for at, ((a, b), (c, d)) in enumerate(pairwise(points)):
        if d > b:
            half = (b + d) / 2
            legs.append(f"C{a:.0f} {half:.0f} {c:.0f} {half:.0f} {c:.0f} {d:.0f}")
            here = (a + c) / 2 + 6, half + 4
        else:
            down = next(one.bottom for one in reversed(columns) if one.left <= a) + 8 + aside / 2
            side = next(one.left for one in reversed(columns) if one.left <= c) - 14 - aside
            legs.append(f"V{down:.0f}H{side:.0f}V{4 + aside:.0f}H{c:.0f}V{d:.0f}")
            here = side + 4, (down + d) / 2
        if at == middle:
            label = here
    return "".join(legs), points[-1], label


def _arrow(arrow: Arrow, names: Sequence[str], path: _Path, *, labelled: bool) -> Iterable[str]:
    width = 1 + log10(max(arrow.bytes, 1)) / 2.5
    amount = in_bytes(arrow.bytes)
    told = f"{names[0]} \N{RIGHTWARDS ARROW} {names[1]}: {amount}"
    detail = f"{told}\n{arrow.detail}" if arrow.detail else told
    said = "\n".join(map(text_of, detail.split("\n")))
    yield f'<g class="arrow"><title>{escape(said)}</title>'
    line, (x, y), label = path
    yield f'<path d="{line}" fill="none" stroke-opacity="0" stroke-width="14"/>'
    yield (
        f'<path class="line" d="{line}" fill="none" stroke-opacity=".45" '
        f'stroke-width="{width:.1f}"/>'
    )
    head = 3 + width
    yield f'<path d="M{x:.0f} {y + 4:.0f}l{-head:.1f} {-1.6 * head:.1f}h{2 * head:.1f}z"/>'
    x, y = label
    hidden = "" if labelled else ' visibility="hidden"'
    yield f'<text x="{x:.0f}" y="{y:.0f}" stroke="none"{hidden}>{amount}</text></g>'


def _box(item: Item, place_: _Place, colours: dict[str, str]) -> Iterable[str]:
    x, y, width, height = place_
    box, inside = item.box, _fits(item, (width, height))
    lines = _lines(item, _letters((width, height)) if inside else _LONGEST_LABEL)
    goal = f' data-view="{item.view}"' if item.view >= 0 else f' data-box="{item.place}"'
    opens = f'{goal} tabindex="0" role="button"'
    said = ", ".join(map(text_of, filter(None, (box.key, box.group, box.note))))
    yield f'<g class="box"{opens}><title>{escape(said)}</title>'
    if not inside:
        wide, high = width + _text_size(item)[0], max(height, _text_size(item)[1])
        top = y + (height - high) / 2
        yield _rectangle((x, top, wide, high), 'class="reach" fill="none" pointer-events="all"')
    yield from _fill_box(item, place_, colours)
    ink = f' fill="{_INK}"' if inside else ""
    left = round(x + width / 2 if inside else x + width + 6)
    anchor = ' text-anchor="middle"' if inside else ""
    top = y + height / 2 - (len(lines) - 1) * _LINE / 2 + 4
    name, *note = map(escape, lines)
    below = "".join(f'<tspan x="{left}" dy="{_LINE:.0f}">{line}</tspan>' for line in note)
    yield (
        f'<text x="{left}" y="{top:.0f}"{ink}{anchor}>'
        f'<tspan font-weight="600">{name}</tspan>{below}</text></g>'
    )


def _fill_box(item: Item, place_: _Place, colours: dict[str, str]) -> Iterable[str]:
    """Draw the box itself: one colour, or a band of each colour of a group, and the edge."""
    x, y, width, height = place_
    edge = f'class="edge" rx="4" stroke="currentColor" stroke-width="{3 if item.box.marked else 1}"'
    if len(item.shares) == 1:
        yield _rectangle(place_, f'{edge} fill="{colours[item.box.group]}"')
        return
    whole = sum(share for _, share in item.shares)
    for group, share in item.shares:
        part = width * share / whole
        yield _rectangle((x, y, part, height), f'fill="{colours[group]}"')
        x += part
    yield _rectangle(place_, f'{edge} fill="none"')


def _rectangle(place_: _Place, attributes: str) -> str:
    x, y, width, height = place_
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {attributes}/>'
