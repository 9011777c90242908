"""The table of kernels: from domain and operator to kernel factories.

A *factory* looks at one node once, while it is compiled, and returns a plain callable with
everything bound: attributes, constants, choices of dtype. What runs later is that callable alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from subgraphkit_numpy.kernels.site import Site

Array = npt.NDArray[Any]
"""An array of any element type."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A callable that computes a node, and how it wants to be called.

    Attributes:
        call: Takes one positional argument per operand that was not absorbed (None where an
            optional input is left out), then one per captured value, then ``extra``. Returns the
            output, or a tuple of outputs if the node has several.
        extra: Further arguments that never change.
        takes_out: Whether ``out`` may be given, an array to be written to and returned. It may be
            any operand of the same type.
        shares: Whether BLAS must work on the calling thread alone meanwhile. Some kernels hand
            parts of their work to other threads themselves. For others, BLAS would cut a product
            for several threads, which may change its last digits.
        block: For functions of one array element by element, what computes a block of it: takes the
            block and ``out``, which may be the same.
    """

    call: Callable[..., Any]
    extra: tuple[Any, ...] = ()
    takes_out: bool = False
    shares: bool = False
    block: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Same:
    """Says that the only output of a node is one of its inputs, unchanged."""

    index: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """Says that the only output of a node is known before anything runs."""

    value: Array


Made = Kernel | Same | Known | Callable[..., Any]
"""What a factory may return; a bare ufunc counts as a kernel that takes ``out``."""

Factory = Callable[[Site], Made]
"""Makes the kernel of one node."""
_Factory = TypeVar("_Factory", bound=Factory)


@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation of an operator.

    Attributes:
        since: First opset version it is right for.
        aliases: Whether a result may share memory with an operand.
    """

    factory: Factory
    since: int = 1
    until: int = 1_000_000
    aliases: bool = False
    is_random: bool = False


_ENTRIES: dict[tuple[str, str], list[Implementation]] = {}


def kernel(*op_types: str, domain: str = "", **facts: Any) -> Callable[[_Factory], _Factory]:
    """Register the decorated factory for operators.

    ``facts``: What else an ``Implementation`` says of it.
    """

    def register(factory: _Factory) -> _Factory:
        for op_type in op_types:
            _ENTRIES.setdefault((domain, op_type), []).append(Implementation(factory, **facts))
        return factory

    return register


def find(domain: str, op_type: str, opset: int) -> Implementation | None:
    """Return the implementation of an operator at an opset version, or None."""
    for entry in _ENTRIES.get((domain, op_type), ()):
        if entry.since <= opset <= entry.until:
            return entry
    return None


def as_kernel(made: Kernel | Callable[..., Any]) -> Kernel:
    """Turn a bare callable into a kernel."""
    return made if isinstance(made, Kernel) else Kernel(made, takes_out=isinstance(made, np.ufunc))
