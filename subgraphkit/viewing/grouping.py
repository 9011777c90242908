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
    """What is drawn as one box.

    Attributes:
        box: What is written in it and how large it is.
        shares: Of each group of boxes it stands for, the size, or how many where none has one.
        place: Of a single box, its place in the drawing; -1 for a group.
        view: Of a group that opens, the number of its own picture; -1 if it does not.
        outside: Whether it stands for everything before or after the picture.
    """

    box: Box
    shares: tuple[tuple[str, float], ...]
    place: int = -1
    view: int = -1
    outside: bool = False


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
    singles = [_single(box, at) for at, box in enumerate(boxes)]
    if len(boxes) <= DRAWN_AT_ONCE:
        return [Picture(tuple(singles), tuple(arrows))]
    cuts = _cuts(len(boxes), arrows)
    opens = len(boxes) <= DRAWN_IN_ALL
    runs = list(pairwise(cuts))
    group_of = [at for at, (start, stop) in enumerate(runs) for _ in range(start, stop)]
    groups = tuple(
        _group(boxes[start:stop], start, at + 1 if opens else -1)
        for at, (start, stop) in enumerate(runs)
    )
    whole = Picture(groups, _joined(arrows, group_of))
    if not opens:
        return [whole]
    return [whole, *(_inside(singles, arrows, run) for run in runs)]


def _single(box: Box, place: int) -> Item:
    return Item(box, ((box.group, 1),), place)


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


def _cuts(count: int, arrows: Sequence[Arrow]) -> list[int]:
    """Return where groups begin and end: about equal runs, cut where few arrows cross."""
    change = [0] * (count + 1)
    for arrow in arrows:
        change[arrow.source + 1] += 1
        change[arrow.target + 1] -= 1
    crossing = [0] * (count + 1)
    for at in range(1, count + 1):
        crossing[at] = crossing[at - 1] + change[at]
    step = max(ceil(count / _GROUPS), 2)
    cuts = [0]
    while count - cuts[-1] > step + step // 2:
        middle = cuts[-1] + step
        near = range(middle - step // 4, middle + step // 4 + 1)
        cuts.append(min(near, key=lambda at: (crossing[at], abs(at - middle))))
    return [*cuts, count]


def _joined(arrows: Sequence[Arrow], home: Sequence[int]) -> tuple[Arrow, ...]:
    """Join the arrows between the same two items into one."""
    found: dict[tuple[int, int], Arrow] = {}
    for arrow in arrows:
        ends = home[arrow.source], home[arrow.target]
        if ends[0] == ends[1] or min(ends) < 0:
            continue
        known = found.get(ends)
        if known is None:
            found[ends] = replace(arrow, source=ends[0], target=ends[1])
        else:
            detail = (
                known.detail if known.detail.endswith("and more") else f"{known.detail}, and more"
            )
            found[ends] = replace(known, bytes=known.bytes + arrow.bytes, detail=detail)
    return tuple(found.values())


def _inside(singles: Sequence[Item], arrows: Sequence[Arrow], run: tuple[int, int]) -> Picture:
    """Return the picture of one group, with one box for all before it and one for all after."""
    start, stop = run
    ends = (0, len(singles))
    before, after = ends[0] < start, stop < ends[1]
    home = [0 if before else -1] * start
    home += range(int(before), int(before) + stop - start)
    home += [int(before) + stop - start if after else -1] * (ends[1] - stop)
    crossing = [
        arrow for arrow in arrows if start <= arrow.source < stop or start <= arrow.target < stop
    ]
    items = [
        *([_outside(0, start)] if before else []),
        *singles[start:stop],
        *([_outside(stop, ends[1])] if after else []),
    ]
    return Picture(tuple(items), _joined(crossing, home), _span(start, stop))


def _outside(start: int, stop: int) -> Item:
    return Item(Box(_span(start, stop), ""), (), outside=True)
