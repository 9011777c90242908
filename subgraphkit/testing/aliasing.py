"""Memory that arrays share which must not, and what is in them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from subgraphkit.testing.cases import Finding, Outcome

__all__ = ["bytes_of", "shared"]


def shared(feeds: Mapping[str, Any], results: Sequence[Any]) -> Finding | None:
    """Look for memory that results share with inputs or with one another."""
    seen = [(f"input {name!r}", array) for name, value in feeds.items() for array in _arrays(value)]
    for place, value in enumerate(results):
        mine = [(f"output {place}", array) for array in _arrays(value)]
        for _, array in mine:
            for other, before in seen:
                if np.may_share_memory(array, before) and np.shares_memory(array, before):
                    text = f"output {place} shares memory with {other}"
                    return Finding(Outcome.FAIL_ALIAS, text)
        seen += mine
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
