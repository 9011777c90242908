"""Models in which several cases lie side by side, for backends whose compilations are dear.

The graphs lie side by side and share nothing. If all that the backend takes of them is right, each
is. If not, or if anything fails, nothing is said, and each has to be carried out alone.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx
from onnx import compose, helper

from subgraphkit.ir import Node
from subgraphkit.testing.aliasing import shared
from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.foreign import DOMAIN, beside_foreign, is_own
from subgraphkit.testing.judging import carry_out, is_declared
from subgraphkit.testing.subject import Subject, untouched

__all__ = ["Part", "carry_out_all", "carry_out_jointly", "joint_key"]

Part = tuple[onnx.ModelProto, Mapping[str, Any], Sequence[Any]]
"""A model, what to feed and what to expect."""


def joint_key(model: onnx.ModelProto) -> str:
    """Return what models must have in common to lie side by side; empty if one must be alone."""
    graph = model.graph
    stored = {tensor.name for tensor in graph.initializer}
    has_body = any(field.HasField("g") for node in graph.node for field in node.attribute)
    has_default = any(value.name in stored for value in graph.input)
    if model.functions or has_body or has_default or graph.sparse_initializer:
        return ""
    versions = sorted((entry.domain, entry.version) for entry in model.opset_import)
    return f"{versions} {model.ir_version}"


def carry_out_all(cases: Iterable[Case], subject: Subject) -> Iterator[Finding]:
    """Carry cases out in this process, jointly where they may be and nothing is wrong then."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        alone = not case.joint or is_declared(case, subject)
        groups.setdefault(case.id if alone else case.joint, []).append(case)
    for group in groups.values():
        found = carry_out_jointly(group, subject) if len(group) > 1 else None
        yield from found or [carry_out(case, subject) for case in group]


def carry_out_jointly(cases: Sequence[Case], subject: Subject) -> list[Finding] | None:
    """Carry cases out in one model, and those alone of which the backend takes nothing there.

    Args:
        cases: Cases with one ``joint``.
        subject: The backend.

    Returns:
        The findings, in order; None if something was not right.
    """
    started = time.perf_counter()
    try:
        taken = _taken_rightly([case.part() for case in cases], subject)
    except Exception:  # noqa: BLE001 (whoever is at fault for it is found alone)
        return None
    if taken is None:
        return None
    seconds = round((time.perf_counter() - started) / len(cases), 6)
    return [
        replace(case.signed(Finding(Outcome.RIGHT, taken=of_case)), seconds=seconds)
        if of_case
        else carry_out(case, subject)
        for case, of_case in zip(cases, taken, strict=True)
    ]


def _taken_rightly(parts: Sequence[Part], subject: Subject) -> list[tuple[str, ...]] | None:
    """Run models side by side; return the operators taken of each, or None if one is wrong."""
    joined, feeds, expected = _joined(parts)
    is_sandwiched = any(entry.domain == DOMAIN for entry in joined.opset_import)
    road = beside_foreign(subject.choice) if is_sandwiched else {}
    with subject.session(joined, **road) as session:
        nodes = [node for node in subject.nodes_taken(session.partitioning) if is_own(node)]
        with untouched(feeds):
            results = subject.run(session, feeds)
    if subject.difference(expected, results) or shared(feeds, results):
        return None
    taken: list[dict[str, None]] = [{} for _ in parts]
    for node in nodes:
        taken[_place(node)][node.op_type] = None
    return [tuple(of_case) for of_case in taken]


def _joined(parts: Sequence[Part]) -> Part:
    graphs: list[onnx.GraphProto] = []
    feeds: dict[str, Any] = {}
    expected: list[Any] = []
    for place, (model, fed, wanted) in enumerate(parts):
        graphs.append(compose.add_prefix(model, _prefix(place)).graph)
        feeds |= {_prefix(place) + name: value for name, value in fed.items()}
        expected += list(wanted)
    graph = helper.make_graph(
        [node for one in graphs for node in one.node],
        "side_by_side",
        [value for one in graphs for value in one.input],
        [value for one in graphs for value in one.output],
        [tensor for one in graphs for tensor in one.initializer],
        value_info=[value for one in graphs for value in one.value_info],
    )
    first = parts[0][0]
    made = helper.make_model(graph, opset_imports=first.opset_import, ir_version=first.ir_version)
    return made, feeds, expected


def _prefix(place: int) -> str:
    return f"case{place}:"


def _place(node: Node) -> int:
    name = next(filter(None, node.outputs))
    return int(name.partition(":")[0].removeprefix("case"))
