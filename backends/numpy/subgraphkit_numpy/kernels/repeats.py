"""Filters that occur more than once among constant weights, so that each is computed once.

BLAS does not round an element alike wherever it lies in a product: some kernels add even and odd
terms up apart near its edges. Filters that are equal would then differ in the last digit, and where
sums are as large as 1e9, as in networks that were never trained, a digit decides a Softmax.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit_numpy.kernels.registry import Array

_HEAD: Final = np.sqrt([1.0, 2.0, 3.0, 5.0])
"""Factors of the first elements of a filter; in the sum of those, trained filters differ."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The equal filters of a convolution.

    Attributes:
        kept: Places of the filters to compute, as many in every group.
        places: For every filter, the place among those kept of one that equals it.
    """

    kept: npt.NDArray[np.intp]
    places: npt.NDArray[np.intp]


def find_repeats(weights: Array, groups: int = 1) -> Repeats | None:
    """Find equal filters within groups; those of zeros count as different, being exact anyway.

    Returns:
        None if all are different.
    """
    rows = weights.reshape(weights.shape[0], -1)
    heads = rows[:, : len(_HEAD)]
    sums = (heads * _HEAD[: heads.shape[1]]).sum(1)
    if len(set(sums.tolist())) == len(sums):
        return None
    by_group = _keys(rows, groups)
    firsts = [_first_places(keys) for keys in by_group]
    count = max(map(len, firsts))
    size = len(rows) // groups
    kept, places = [], []
    for group, (keys, first) in enumerate(zip(by_group, firsts, strict=True)):
        own = [group * size + place for place in first.values()]
        # all groups are multiplied at once, so all keep as many
        kept += own + own[:1] * (count - len(own))
        number = {key: group * count + place for place, key in enumerate(first)}
        places += [number[key] for key in keys]
    if len(set(places)) == len(places):
        return None
    return Repeats(np.array(kept), np.array(places))


def _first_places(keys: list[Any]) -> dict[Any, int]:
    """Return where each key occurs first, in order."""
    places: dict[Any, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, place)
    return places


def _keys(rows: Array, groups: int) -> list[list[Any]]:
    """Return what tells the filters of each group apart."""
    keys = [row.tobytes() if row.any() else place for place, row in enumerate(rows)]
    size = len(keys) // groups
    return [keys[start : start + size] for start in range(0, len(keys), size)]
