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
    ours = {id(array) for _, array in made}
    # In order of address, what overlaps something before it overlaps one of those still open.
    spans = sorted(
        ((*np.lib.array_utils.byte_bounds(one), name, one) for name, one in fed + made if one.size),
        key=lambda span: span[:2],
    )
    still: list[Any] = []
    for low, high, name, array in spans:
        still = [span for span in still if span[1] > low]
        for _, _, other, before in still:
            if not ours.isdisjoint({id(array), id(before)}) and np.shares_memory(array, before):
                first, second = (name, other) if id(array) in ours else (other, name)
                return Finding(Outcome.FAIL_ALIAS, f"{first} shares memory with {second}")
        still.append((low, high, name, array))
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
