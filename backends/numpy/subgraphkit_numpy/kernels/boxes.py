"""Boxes around things that a network has found.

Source: ONNX operators ``NonMaxSuppression`` and ``RoiAlign``.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import PART, pad_values


@kernel("NonMaxSuppression")
def suppress(site: Site) -> Made:
    """Take the boxes of each class by score, but none that covers much of one already taken.

    Without a limit on how many are taken none is, which is the default of the operator.
    """
    is_centred = site.attribute("center_point_box", 0)

    def compute(boxes: Array, scores: Array, *limits: Array | None) -> Array:
        most, overlap, least = pad_values(limits, 3)
        limit, threshold = int(_number(most, 0)), _number(overlap, 0.0)
        worth = _number(least, None)
        found: list[tuple[int, int, int]] = []
        corners = _corners(boxes, is_centred)
        for batch, of_classes in enumerate(scores if limit > 0 else ()):
            for of_class, row in enumerate(of_classes):
                taken = _pick_boxes(corners[batch], row, limit, threshold, worth)
                found += [(batch, of_class, box) for box in taken]
        return np.array(found, np.int64).reshape(-1, 3)

    return compute


def _number(given: Array | None, default: Any) -> Any:
    return default if given is None or not given.size else given.reshape(-1)[0]


def _corners(boxes: Array, is_centred: int) -> Array:
    """Return two opposite corners of every box, the one of the lesser coordinates first."""
    if is_centred:
        half = boxes[..., 2:] / 2
        return np.concatenate((boxes[..., :2] - half, boxes[..., :2] + half), axis=-1)
    one, other = boxes[..., :2], boxes[..., 2:]
    return np.concatenate((np.minimum(one, other), np.maximum(one, other)), axis=-1)


def _pick_boxes(corners: Array, scores: Array, limit: int, threshold: Any, worth: Any) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    if worth is not None:
        order = order[scores[order] > worth]
    taken: list[int] = []
    while order.size and len(taken) < limit:
        best, order = int(order[0]), order[1:]
        taken.append(best)
        order = order[~(_overlap(corners[best], corners[order]) > threshold)]
    return taken


def _overlap(box: Array, others: Array) -> Array:
    """Return what a box shares with others, as a part of what the two cover; 0 where nothing."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.where((sides > 0).all(axis=1), sides.prod(axis=1), 0)
    own, areas = (box[2:] - box[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(axis=1)
    covered = own + areas - shared
    parts = np.zeros_like(shared)
    np.divide(shared, covered, out=parts, where=(shared > 0) & (covered > 0))
    return parts


@kernel("RoiAlign")
def align(site: Site) -> Made:
    """Average what is interpolated at points of every cell of a box, along rows, then columns.

    The largest is that of what the four elements around a point give to it.
    """
    takes_largest = site.attribute("mode", "avg") != "avg"
    cells = site.attribute("output_height", 1), site.attribute("output_width", 1)
    points, scale = site.attribute("sampling_ratio", 0), site.attribute("spatial_scale", 1.0)
    default = "half_pixel" if site.opset >= 16 else "output_half_pixel"  # noqa: PLR2004 (an opset)
    is_shifted = site.attribute("coordinate_transformation_mode", default) == "half_pixel"

    def compute(x: Array, boxes: Array, batches: Array) -> Array:
        wide = x.astype(np.float64 if x.dtype == np.float64 else np.float32, copy=False)
        ends = boxes.astype(wide.dtype) * wide.dtype.type(scale) - (0.5 if is_shifted else 0)
        y = np.zeros((len(boxes), x.shape[1], *cells), wide.dtype)
        join: Any = _join_whole if np.isfinite(wide).all() else _join_apart
        weigh: Any = _averages
        if takes_largest:
            join, weigh = _largest, _extremes
        pairs = zip(ends, batches.tolist(), strict=True) if x.size else ()
        for number, (box, batch) in enumerate(pairs):
            sizes = box[2:] - box[:2]
            sizes = sizes if is_shifted else np.maximum(sizes, 1)
            rows, columns = (
                weigh(box[1 - axis], sizes[1 - axis], cells[axis], points, x.shape[2 + axis])
                for axis in range(2)
            )
            y[number] = join(wide[batch], rows, columns)
        return y.astype(x.dtype, copy=False)

    return compute


def _join_whole(x: Array, rows: Array, columns: Array) -> Array:
    return np.asarray(np.nan_to_num(rows) @ x @ np.nan_to_num(columns).T)


def _join_apart(x: Array, rows: Array, columns: Array) -> Array:
    """Return the same cell by cell, so that a NaN or infinity stays in the cells it belongs to."""
    y = np.zeros((len(x), len(rows), len(columns)), x.dtype)
    for place in np.ndindex(y.shape[1:]):
        row, column = rows[place[0]], columns[place[1]]
        of, at = np.flatnonzero(~np.isnan(row)), np.flatnonzero(~np.isnan(column))
        y[:, *place] = row[of] @ x[:, of[:, None], at] @ column[at]
    return y


def _largest(x: Array, rows: tuple[Array, ...], columns: tuple[Array, ...]) -> Array:
    """Return the largest share that a point of a cell has of an element; 0 where it has none."""
    y = np.zeros((len(x), len(rows[0]), len(columns[0])), x.dtype)
    for place in np.ndindex(y.shape[1:]):
        (most, least, out), (wide, thin, beyond) = (
            tuple(one[at] for one in side) for side, at in zip((rows, columns), place, strict=True)
        )
        of, at = np.flatnonzero(most >= 0), np.flatnonzero(wide >= 0)
        near = x[:, of[:, None], at]
        shares = (np.outer(most[of], wide[at]), np.outer(least[of], thin[at]))
        found = [(near * share).max((1, 2), initial=-np.inf) for share in shares]
        is_some = of.size and at.size
        if is_some and not (out or beyond):
            y[:, *place] = np.maximum(*found)
        elif is_some:
            y[:, *place] = np.maximum(np.maximum(*found), 0)
    return y


def _extremes(
    start: Any, size: Any, cells: int, points: int, length: int
) -> tuple[Array, Array, Array]:
    """Return the most and least that places along an axis count in every cell, a row for each.

    The most is -1 where no point is beside. With them, whether points of a cell are outside.
    """
    most, least = np.full(cells * length, -1.0), np.full(cells * length, np.inf)
    out = np.zeros(cells, bool)
    for cell, is_near, sides in _points(start, size, cells, points, length):
        out[cell[~is_near]] = True
        for beside, share in sides:
            np.maximum.at(most, beside, share)
            np.minimum.at(least, beside, share)
    shape = cells, length
    kind = np.asarray(size).dtype
    return most.reshape(shape).astype(kind), least.reshape(shape).astype(kind), out


def _averages(start: Any, size: Any, cells: int, points: int, length: int) -> Array:
    """Return with what parts the places along an axis count in every cell, a row for each.

    Those that no point is beside are NaN, unlike those that count as 0.
    """
    found, is_beside = np.zeros(cells * length), np.zeros(cells * length, bool)
    for _, _, sides in _points(start, size, cells, points, length):
        for beside, share in sides:
            found += np.bincount(beside, share, len(found))
            is_beside[beside] = True
    found = np.where(is_beside, found / max(1, _count(size / cells, points)), np.nan)
    return found.astype(np.asarray(size).dtype).reshape(cells, length)


def _count(step: Any, points: int) -> int:
    return points if points > 0 else max(0, int(np.ceil(step)))


def _points(
    start: Any, size: Any, cells: int, points: int, length: int
) -> Iterator[tuple[Array, Array, list[tuple[Array, Array]]]]:
    """Yield points of cells: their cells, which are inside, and what two places give to each."""
    step = size / cells
    count = _count(step, points)
    for at in range(0, cells * count, PART):
        cell, point = np.divmod(np.arange(at, min(at + PART, cells * count)), count)
        place = start + cell.astype(step.dtype) * step
        place += (point.astype(step.dtype) + step.dtype.type(0.5)) * step / count
        is_near = (place >= -1) & (place <= length)
        place, first = place[is_near].clip(0, length - 1), cell[is_near] * length
        low = place.astype(np.int64)
        part = place - low
        high = np.minimum(low + 1, length - 1)
        yield cell, is_near, [(first + low, 1 - part), (first + high, part)]
