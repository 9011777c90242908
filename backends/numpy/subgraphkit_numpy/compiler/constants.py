"""Values known before anything runs: stored ones, and those computed from them at compile time."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from subgraphkit.ir import Initializer


class Constants:
    """The constants of one graph, while it is compiled.

    ``outer``: Returns those of the graph around a body, of which ``captured`` are read.

    Thread-safety: used by one thread at a time.
    """

    def __init__(
        self,
        stored: Mapping[str, Initializer],
        outer: Callable[[str], Any] | None = None,
        captured: Collection[str] = (),
    ) -> None:
        self._stored = stored
        self._outer = outer
        self._captured = frozenset(captured)
        self._known: dict[str, Any] = {}

    @property
    def element_count(self) -> int:
        """How many elements the graph stores."""
        return sum(one.type.element_count or 0 for one in self._stored.values())

    def knows(self, name: str) -> bool:
        """Say whether a value is constant."""
        return name in self._stored or name in self._known or name in self._captured

    def value(self, name: str) -> Any:
        """Return the data of a constant, read-only."""
        if name in self._known:
            return self._known[name]
        if name in self._stored:
            return self._stored[name].array()
        assert self._outer is not None  # noqa: S101 (``knows`` was asked before)
        return self._outer(name)

    def add(self, values: Mapping[str, Any]) -> None:
        """Add what was computed."""
        self._known.update((name, freeze(value)) for name, value in values.items() if name)

    def release(self) -> None:
        """Let go of what was added: the program has what it reads, and kernels theirs."""
        self._known.clear()


def freeze(value: Any) -> Any:
    """Make arrays read-only, also those in lists; return the value."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif isinstance(value, list):
        for element in value:
            freeze(element)
    return value
