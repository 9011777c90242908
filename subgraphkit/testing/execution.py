"""Cases carried out: one by one, or several in one model, and compared with declarations.

In one model the graphs lie side by side and share nothing, as compilations may be dear. If all that
the backend takes of them is right, each is. If not, or if anything fails, nothing is said, and each
has to be carried out alone.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx

from subgraphkit.errors import SubgraphkitError
from subgraphkit.ir import Node
from subgraphkit.running import Session
from subgraphkit.testing.cases import Case, Finding, Outcome, Stopped, breach
from subgraphkit.testing.comparison import find_shared_memory, watch_feeds
from subgraphkit.testing.foreign import DOMAIN, beside_foreign, is_own
from subgraphkit.testing.small_models import side_by_side
from subgraphkit.testing.subject import Subject

Part = tuple[onnx.ModelProto, Mapping[str, Any], Sequence[Any]]
"""A model, feeds and expected results."""


def carry_out(case: Case, subject: Subject) -> Finding:
    """Run a case to its end, with any error of the backend; ``KeyboardInterrupt`` alone passes."""
    started = time.perf_counter()
    found = case.sign(_outcome_of(case, subject))
    return replace(found, seconds=round(time.perf_counter() - started, 6))


def is_declared(case: Case, subject: Subject) -> bool:
    """Say whether the author has declared something about a case, or failed to declare anything."""
    try:
        declared = subject.declarations
    except (Exception, SystemExit):  # noqa: BLE001 (whatever a plugin raises)
        return True
    return bool(declared.skipped(case.id, case.needs) or declared.expected_failure(case.id))


def _outcome_of(case: Case, subject: Subject) -> Finding:
    # The level of static checks is about backends that cannot even be loaded.
    if not case.level:
        return _run_case(case, subject)
    try:
        declared = subject.declarations
    except SubgraphkitError as error:
        return Finding(Outcome.FAIL_PROBE, str(error))
    except Exception as error:  # noqa: BLE001 (whatever a plugin raises)
        return breach(f"conformance() raised {type(error).__name__}: {error}")
    if reason := declared.skipped(case.id, case.needs):
        return Finding(Outcome.SKIP, reason)
    found = _run_case(case, subject)
    expected = declared.expected_failure(case.id)
    return _against(expected, found) if expected else found


def _against(expected: str, found: Finding) -> Finding:
    if found.outcome in {Outcome.SKIP, Outcome.REFUSED}:
        return found
    if found.is_wrong:
        return replace(found, outcome=Outcome.XFAIL, detail=f"{expected} ({found.detail})")
    text = f"declared to go wrong ({expected}), and it did not: {found.outcome.value}"
    return replace(found, outcome=Outcome.FAIL_CONTRACT, detail=text)


def _run_case(case: Case, subject: Subject) -> Finding:
    try:
        return case.run(subject)
    except Stopped as stop:
        return stop.finding
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a plugin raises)
        return breach(f"{type(error).__name__}: {error}")


# -- in one model -------------------------------------------------------------------------------


def batch_key(model: onnx.ModelProto) -> str:
    """Return the common key of models that may lie side by side; empty if one must be alone."""
    graph = model.graph
    stored = {tensor.name for tensor in graph.initializer}
    has_body = any(field.HasField("g") for node in graph.node for field in node.attribute)
    has_default = any(value.name in stored for value in graph.input)
    if model.functions or has_body or has_default or graph.sparse_initializer:
        return ""
    versions = sorted((entry.domain, entry.version) for entry in model.opset_import)
    return f"{versions} {model.ir_version}"


def carry_out_in_one_model(cases: Sequence[Case], subject: Subject) -> list[Finding] | None:
    """Carry cases out in one model, and those alone of which the backend takes nothing there.

    Returns the findings, in order; None if something was not right.
    """
    started = time.perf_counter()
    try:
        taken = _taken_rightly([case.part() for case in cases], subject)
    except Exception:  # noqa: BLE001 (the culprit is found alone)
        return None
    if taken is None:
        return None
    seconds = round((time.perf_counter() - started) / len(cases), 6)
    return [
        replace(case.sign(Finding(Outcome.RIGHT, taken=of_case)), seconds=seconds)
        if of_case
        else carry_out(case, subject)
        for case, of_case in zip(cases, taken, strict=True)
    ]


def _taken_rightly(parts: Sequence[Part], subject: Subject) -> list[tuple[str, ...]] | None:
    """Run models side by side; return the operators taken of each, or None if one is wrong."""
    joined, feeds, expected = _join_parts(parts)
    is_sandwiched = any(entry.domain == DOMAIN for entry in joined.opset_import)
    road = beside_foreign(subject.choice) if is_sandwiched else {}
    taken: list[dict[str, None]] = [{} for _ in parts]
    nodes: list[Node] = []

    def check(session: Session) -> Finding | None:
        nodes.extend(filter(is_own, subject.nodes_taken(session.partitioning)))
        with watch_feeds(feeds):
            results = subject.run(session, feeds)
        return subject.judge.difference(expected, results) or find_shared_memory(feeds, results)

    found = subject.check(joined, check, **road)
    if found.outcome not in {Outcome.RIGHT, Outcome.UNCLAIMED}:
        return None
    for node in nodes:
        taken[_place(node)][node.op_type] = None
    return [tuple(of_case) for of_case in taken]


def _join_parts(parts: Sequence[Part]) -> Part:
    feeds: dict[str, Any] = {}
    expected: list[Any] = []
    for place, (_, fed, wanted) in enumerate(parts):
        feeds |= {f"{place}:{name}": value for name, value in fed.items()}
        expected += list(wanted)
    return side_by_side((model for model, *_ in parts), "side_by_side"), feeds, expected


def _place(node: Node) -> int:
    name = next(filter(None, node.outputs))
    return int(name.partition(":")[0])
