"""Restore in one process what another has stored of a compiled subgraph.

``python -m subgraphkit.testing.restoring SUBJECT FILE`` restores the operator stored in the file,
runs it, and writes what it found as a JSON document.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.testing.subject import Stopped, Subject
from subgraphkit.testing.workbench import Workbench, workbench

__all__ = ["MODULE", "main", "restored"]

MODULE: Final = "subgraphkit.testing.restoring"
"""The name of this module, to be run in a child."""


def main(arguments: list[str]) -> int:
    """Restore, run and compare, in a process that compiled nothing of it."""
    answer = os.dup(1)
    os.dup2(2, 1)
    subject = Subject(**json.loads(arguments[0]))
    try:
        with workbench(subject) as bench:
            found = restored(bench, Path(arguments[1]).read_bytes())
            fingerprint = bench.claim.backend.fingerprint()
    except Stopped as stop:
        found, fingerprint = stop.finding, ""
    with os.fdopen(answer, "w", encoding="utf-8") as stream:
        json.dump({"finding": found.to_dict(), "fingerprint": fingerprint}, stream)
    return 0


def restored(bench: Workbench, blob: bytes) -> Finding:
    """Restore an operator and compare what it computes.

    Returns:
        ``RIGHT``, or what is wrong. A backend may refuse to restore by any exception:
        ``FAIL_CONTRACT``.
    """
    backend = bench.claim.backend
    try:
        operator: Any = backend.restore(blob, bench.subgraph, bench.claim.context)
    except Exception as error:  # noqa: BLE001 (whatever a plugin raises)
        text = f"deserialize() raised {type(error).__name__}: {error}"
        return Finding(Outcome.FAIL_CONTRACT, text)
    try:
        for seed in range(2):
            bench.with_operator(operator).check(seed, "restored")
    except Stopped as stop:
        return stop.finding
    finally:
        operator.close()
    return Finding(Outcome.RIGHT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
