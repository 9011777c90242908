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
from typing import IO, Any

from subgraphkit.testing.carrying import carry_out, carry_out_jointly, is_declared
from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.levels import cases_of_level
from subgraphkit.testing.subject import Subject

__all__ = ["main"]


def main() -> int:
    """Answer commands until there are no more.

    Returns:
        The exit status.
    """
    commands, answers = _own_streams()
    logging.captureWarnings(capture=True)
    warnings.simplefilter("ignore")
    subject = Subject(**json.loads(commands.readline()))
    levels: dict[int, Mapping[str, Case]] = {}
    for line in commands:
        command = json.loads(line)
        answer = _answered(command, subject, levels)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


def _own_streams() -> tuple[IO[str], IO[str]]:
    commands, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return (
        os.fdopen(commands, encoding="utf-8"),
        os.fdopen(answers, "w", encoding="utf-8", errors="backslashreplace"),
    )


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
