"""A limit to what an operator allocates, checked before it does.

A few bytes of input may ask for petabytes of output: a shape, a number of repetitions, the end of
a range. The system would grant such a request, or kill the process when the memory is written to.
So every kernel is wrapped here, and asks here. Where inputs or attributes decide how large an
output is, its size is computed first. It may not pass the option ``max_output_bytes``, or without
that the limit ``max_value_bytes``. Every large array is counted while it lives; together they may
not pass ``max_run_bytes``.
"""

import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Refusal, Unsupported
from subgraphkit.ir import Node
from subgraphkit.types import TensorType
from subgraphkit_numpy.kernels import registry
from subgraphkit_numpy.kernels.scope import Scope
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.sizes import SIZERS, Sizer, Values

MISJUDGED: Final = frozenset({"DFT", "Range", "STFT", "StringConcat"})
"""Operators whose size is not in the inferred type: a huge range comes out as 0, a text of any
length is one element, and what a model says of a transform nobody checks."""

WATCHED_BYTES: Final = 1 << 20
"""What is smaller is not counted: counting costs a microsecond, filling this costs a hundred."""

_A_TEXT: Final = 4
"""How many elements a text counts for: nothing ends a run while NumPy counts its references."""


class OutputTooLargeError(MemoryError):
    """An operator would allocate more than the limits allow."""


def output_limit(scope: Scope) -> int:
    """Return the most bytes that one output may have; 0 means no limit."""
    given = scope.options.max_output_bytes
    return scope.limits.value_bytes if given is None else given


def check_texts(shape: Sequence[int], limit: int) -> None:
    """Refuse more texts than the limit, as NumPy frees them at a stroke; 0 is none."""
    if limit and prod(shape) * _A_TEXT > limit and min(shape) >= 0:
        raise OutputTooLargeError(
            f"the output would be string{list(shape)}; a text counts as {_A_TEXT} elements, and "
            f"the limit is {limit:,} elements (max_elements of the setting limits; 0 lifts it)"
        )


def check_size(shape: Sequence[int], dtype: np.dtype[Any], limit: int) -> None:
    """Refuse to make an array that is too large.

    ``limit``: The most bytes it may have, or 0.

    Raises:
        OutputTooLargeError: It would have more.
    """
    asked = prod(shape) * dtype.itemsize
    if limit and asked > limit and min(shape) >= 0:
        raise OutputTooLargeError(_too_large(f"{dtype}{list(shape)}", asked, limit))


def _too_large(what: str, asked: int, limit: int) -> str:
    return (
        f"the output would be {what}, which takes {asked:,} bytes; the limit is {limit:,} bytes "
        f"(max_value_bytes of the setting limits or, for the NumPy backend alone, its option "
        f"max_output_bytes; 0 lifts it)"
    )


def refused_size(node: Node, limit: int) -> Refusal | None:
    """Return a refusal if an output is known beforehand to be too large, else None."""
    type_ = node.output_type()
    asked = type_.nbytes if isinstance(type_, TensorType) else None
    if not limit or asked is None or asked <= limit:
        return None
    return Refusal("shape", f"{node.qualified_op_type}: {_too_large(str(type_), asked, limit)}")


class Budget:
    """The bytes of large values that one run, or one bind, has made and still holds.

    Attributes:
        live: How many there are now.
    """

    def __init__(self) -> None:
        self.live = 0
        self._held: dict[int, weakref.ref[registry.Array]] = {}

    def require(self, more: int, limit: int) -> None:
        """Refuse what would exceed the limit with what is held (OutputTooLargeError)."""
        if limit and self.live + more > limit:
            raise OutputTooLargeError(
                f"the run holds {self.live:,} bytes of values and would make {more:,} more; the "
                f"limit is {limit:,} bytes (max_run_bytes of the setting limits, or max_memory)"
            )

    def take(self, value: Any, limit: int) -> None:
        """Count a result until nobody holds it, views as shown; OutputTooLargeError if too much."""
        if isinstance(value, list | tuple):
            for one in value:
                self.take(one, limit)
        elif isinstance(value, np.ndarray) and value.nbytes >= WATCHED_BYTES:
            while isinstance(value.base, np.ndarray):
                value = value.base
            # Constants are read-only, and are part of what was opened.
            if id(value) not in self._held and value.flags.writeable:
                self.require(value.nbytes, limit)
                back = partial(self._give_back, id(value), value.nbytes)
                self._held[id(value)] = weakref.ref(value, back)
                self.live += value.nbytes

    def _give_back(self, key: int, size: int, _gone: object) -> None:
        del self._held[key]
        self.live -= size


_BUDGET: Final[ContextVar[Budget | None]] = ContextVar("subgraphkit_numpy_budget", default=None)


def budget() -> Budget:
    """Return the budget of the run or the bind that calls, which has a context of its own."""
    if (found := _BUDGET.get()) is None:
        found = Budget()
        _BUDGET.set(found)
    return found


def limit_entry(op_type: str, entry: registry.Implementation) -> registry.Implementation:
    """Return an entry whose kernels ask before they make something large, and count it then."""
    sizer = SIZERS.get(op_type)

    def make(site: Site) -> registry.Made:
        made = entry.factory(site)
        limit, most = output_limit(site.scope), site.scope.limits.run_bytes
        if not (limit or most) or isinstance(made, registry.Same | registry.Known):
            return made
        if (size := _known_size(site)) is not None:
            if (refusal := refused_size(site.node, limit)) is not None:
                raise Unsupported(refusal.text, code=refusal.code)
            if size < WATCHED_BYTES:
                return made
        inner = registry.as_kernel(made)
        ask = None if sizer is None else _asking(site, sizer, limit, most)
        return replace(inner, call=_count_results(inner.call, ask, most))

    return replace(entry, factory=make)


def _known_size(site: Site) -> int | None:
    """Return how many bytes a node makes, if that is the same in every run."""
    if not site.scope.trusts_shapes or site.node.op_type in MISJUDGED:
        return None
    total = 0
    for place in (place for place, name in enumerate(site.node.outputs) if name):
        shape, dtype = site.output_shape(place), site.output_dtype(place)
        if shape is None or dtype is None:
            return None
        total += prod(shape) * dtype.itemsize
    return total


def _count_results(
    call: Callable[..., Any], ask: Callable[..., None] | None, most: int
) -> Callable[..., Any]:
    """Return a kernel that asks before, if there is something to ask, and counts what it made."""
    array = np.ndarray

    def compute(*given: Any, **more: Any) -> Any:
        if ask is not None:
            ask(*given)
        result = call(*given, **more)
        if type(result) is not array or result.nbytes >= WATCHED_BYTES:
            budget().take(result, most)
        return result

    return compute


def _asking(site: Site, sizer: Sizer, limit: int, most: int) -> Callable[..., None]:
    """Return what holds the size of an output against the limits, from the inputs."""
    dtype = site.output_dtype() or site.dtype() or np.dtype(np.float64)
    count, itemsize = site.input_count, dtype.itemsize
    fixed = {at: site.constant(at) for at in site.absorbed if at < count}
    texts = site.scope.limits.max_elements if dtype.hasobject else 0

    def ask(*given: Any) -> None:
        values: Values = given
        if fixed:
            rest = iter(given)
            values = [fixed[at] if at in fixed else next(rest, None) for at in range(count)]
        shape = sizer(site, values)
        size = prod(shape) * itemsize
        if limit and size > limit:
            check_size(shape, dtype, limit)
        if size >= WATCHED_BYTES:
            budget().require(size, most)
        if texts:
            check_texts(shape, texts)

    return ask
