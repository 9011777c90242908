"""The process in which cases are carried out, so that one that crashes or hangs is but a finding.

``python -m subgraphkit.testing.child`` reads commands from standard input and writes answers to
standard output, one JSON document per line. Both are moved to descriptors of our own before the
backend is imported: what it prints, from Python or from C, goes to standard error.

The first line describes the subject; then ``{"list": LEVEL}`` is answered with the level's cases,
``{"run": CASE, "level": LEVEL}`` with a finding, and ``{"join": CASES, "level": LEVEL}`` with a
list of them, or with null.
"""

import json
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from subgraphkit.processes.answering_child import answering
from subgraphkit.testing.carrying import carry_out, carry_out_jointly, is_declared
from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.subject import Subject


def main() -> int:
    """Answer commands until there are no more."""
    commands = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    logging.captureWarnings(capture=True)
    warnings.simplefilter("ignore")
    with answering() as answer:
        subject = Subject(**json.loads(commands.readline()))
        levels: dict[int, Mapping[str, Case]] = {}
        for line in commands:
            answer(_answered(json.loads(line), subject, levels))
    return 0


def _answered(
    command: Mapping[str, Any], subject: Subject, levels: dict[int, Mapping[str, Case]]
) -> Any:
    level = command.get("list", command.get("level"))
    if level not in levels:
        levels[level] = cases_of_level(level, subject)
    if "list" in command:
        untried = Finding(Outcome.SKIP)
        return [
            {
                "case": case.signed(untried).to_dict(),
                "patience": case.patience,
                "joint": "" if case.joint and is_declared(case, subject) else case.joint,
            }
            for case in levels[level].values()
        ]
    if "join" in command:
        several = [levels[level][name] for name in command["join"]]
        found = carry_out_jointly(several, subject)
        return found and [finding.to_dict() for finding in found]
    return carry_out(levels[level][command["run"]], subject).to_dict()


if __name__ == "__main__":
    sys.exit(main())
