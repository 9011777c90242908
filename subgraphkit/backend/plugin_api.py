"""The identity of a plugin: the version of the contract, the form of a name, the date of a class.

The version is apart from the package's own: a new major breaks plugins, a new minor adds to what
they may use. Kept in a module that imports nothing heavy, so that versions are compared before a
plugin is imported.
"""

import re
import time
from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar, Final

from subgraphkit.errors import BackendIncompatibleError

RESERVED_NAMES: Final = frozenset({"auto", "none", "default", "reference", "loopback", "process"})
"""Words that mean something in a selection, or may come to, and name no backend."""

BACKEND_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")

PLUGIN_API: Final = (1, 0)
"""Version of the contract this release provides, as (major, minor)."""

_API: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)")


def parse_api(text: str) -> tuple[int, int]:
    """Read ``"major.minor"``; ValueError for another form."""
    if (match := _API.fullmatch(text)) is None:
        raise ValueError(f"{text!r} is not a plugin API version, expected MAJOR.MINOR")
    return int(match[1]), int(match[2])


def api_text(version: tuple[int, int]) -> str:
    """Write a version as ``"major.minor"``."""
    return f"{version[0]}.{version[1]}"


def is_compatible(needed: tuple[int, int], provided: tuple[int, int] = PLUGIN_API) -> bool:
    """Say whether a plugin that uses ``needed`` works with a core that provides ``provided``."""
    return needed[0] == provided[0] and needed[1] <= provided[1]


def name_problem(name: str) -> str:
    """Say why a backend cannot have this name; an empty string if it can."""
    if BACKEND_NAME.fullmatch(name) is None:
        return "the name is not a lower-case identifier of 1 to 32 characters"
    if name in RESERVED_NAMES:
        return f"the name is reserved ({', '.join(sorted(RESERVED_NAMES))})"
    return ""


A_TRAIT: Final = "a field of Traits, as in traits = Traits({}=...)"


class ContractClass:
    """Notes when each of its subclasses was defined, which is when its module was loaded.

    A subclass with a name that left the contract, or with a misspelt one, is refused
    (BackendIncompatibleError, SGK105).
    """

    _defined_at = 0.0  # seconds since 1970
    _left: ClassVar[Mapping[str, str]] = {}
    """Names that left the contract, with their successors."""

    def __init_subclass__(cls, **words: Any) -> None:
        """Note the moment, and look at the names."""
        super().__init_subclass__(**words)
        cls._defined_at = time.time()
        refuse_names(cls, {**_misspelt(cls), **cls._left})


def refuse_names(cls: type, left: Mapping[str, str]) -> None:
    """Refuse a class with names that the contract does not have (BackendIncompatibleError, SGK105).

    ``left``: By such a name, its successor, in which ``{}`` stands for the name.
    """
    for name in sorted(left.keys() & vars(cls).keys()):
        raise BackendIncompatibleError(
            "SGK105",
            f"class {cls.__module__}.{cls.__qualname__} defines {name!r}, which is not in the "
            "contract and would never be asked",
            backend=getattr(cls, "name", "") or cls.__name__,
            hint=f"In its place: {left[name].format(name)}",
        )


def _misspelt(cls: type) -> dict[str, str]:
    """Return public methods that are, but for a letter, some that the class does not define."""
    known = {name for base in cls.__mro__[1:] for name in vars(base)}
    own = [name for name in vars(cls).keys() - known if callable(getattr(cls, name))]
    return {
        name: one
        for name, one in product(own, known - vars(cls).keys())
        if name[0] == one[0] != "_" and not name.startswith(one)
        if abs(len(name) - len(one)) <= 1 >= len({*name} ^ {*one})
    }
