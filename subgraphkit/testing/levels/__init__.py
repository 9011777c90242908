"""The levels of the kit: one module each, with a function ``cases(subject)``.

A level's cases are the same in every process, whatever the backend does. So one process may list a
case, and another run it by its identifier.
"""

import logging
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from subgraphkit.errors import InternalError
from subgraphkit.testing.cases import LEVELS, Case, Finding, Outcome
from subgraphkit.testing.execution import carry_out, carry_out_in_one_model, is_declared
from subgraphkit.testing.subject import Subject

__all__ = ["cases_of_level"]


def cases_of_level(level: int, subject: Subject) -> Mapping[str, Case]:
    """Build the cases of a level, in order, by identifier; InternalError if two share one."""
    module = import_module(f"{__name__}.{LEVELS[level]}")
    found: dict[str, Case] = {}
    for case in module.cases(subject):
        if case.id in found:
            raise InternalError(f"two conformance cases are called {case.id!r}")
        found[case.id] = case
    return found


class CaseRunner:
    """The cases of a backend; ``described`` has the arguments of its ``Subject``."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        logging.captureWarnings(capture=True)
        warnings.simplefilter("ignore")
        self._subject = Subject(**described)
        self._levels: dict[int, Mapping[str, Case]] = {}

    def list_cases(self, level: int) -> list[dict[str, Any]]:
        """Return the cases of a level as findings that say nothing yet of how they ended."""
        untried = Finding(Outcome.SKIP)
        return [
            {
                "case": case.sign(untried).to_dict(),
                "timeout_factor": case.timeout_factor,
                "batch_key": "" if is_declared(case, self._subject) else case.batch_key,
            }
            for case in self._cases(level).values()
        ]

    def carry_out(self, level: int, name: str) -> dict[str, Any]:
        """Carry a case out."""
        return carry_out(self._cases(level)[name], self._subject).to_dict()

    def carry_out_in_one_model(
        self, level: int, names: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        """Carry cases out in one model; return None if something was not right."""
        cases = self._cases(level)
        found = carry_out_in_one_model([cases[name] for name in names], self._subject)
        return None if found is None else [finding.to_dict() for finding in found]

    def _cases(self, level: int) -> Mapping[str, Case]:
        if level not in self._levels:
            self._levels[level] = cases_of_level(level, self._subject)
        return self._levels[level]
