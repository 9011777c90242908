"""The part of the kit that lives in a child process: it lists cases and carries them out."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.execution import carry_out, carry_out_in_one_model, is_declared
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.subject import Subject


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
                "case": case.signed(untried).to_dict(),
                "timeout_factor": case.timeout_factor,
                "batch_key": ""
                if case.batch_key and is_declared(case, self._subject)
                else case.batch_key,
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
