"""A limit to what an operator allocates, checked before it does.

A few bytes of input may ask for petabytes of output: a shape, a number of repetitions, the end of
a range. The system would grant such a request, or kill the process when the memory is written to.
So for every operator whose output size follows from the values of its inputs, or from attributes
alone, the size is computed first and held against the limit ``max_value_bytes``, or the option
``max_output_bytes``.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Refusal, Unsupported
from subgraphkit.ir import Node
from subgraphkit.types import TensorType
from subgraphkit_numpy.kernels.registry import (
    Factory,
    Implementation,
    Known,
    Made,
    Same,
    as_kernel,
)
from subgraphkit_numpy.kernels.site import Scope, Site
from subgraphkit_numpy.kernels.sizes import GROWING, SPREADING, Sizer, Values

MISJUDGED: Final = frozenset({"DFT", "Range", "STFT", "StringConcat"})
"""Operators whose size is not in the inferred type: a huge range comes out as 0, a text of any
length is one element, and what a model says of a transform nobody checks."""

_A_TEXT: Final = 4
"""How many elements a text counts for: nothing ends a run while NumPy counts its references."""


class OutputTooLargeError(MemoryError):
    """An operator would allocate more than the limits allow."""


def output_limit(scope: Scope) -> int:
    """Return the most bytes that one output may have; 0 means no limit."""
    given = scope.options().max_output_bytes
    return scope.limits.value_bytes if given is None else given


def _check_texts(shape: Sequence[int], limit: int) -> None:
    """Refuse to make an array of too many texts: NumPy makes and frees one at a stroke.

    Raises:
        OutputTooLargeError: There would be more than the limit; 0 is none.
    """
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


def limited(domain: str, op_type: str, entry: Implementation) -> Implementation:
    """Return an entry whose kernels check the size of the output before they make it."""
    sizer = {**SPREADING, **GROWING}.get(op_type) if domain == "" else None
    return entry if sizer is None else replace(entry, factory=_guarded(entry.factory, sizer))


def _guarded(factory: Factory, sizer: Sizer) -> Factory:
    def make(site: Site) -> Made:
        made = factory(site)
        limit = output_limit(site.scope)
        if not limit or isinstance(made, Same | Known):
            return made
        if site.output_shape() is not None and site.node.op_type not in MISJUDGED:
            refusal = refused_size(site.node, limit)
            if refusal is not None:
                raise Unsupported(refusal.text, code=refusal.code)
            return made
        if site.node.op_type in SPREADING and is_covered(site):
            return made
        inner = as_kernel(made)
        return replace(inner, call=_checked(site, sizer, inner.call, limit))

    return make


def is_covered(site: Site) -> bool:
    """Say whether one input of a node surely has the shape of the output, so that nothing grows."""
    if site.node.op_type in MISJUDGED:
        return False
    shape = getattr(site.node.output_type(), "shape", None)
    if not site.scope.trusts_shapes or shape is None or None in shape:
        return False
    return any(site.node.shape(place) == shape for place in range(site.input_count))


def _checked(site: Site, sizer: Sizer, call: Callable[..., Any], limit: int) -> Callable[..., Any]:
    dtype = site.output_dtype() or site.dtype() or np.dtype(np.float64)
    count, itemsize = site.input_count, dtype.itemsize
    fixed = [site.constant(i) if i in site.absorbed else None for i in range(count)]
    places = [i for i in range(count) if i not in site.absorbed]
    passes_all = len(places) == count
    texts = site.scope.limits.max_elements if dtype.hasobject else 0

    def compute(*given: Any, **more: Any) -> Any:
        values: Values = given
        if not passes_all:
            merged = fixed.copy()
            for place, value in zip(places, given, strict=False):
                merged[place] = value
            values = merged
        shape = sizer(site, values)
        if prod(shape) * itemsize > limit:
            check_size(shape, dtype, limit)
        if texts:
            _check_texts(shape, texts)
        return call(*given, **more)

    return compute
