"""Groups of neighbouring boxes, so that a drawing of thousands stays one that people can read."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Final

from subgraphkit.viewing.sections import Arrow, Box, Drawing

DRAWN_AT_ONCE: Final = 120
"""Boxes of one picture; where there are more, neighbours are drawn as one."""

DRAWN_IN_ALL: Final = 4000
"""Boxes of a drawing; where there are more, only the groups are drawn."""

_GROUPS: Final = 80


@dataclass(frozen=True, slots=True)
class Item:
    """A box of the drawing, which may stand for a group of them.

    ``shares``: Of each group of boxes it stands for, the size, or how many where none has one.
    ``place``: Of a single box, its place in the drawing; -1 for a group.
    ``view``: Of a group that opens, the number of its own picture; -1 if it does not.
    """

    box: Box
    shares: tuple[tuple[str, float], ...]
    place: int = -1
    view: int = -1


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: boxes and the arrows between them, by place in ``items``."""

    items: tuple[Item, ...]
    arrows: tuple[Arrow, ...]
    name: str = ""


def pictures(drawing: Drawing) -> list[Picture]:
    """Return the pictures of a drawing, the one of the whole first.

    Groups are runs of boxes in the order given, so that no arrow between groups leads back.
    """
    boxes, arrows = drawing.boxes, drawing.arrows
    singles = [Item(box, ((box.group, 1),), at) for at, box in enumerate(boxes)]
    if len(boxes) <= DRAWN_AT_ONCE:
        return [Picture(tuple(singles), tuple(arrows))]
    opens = len(boxes) <= DRAWN_IN_ALL
    cuts = range(0, len(boxes), max(ceil(len(boxes) / _GROUPS), 2))
    runs = list(pairwise([*cuts, len(boxes)]))
    group_of = [at for at, (start, stop) in enumerate(runs) for _ in range(start, stop)]
    groups = tuple(
        _group(boxes[start:stop], start, at + 1 if opens else -1)
        for at, (start, stop) in enumerate(runs)
    )
    whole = Picture(groups, _join_arrows(arrows, group_of))
    if not opens:
        return [whole]
    return [whole, *(_inside(singles, arrows, *run) for run in runs)]


def _group(boxes: Sequence[Box], start: int, view: int) -> Item:
    counts = Counter(box.group for box in boxes)
    sizes: dict[str, float] = dict.fromkeys(sorted(counts), 0.0)
    for one in boxes:
        sizes[one.group] += one.size
    shares = tuple(sizes.items() if any(sizes.values()) else sorted(counts.items()))
    shown = counts.most_common(2)
    note = ", ".join(f"{count} {group}" for group, count in shown)
    box = Box(
        _span(start, start + len(boxes)),
        shown[0][0],
        sum(one.size for one in boxes),
        note + (", \N{HORIZONTAL ELLIPSIS}" if len(counts) > len(shown) else ""),
        marked=any(one.marked for one in boxes),
    )
    return Item(box, shares, view=view)


def _span(start: int, stop: int) -> str:
    return f"{start + 1}\N{EN DASH}{stop}"


def _join_arrows(arrows: Sequence[Arrow], home: Sequence[int]) -> tuple[Arrow, ...]:
    """Join the arrows between the same two items into one."""
    found: dict[tuple[int, int], Arrow] = {}
    for arrow in arrows:
        ends = home[arrow.source], home[arrow.target]
        if ends[0] == ends[1]:
            continue
        if (known := found.get(ends)) is None:
            found[ends] = replace(arrow, source=ends[0], target=ends[1])
        else:
            detail = f"{known.detail.removesuffix(', and more')}, and more"
            found[ends] = replace(known, bytes=known.bytes + arrow.bytes, detail=detail)
    return tuple(found.values())


def _inside(singles: Sequence[Item], arrows: Sequence[Arrow], start: int, stop: int) -> Picture:
    """Return the picture of one group, with the arrows inside of it."""
    inner = [
        replace(arrow, source=arrow.source - start, target=arrow.target - start)
        for arrow in arrows
        if start <= arrow.source and arrow.target < stop
    ]
    return Picture(tuple(singles[start:stop]), tuple(inner), _span(start, stop))
