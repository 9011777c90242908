"""Properties that are computed, and names of packages that are imported, when first asked for.

A package says where its names live in one table. Type checkers cannot follow it and read the
``__init__.pyi`` beside it, which ``python -m tests.house.stubs`` writes from the same table.
"""

import functools
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from typing import TypeVar

__all__ = ["cached_property", "lazy_names"]

_Value = TypeVar("_Value")


class cached_property(functools.cached_property[_Value]):  # noqa: N801 (as the one it is)
    """A property that is computed once, of which two threads that ask at once may compute two.

    That of Python 3.11 holds a lock meanwhile, one for all objects of a class. In a child forked at
    that moment it would be held for good.
    """

    def __init__(self, compute: Callable[..., _Value]) -> None:
        super().__init__(compute)
        if hasattr(self, "lock"):
            self.lock = nullcontext()


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Args:
        package: Name of the package, ``__name__``.
        homes: By public name, the module that defines it; a module that defines nothing of that
            name is itself what the name stands for.
    """
    names = sorted(homes)

    def get(name: str) -> object:
        """Import the home of a public name on first use."""
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name])
        value: object = getattr(module, name, module)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        """List the public names, imported or not."""
        return sorted({*vars(sys.modules[package]), *names})

    return get, listed, names
