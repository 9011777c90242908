"""The levels of the kit: one module each, with a function ``cases(subject)``.

A level's cases are the same in every process, whatever the backend does: a case is asked for by its
identifier, and may be run by another process than the one that listed it.
"""

from collections.abc import Mapping
from importlib import import_module

from subgraphkit.errors import InternalError
from subgraphkit.testing.cases import LEVELS, Case
from subgraphkit.testing.subject import Subject

__all__ = ["cases_of_level"]


def cases_of_level(level: int, subject: Subject) -> Mapping[str, Case]:
    """Build the cases of a level, in order, by identifier.

    Raises:
        InternalError: Two of them have the same identifier.
    """
    module = import_module(f"{__name__}.{LEVELS[level]}")
    found: dict[str, Case] = {}
    for case in module.cases(subject):
        if case.id in found:
            raise InternalError(f"two conformance cases are called {case.id!r}")
        found[case.id] = case
    return found
