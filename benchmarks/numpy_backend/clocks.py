"""Clocks on the steps of a compiled program and on the functions of NumPy they call."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

__all__ = ["COPY", "ELEMENTWISE", "KINDS", "PRODUCT", "REST", "Clock", "Spent", "watched_numpy"]

PRODUCT, COPY, ELEMENTWISE, REST = KINDS = ("product", "copy", "elementwise", "rest")

_WATCHED: Final = {
    PRODUCT: ("matmul", "dot", "vdot", "inner", "tensordot", "einsum", "matvec", "vecmat"),
    COPY: ("copyto", "ascontiguousarray", "concatenate", "stack", "pad", "repeat", "take", "tile"),
}

Function = Callable[..., Any]


@dataclass
class Spent:
    """Seconds of one step in one run.

    Attributes:
        whole: All of them.
        parts: Of these, by kind, what watched functions took.
        shapes: Shapes of the arguments and of the result.
    """

    whole: float = 0.0
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    shapes: str = ""


class Clock:
    """Knows which step is under way, and takes the time of steps and of watched functions."""

    def __init__(self) -> None:
        self._spent: dict[Any, Spent] = defaultdict(Spent)
        self._current: Spent | None = None
        self._is_watching = False

    def observed_run(self, run: Function) -> dict[Any, Spent]:
        """Return what every step of a run took."""
        self._spent = defaultdict(Spent)
        run()
        return self._spent

    def step(self, key: Any, call: Function) -> Function:
        """Return the kernel of a step with a clock."""

        def timed(*arguments: Any, **keywords: Any) -> Any:
            spent = self._spent[key]
            outer, self._current = self._current, spent
            started = time.perf_counter()
            try:
                result = call(*arguments, **keywords)
            finally:
                spent.whole += time.perf_counter() - started
                self._current = outer
            spent.shapes = f"{_shapes(arguments)} -> {_shapes((result,))}"
            return result

        return timed

    def watch(self, kind: str, call: Function) -> "_Watched":
        """Return a function with a clock."""
        return _Watched(self, kind, call)

    def observe(self, kind: str, call: Function, arguments: Any, keywords: Any) -> Any:
        """Call a watched function; one inside another counts for the outer one."""
        if self._current is None or self._is_watching:
            return call(*arguments, **keywords)
        self._is_watching = True
        started = time.perf_counter()
        try:
            return call(*arguments, **keywords)
        finally:
            self._is_watching = False
            if self._current is not None:
                self._current.parts[kind] += time.perf_counter() - started


class _Watched:
    """A function of NumPy with a clock; everything else about it is as it was."""

    def __init__(self, clock: Clock, kind: str, call: Function) -> None:
        self._clock, self._kind, self._call = clock, kind, call

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._clock.observe(self._kind, self._call, arguments, keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


@contextmanager
def watched_numpy(clock: Clock) -> Iterator[None]:
    """Put clocks into NumPy, for kernels made and run meanwhile."""
    kept = {
        name: (kind, getattr(np, name))
        for kind, names in _WATCHED.items()
        for name in names
        if hasattr(np, name)
    }
    for name, (kind, call) in kept.items():
        setattr(np, name, clock.watch(kind, call))
    try:
        yield
    finally:
        for name, (_, call) in kept.items():
            setattr(np, name, call)


def _shapes(values: Sequence[Any]) -> str:
    flat = [
        one for value in values for one in (value if isinstance(value, tuple | list) else [value])
    ]
    arrays = [one for one in flat if isinstance(one, np.ndarray)]
    return " ".join("x".join(map(str, array.shape)) or "scalar" for array in arrays)
