"""Layers, orders and places for the boxes of a drawing, so that few arrows cross.

The classical way in four steps. Layers come from the longest path. Invisible places stand where an
arrow passes a layer. Orders within layers follow the mean place of neighbours. Coordinates follow
the orders.

Source: Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures", 1981. Orders by barycentre: Gansner et al., "A technique for drawing directed graphs",
1993.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import sqrt
from typing import Any, Final

_ROUNDS: Final = 12
_GAP: Final = 28.0
_LAYER_GAP: Final = 54.0
_COLUMN_GAP: Final = 64.0
_MARGIN: Final = 26.0
_TALLEST: Final = 900.0
"""Height from which on layers are folded into columns, side by side."""

_WIDEST: Final = 1300.0
_ASPECT: Final = 1.5
_LONGEST_ROUTED: Final = 24
"""Layers an arrow may pass with a place reserved in each; a longer one is drawn straight."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The room around the point that arrows meet: to both sides, and in height."""

    left: float
    right: float
    height: float


_PASSING: Final = Extent(5.0, 5.0, 0.0)


@dataclass(frozen=True, slots=True)
class Column:
    """Layers below each other: where they begin on the left, and where they end below."""

    left: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Placed:
    """Where everything is, in pixels from the upper left.

    Attributes:
        centres: Of each box, the point that its arrows meet.
        routes: Of each arrow, the points it passes between its boxes.
        columns: The columns that the layers are folded into, from left to right; mostly one.
    """

    centres: list[tuple[float, float]]
    routes: list[list[tuple[float, float]]]
    columns: list[Column]
    width: float
    height: float


class _Grid:
    """Boxes and passing places in layers.

    Attributes:
        layers: Each layer's items in order; those that are no boxes are passing places.
    """

    def __init__(self, extents: Sequence[Extent], arrows: Sequence[tuple[int, int]]) -> None:
        self.extents = list(extents)
        self.layer_of = _layers(len(extents), arrows)
        self.layers: list[list[int]] = [[] for _ in range(max(self.layer_of, default=-1) + 1)]
        for box, layer in enumerate(self.layer_of):
            self.layers[layer].append(box)
        self.above: list[list[int]] = [[] for _ in extents]
        self.below: list[list[int]] = [[] for _ in extents]
        self.passing = [self._lay(source, target) for source, target in arrows]
        self.x = [0.0] * len(self.extents)

    def _lay(self, source: int, target: int) -> list[int]:
        """Join two boxes through a passing place in every layer between."""
        first, last = self.layer_of[source] + 1, self.layer_of[target]
        if last - first > _LONGEST_ROUTED:
            return []
        places = []
        at = source
        for layer in range(first, last):
            item = len(self.extents)
            self.extents.append(_PASSING)
            self.above.append([])
            self.below.append([])
            self.layers[layer].append(item)
            self._join(at, item)
            places.append(item)
            at = item
        self._join(at, target)
        return places

    def _join(self, upper: int, lower: int) -> None:
        self.below[upper].append(lower)
        self.above[lower].append(upper)

    def order(self) -> None:
        """Order the items within layers by the mean place of their neighbours, to and fro."""
        for turn in range(_ROUNDS):
            down = turn % 2 == 0
            self._sweep(self.above if down else self.below, down=down)

    def _sweep(self, neighbours: list[list[int]], *, down: bool) -> None:
        at: dict[int, float] = {}
        for layer in self.layers if down else reversed(self.layers):
            wanted = {item: _mean(at, neighbours[item], place) for place, item in enumerate(layer)}
            layer.sort(key=wanted.__getitem__)
            at.update((item, float(place)) for place, item in enumerate(layer))

    def settle(self) -> None:
        """Give every item a horizontal place near its neighbours, in the order of its layer."""
        for layer in self.layers:
            self._spread(layer, [0.0] * len(layer))
        for turn in range(_ROUNDS):
            neighbours = self.above if turn % 2 == 0 else self.below
            for layer in self.layers if turn % 2 == 0 else reversed(self.layers):
                means = [_mean(self.x, neighbours[item], self.x[item]) for item in layer]
                self._spread(layer, means)

    def _spread(self, layer: list[int], wanted: list[float]) -> None:
        """Place items as wanted, as far apart as they are wide.

        The mean of the places pushed rightwards and of those pushed leftwards keeps the distances
        that both keep.
        """
        apart = [self.extents[a].right + self.extents[b].left + _GAP for a, b in pairwise(layer)]
        right = list(wanted)
        for at, gap in enumerate(apart):
            right[at + 1] = max(right[at + 1], right[at] + gap)
        left = list(wanted)
        for at in range(len(apart) - 1, -1, -1):
            left[at] = min(left[at], left[at + 1] - apart[at])
        for item, one, other in zip(layer, left, right, strict=True):
            self.x[item] = (one + other) / 2


def _mean(places: Any, neighbours: Sequence[int], default: float) -> float:
    """Return the mean place of neighbours; a default if there are none."""
    return sum(places[one] for one in neighbours) / len(neighbours) if neighbours else default


def place(extents: Sequence[Extent], arrows: Sequence[tuple[int, int]]) -> Placed:
    """Place boxes in layers from top to bottom; many layers in columns from left to right."""
    if not extents:
        return Placed([], [], [], 0.0, 0.0)
    grid = _Grid(extents, arrows)
    grid.order()
    grid.settle()
    heights = [max(grid.extents[item].height for item in layer) for layer in grid.layers]
    at: dict[int, tuple[float, float]] = {}
    columns: list[Column] = []
    left = _MARGIN
    for start, stop in pairwise(_cuts(grid, heights)):
        items = [item for layer in grid.layers[start:stop] for item in layer]
        shift = left - min(grid.x[item] - grid.extents[item].left for item in items)
        top = _MARGIN
        for layer, height in zip(grid.layers[start:stop], heights[start:stop], strict=True):
            at.update((item, (grid.x[item] + shift, top + height / 2)) for item in layer)
            top += height + _LAYER_GAP
        columns.append(Column(left, top - _LAYER_GAP))
        left = max(at[item][0] + grid.extents[item].right for item in items) + _COLUMN_GAP
    return Placed(
        [at[box] for box in range(len(extents))],
        [[at[item] for item in passing] for passing in grid.passing],
        columns,
        left - _COLUMN_GAP + _MARGIN,
        max(column.bottom for column in columns) + _MARGIN,
    )


def _cuts(grid: _Grid, heights: Sequence[float]) -> list[int]:
    """Return the layers at which columns begin, and the end: a long chain is folded to be seen."""
    ends = list(accumulate(height + _LAYER_GAP for height in heights))
    extents = [(x, one) for x, one in zip(grid.x, grid.extents, strict=True)]
    width = max(x + one.right for x, one in extents) - min(x - one.left for x, one in extents)
    count = min(int(sqrt(_ASPECT * ends[-1] / width)), int(_WIDEST / (width + _COLUMN_GAP)))
    parts = range(1, count if ends[-1] > _TALLEST else 0)
    cuts = {bisect_left(ends, ends[-1] * part / count) + 1 for part in parts}
    return sorted({0, *cuts, len(heights)})


def _layers(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """Return each box's layer: below all its sources; without any, just above its targets."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in arrows:
        before[target].append(source)
        after[source].append(target)
    layer_of: list[int] = []
    for box in range(count):
        layer_of.append(max((layer_of[one] for one in before[box]), default=-1) + 1)
    for box in range(count):
        if not before[box] and after[box]:
            layer_of[box] = min(layer_of[one] for one in after[box]) - 1
    return layer_of
