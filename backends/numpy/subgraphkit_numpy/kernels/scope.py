"""A graph that is compiled, as kernel factories see it, and the values known before it runs."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from subgraphkit.backend import LoadLimits
from subgraphkit.ir import MOST_AT_BIND, Graph, Initializer
from subgraphkit_numpy.backend_options import Options

FOLD_EFFORT: Final = 64
"""Folding may take this much for each element that is stored, and what is not noticed."""

BodyFunction = Callable[..., tuple[Any, ...]]
"""A compiled body: takes its inputs, then captured values, and returns a tuple of outputs."""


class Scope:
    """The graph being compiled, or the body of a node of it.

    ``stored``: The constants of the graph.
    ``compile_body``: Compiles a body, given with the scope around it, to a program.

    Attributes:
        trusts_shapes: Whether types of values are those of every run. Not so in bodies, where
            a shape may change from one iteration to the next.
        names: For values that are another value unchanged, that value.
        growth: Bytes that may still be folded, in the only place: all programs of a bind share it.
        effort: Effort that may still be made, bodies included.
        shares: Whether BLAS must work on the calling thread alone because of a body.
        captures: Values from around a body that are not constant there.

    Thread-safety: used by one thread at a time.
    """

    def __init__(
        self,
        graph: Graph,
        stored: Mapping[str, Initializer],
        options: Options,
        compile_body: Callable[[Graph, "Scope"], Any],
        limits: LoadLimits,
        growth: list[int],
    ) -> None:
        self.graph, self.options = graph, options
        self.limits, self.growth = limits, growth
        count = sum(one.type.element_count or 0 for one in stored.values())
        self.effort = [MOST_AT_BIND + FOLD_EFFORT * count]
        self.trusts_shapes, self.shares = True, False
        self.names: dict[str, str] = {}
        self.captures: tuple[str, ...] = ()
        self._compile_body = compile_body
        self._stored = stored
        self._known: dict[str, Any] = {}
        self._outer: Mapping[str, Scope] = {}

    def inside(self, body: Graph) -> "Scope":
        """Return the scope of a body, which shares the limits."""
        stored = {**body.constants, **body.defaults}
        made = Scope(body, stored, self.options, self._compile_body, self.limits, self.growth)
        made.trusts_shapes, made.effort = False, self.effort
        made._outer = {name: self for name in body.captures if self.knows(name)}
        made.captures = tuple(name for name in body.captures if not self.knows(name))
        return made

    def resolve(self, name: str) -> str:
        """Return the value in the place of ``name``."""
        return self.names.get(name, name)

    def knows(self, name: str) -> bool:
        """Say whether a value is constant."""
        found = self.resolve(name)
        return found in self._known or found in self._stored or found in self._outer

    def value(self, name: str) -> Any:
        """Return the data of a constant, read-only."""
        found = self.resolve(name)
        if found in self._known:
            return self._known[found]
        if found in self._stored:
            return self._stored[found].array()
        return self._outer[found].value(found)

    def add(self, values: Mapping[str, Any]) -> None:
        """Add constants that were computed."""
        self._known.update((name, _freeze(value)) for name, value in values.items() if name)

    def release(self) -> None:
        """Let go of what was added: the program has what it reads, and kernels theirs."""
        self._known.clear()

    def compile_body(self, body: Graph) -> tuple[BodyFunction, tuple[str, ...]]:
        """Compile a body; also return the captured values it takes after its inputs, by name."""
        program = self._compile_body(body, self)
        self.shares = self.shares or program.shares
        return program.inner, program.captures


def _freeze(value: Any) -> Any:
    """Make arrays read-only, also those in lists; return the value."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif isinstance(value, list):
        for element in value:
            _freeze(element)
    return value
