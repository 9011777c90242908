"""Memory that arrays share which must not, and what is in them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from subgraphkit.testing.cases import Finding, Outcome

__all__ = ["bytes_of", "shared"]


def shared(feeds: Mapping[str, Any], results: Sequence[Any]) -> Finding | None:
    """Look for memory that results share with inputs or with one another."""
    fed = [(f"input {name!r}", array) for name, value in feeds.items() for array in _arrays(value)]
    made = [
        (f"output {place}", one) for place, value in enumerate(results) for one in _arrays(value)
    ]
    every = [(place, name, one) for place, (name, one) in enumerate(fed + made) if one.size]
    spans = [(*np.lib.array_utils.byte_bounds(one), place, name, one) for place, name, one in every]
    still: list[Any] = []
    # in order of address, what overlaps anything before it overlaps one of those still open
    for span in sorted(spans, key=lambda span: span[:3]):
        still = [before for before in still if before[1] > span[0]]
        for before in still:
            first, second = sorted((before, span), key=lambda one: int(one[2]))
            if second[2] >= len(fed) and np.shares_memory(first[4], second[4]):
                text = f"{second[3]} shares memory with {first[3]}"
                return Finding(Outcome.FAIL_ALIAS, text)
        still.append(span)
    return None


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [value]
    return [array for item in value for array in _arrays(item)] if isinstance(value, list) else []


def bytes_of(value: Any) -> list[Any]:
    """Return the contents of the arrays in a value, to be compared later."""
    return [
        array.tolist() if array.dtype.hasobject else array.tobytes() for array in _arrays(value)
    ]
