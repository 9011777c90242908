"""Backends that are wrong, each in one way, and where the conformance kit must say so.

The kit is of use only if it catches them; a test of the kit goes through the table. Each is a class
of this module, under its name in the table.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from tests.faulty.choosing import CHOICES
from tests.faulty.computing import COMPUTATIONS
from tests.faulty.corruptions import CORRUPTIONS
from tests.faulty.keeping import KEPT, Stores
from tests.faulty.wrapping import Fault, WrappingBackend

__all__ = ["FAULTS", "SOUND", "Fault"]

FAULTS: Final[Mapping[str, Fault]] = {**CHOICES, **COMPUTATIONS, **KEPT, **CORRUPTIONS}
"""Every fault, by the name of the backend."""

SOUND: Final[tuple[type[WrappingBackend], ...]] = (WrappingBackend, Stores)
"""What they are made of, in which the kit must find nothing wrong."""


@cache
def __getattr__(name: str) -> type[WrappingBackend]:
    """Return the backend of a name, as if its class had been written here."""
    if name not in FAULTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return FAULTS[name].made(name, __name__)
