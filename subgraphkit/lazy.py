"""Properties that are computed when first asked for, and a collector that waits meanwhile."""

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

_Value = TypeVar("_Value")


class cached_property(functools.cached_property[_Value]):  # noqa: N801 (as the one it is)
    """A property that is computed once; two threads that ask at once may both compute it.

    Python 3.11's own holds a lock meanwhile, one for all objects of a class. A child forked at that
    moment would never get it.
    """

    def __init__(self, compute: Callable[..., _Value]) -> None:
        super().__init__(compute)
        if hasattr(self, "lock"):
            self.lock = nullcontext()


@contextmanager
def collector_paused(*, importing: bool = False) -> Iterator[None]:
    """Switch the cyclic collector off while many lasting objects are made, and on again if it was.

    Imports spend a twentieth of their time on scans of their own new objects. A pass over a million
    nodes makes millions of lists that all last and form no cycles. Scans of them take a fifth of
    its time, and two fifths where many sets are merged. Garbage is still found, only later.

    Thread-safety: the collector is one for the process, so others do without it for as long.
    """
    was_enabled = gc.isenabled()
    if importing and was_enabled:
        gc.collect(1)  # young garbage would be taken for old, and found much later
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # Objects frozen by somebody, as servers do before they fork, would thaw with the rest.
            if importing and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()
