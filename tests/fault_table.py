"""The table of faults in the documentation: which case of the kit caught each, before and now.

``python -m tests.fault_table TREE [NAME ...]`` holds every corruption, or those that are named,
against the kit of another tree, say one of an earlier commit, and writes what caught it there to
``docs/faults.csv``. What catches a fault today is not measured here: it is in the table of
faults, and a test holds it to that.

Cases of models that have none of the operators in question are left out, for they cannot tell; so
are level 4, cases between foreign nodes, most random graphs, and checks that watch a process.
"""

import csv
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = ROOT / "docs" / "faults.csv"
_LEFT_OUT: Final = "L1/keeps_", "L1/leaves_", "L2/time_", "L5/random_graphs/1", "L5/random_graphs/2"
_LEVELS: Final = (1, 2, 3, 5)
_AT_ONCE: Final = 2


def _operators(case: Any) -> set[str] | None:
    """Return the operators of the models of a case; None if it has none that can be seen."""
    run = case.run
    if not isinstance(run, partial):
        return None
    protos = [getattr(one, "proto", None) or getattr(one, "model", None) for one in run.args]
    found = [proto for proto in protos if hasattr(proto, "graph")]
    return {node.op_type for proto in found for node in proto.graph.node} if found else None


def caught(name: str, takes: set[str], cases: list[Any]) -> str:
    """Return the first case that finds fault with a corruption; empty if none does."""
    # of the tree in question, where it has this name
    carry_out = import_module("subgraphkit.testing.carrying").carry_out
    from subgraphkit.testing.subject import Subject  # noqa: PLC0415 (of the tree in question)

    subject = Subject(target=f"tests.faulty:{name}")
    for case in cases:
        operators = _operators(case)
        if operators is None or not takes.isdisjoint(operators):
            finding = carry_out(case, subject)
            if finding.is_wrong:
                return str(finding.case)
    return ""


def _cases() -> Iterator[Any]:
    from subgraphkit.testing.levels import cases_of_level  # noqa: PLC0415 (of that tree)
    from subgraphkit.testing.subject import Subject  # noqa: PLC0415 (of that tree)

    for level in _LEVELS:
        for case in cases_of_level(level, Subject("numpy")).values():
            if not case.id.startswith(_LEFT_OUT) and not case.id.endswith("/sandwiched"):
                yield case


def measure() -> None:
    """Write a line for each corruption, in a process that has the kit of the tree in question."""
    from tests.faulty.corruptions import CORRUPTIONS  # noqa: PLC0415 (of that tree)

    warnings.simplefilter("ignore")
    cases = list(_cases())
    for name in sys.argv[1:]:
        one = CORRUPTIONS[name]
        sys.stdout.write(f"{name},{caught(name, set(one.takes.split()), cases)}\n")
        sys.stdout.flush()


def main(tree: Path, names: list[str]) -> None:
    """Measure the corruptions with the kit of a tree, and write the table."""
    from tests.faulty.corruptions import CORRUPTIONS  # noqa: PLC0415 (of this tree)

    chosen = names or list(CORRUPTIONS)
    code = "from tests.fault_table import measure; measure()"
    path = os.pathsep.join([str(tree), str(ROOT)])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, *chosen[part::_AT_ONCE]],
            env={**os.environ, "PYTHONPATH": path},
            cwd=tree,
            stdout=subprocess.PIPE,
            text=True,
        )
        for part in range(_AT_ONCE)
    ]
    write(dict(line.split(",") for one in started for line in one.communicate()[0].split()))


def write(measured: Mapping[str, str]) -> None:
    """Write the table, with what was measured now and what was before."""
    from tests.faulty.corruptions import CORRUPTIONS  # noqa: PLC0415 (of this tree)

    before: dict[str, str] = {}
    if TABLE.exists():
        with TABLE.open(encoding="utf-8", newline="") as stream:
            before = {row[0]: row[2] for row in csv.reader(stream)}
    before |= {name: case or "nothing" for name, case in measured.items()}
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("backend", "what it does", "caught before by", "caught by"))
        for name, one in CORRUPTIONS.items():
            text = f"{one.text} ({one.takes.replace(' ', ', ')})"
            writer.writerow((name, text, before.get(name, "not measured"), one.case))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
