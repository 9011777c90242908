"""Boxes around things that a network has found.

Source: ONNX operator ``NonMaxSuppression``.
"""

from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

__all__: list[str] = []


@kernel("NonMaxSuppression")
def suppress(site: Site) -> Made:
    """Take the boxes of each class by score, but none that covers much of one already taken.

    Without a limit on how many are taken none is, which is the default of the operator.
    """
    is_centred = site.attribute("center_point_box", 0)

    def compute(
        boxes: Array,
        scores: Array,
        most: Array | None = None,
        overlap: Array | None = None,
        least: Array | None = None,
    ) -> Array:
        limit, threshold = int(_number(most, 0)), _number(overlap, 0.0)
        worth = _number(least, None)
        found: list[tuple[int, int, int]] = []
        corners = _corners(boxes, is_centred)
        for batch, of_classes in enumerate(scores if limit > 0 else ()):
            for of_class, row in enumerate(of_classes):
                taken = _taken(corners[batch], row, limit, threshold, worth)
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


def _taken(corners: Array, scores: Array, limit: int, threshold: Any, worth: Any) -> list[int]:
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
