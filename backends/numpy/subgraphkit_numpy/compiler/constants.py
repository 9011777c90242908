"""Values known before anything runs: stored ones, and those computed from them at compile time."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from subgraphkit.ir import Initializer


class Folded(NamedTuple):
    """A node that was computed at compile time.

    Attributes:
        compute: Computes them again from the constants as they are now.
        sources: Names of the stored constants the result depends on.
    """

    outputs: tuple[str, ...]
    compute: Callable[[], tuple[Any, ...]]
    sources: frozenset[str]


class Constants:
    """The constants of one graph.

    Thread-safety: used by one thread at a time.
    """

    def __init__(
        self,
        stored: Mapping[str, Initializer],
        outer: "Constants | None" = None,
        captured: Collection[str] = (),
    ) -> None:
        self._stored = stored
        self._outer = outer
        self._captured = frozenset(captured)
        self._replaced: dict[str, Any] = {}
        self._folded: dict[str, Folded] = {}
        self._cache: dict[str, Any] = {}

    @property
    def element_count(self) -> int:
        """How many elements the graph stores."""
        return sum(one.type.element_count or 0 for one in self._stored.values())

    def knows(self, name: str) -> bool:
        """Say whether a value is constant."""
        return name in self._stored or name in self._folded or name in self._captured

    def value(self, name: str) -> Any:
        """Return the data of a constant, read-only; folded ones are computed when first read."""
        if name in self._replaced:
            return self._replaced[name]
        if name in self._stored:
            return self._stored[name].array()
        folded = self._folded.get(name)
        if folded is None:
            assert self._outer is not None  # noqa: S101 (``knows`` was asked before)
            return self._outer.value(name)
        if name not in self._cache:
            self._cache.update(zip(folded.outputs, folded.compute(), strict=True))
        return self._cache[name]

    def sources(self, name: str) -> frozenset[str]:
        """Return the stored constants of the main graph that a constant depends on."""
        if name in self._folded:
            return self._folded[name].sources
        if name in self._stored:
            return frozenset() if self._outer is not None else frozenset((name,))
        return self._outer.sources(name) if self._outer is not None else frozenset()

    def fold(
        self,
        outputs: tuple[str, ...],
        compute: Callable[[], tuple[Any, ...]],
        reads: Collection[str],
    ) -> None:
        """Add the outputs of a node whose inputs are constant.

        Raises:
            Exception: Whatever the kernel raises; nothing is added then.
        """
        sources = frozenset[str]().union(*(self.sources(name) for name in reads))
        values = compute()
        self._cache.update(zip(outputs, values, strict=True))
        folded = Folded(outputs, compute, sources)
        self._folded.update((name, folded) for name in outputs if name)

    def replace(self, changed: Mapping[str, Any]) -> None:
        """Take new values of stored constants and forget what was computed from the old ones."""
        for name, value in changed.items():
            self._replaced[name] = freeze(np.asarray(value).view())
        for name in [n for n in self._cache if not self.sources(n).isdisjoint(changed)]:
            del self._cache[name]

    def release(self) -> None:
        """Let go of computed values; those that are needed again are computed again."""
        self._cache.clear()


def freeze(value: Any) -> Any:
    """Make arrays read-only, also those in lists; return the value."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif isinstance(value, list):
        for element in value:
            freeze(element)
    return value
