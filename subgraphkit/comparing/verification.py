"""Compare the results of two backends, for the whole model and subgraph by subgraph.

The whole tells that something is wrong. To find where, each subgraph of the backend gets the
reference's values as inputs. Its outputs are compared with the reference's. So a subgraph that
computes rightly passes here, even if others feed it wrong values.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from subgraphkit.backend.differences import Difference, compare_results, compare_values
from subgraphkit.backend.messages import warn_user
from subgraphkit.backend.tolerances import ToleranceOf, tolerances_behind
from subgraphkit.binding import BoundModel, bind
from subgraphkit.comparing.findings import SubgraphFinding, Verification
from subgraphkit.comparing.messages import meaningless
from subgraphkit.comparing.stored_values import random_feeds
from subgraphkit.errors import ExecutionError, SubgraphkitError
from subgraphkit.finding.opening import declared_tolerances
from subgraphkit.ir import BoundGraph
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.planning import Plan, Step, plan
from subgraphkit.running import Session
from subgraphkit.running.checking import read_only
from subgraphkit.running.feeds import admit_input
from subgraphkit.running.tapping import tap_groups


def verify(
    source: ModelSource | Model,
    feeds: Mapping[str, Any] | None = None,
    backend: Any = None,
    reference: Any = "numpy",
    *,
    per_subgraph: bool = False,
    tolerance: ToleranceOf | None = None,
    **settings: Any,
) -> Verification:
    """Run a model on a backend and on a reference, and compare.

    Args:
        source: The model, as for ``InferenceSession``.
        feeds: Arrays by input name; None for seeded random ones.
        backend: The backends under test, in order, as for ``SUBGRAPH_BACKEND``; None for the
            configured ones.
        reference: The backends that are believed.
        per_subgraph: Whether to find the subgraphs that are at fault. The reference runs once for
            about every GiB of values that cross between subgraphs.
        tolerance: From an element type to its tolerance. By default it is ``tolerance_for``,
            widened by declarations of the backends under test, and by the setting ``max_error`` if
            above 0.
        **settings: What else ``bind`` takes, for both: ``shapes``, ``options`` and other settings.

    Returns:
        The findings. A failure of the backend under test while running is one of them. Outputs
        that agree where this means nothing are warned about (SGK323).

    Raises:
        SubgraphkitError: An error of a step of the road, or of the reference.
    """
    tested, trusted = bind_both(source, backend, reference, inlined=per_subgraph, **settings)
    fed = random_feeds(tested) if feeds is None else feeds
    found = verify_plan(plan(tested), trusted, fed, per_subgraph=per_subgraph, tolerance=tolerance)
    nothing = {one.name: one.nothing for one in found.outputs if one.nothing}
    if nothing and found.outcome != "differs":
        warn_user(meaningless(nothing, everything=found.outcome == "means nothing"))
    return found


def bind_both(
    source: ModelSource | Model, backend: Any, reference: Any, *, inlined: bool, **settings: Any
) -> tuple[BoundModel, BoundModel]:
    """Bind a model for the backends under test and for those that are believed.

    ``inlined``: Whether the reference takes the same branches of Ifs as the backends under test. It
    then has all their values.
    """
    # Another backend in its place would hide a fault, and so would a check that ends the run.
    settings |= {"on_run_error": "raise"}
    tested = bind(source, backend=backend, **settings | {"checked": False})
    # Values computed at bind are under test as well. Values in a branch have names only in the
    # graph that has it in place of its If.
    same = tested.inlined if inlined else replace(tested.model, is_edited=True)
    apart = {"fold": False, "on_fallback": "ok", "require": {}}  # no demand is on the reference
    trusted = bind(same, backend=reference, **settings | apart)
    return tested, trusted


def verify_plan(
    tested: Plan,
    trusted: BoundModel,
    feeds: Mapping[str, Any],
    *,
    per_subgraph: bool = False,
    tolerance: ToleranceOf | None = None,
) -> Verification:
    """Do as ``verify`` with a compiled plan, which it closes, and without warnings.

    The reference is a graph that has all values of the one under test.
    """
    partitioning = tested.partitioning
    graph = partitioning.graph
    max_error = 0.0 if tolerance else graph.settings.max_error
    backends = partitioning.backends
    declared = tolerance or declared_tolerances(backends, graph.settings)

    def allowed(nodes: Iterable[int]) -> ToleranceOf:
        return tolerance or tolerances_behind(declared, graph, nodes)

    findings: list[SubgraphFinding] = []
    outputs: tuple[Difference, ...] | None = None
    error = ""
    with Session(tested) as session:
        steps = tested.steps if per_subgraph else ()
        for group in list(tap_groups(graph, steps, _boundary)) or [[]]:
            expected = reference_values(trusted, _between(graph, group), feeds)
            if outputs is None:
                results, error = _results(session, feeds)
                outputs = tuple(compare_results(results, expected, allowed(graph.order), max_error))
                del results
            values = admit_inputs(graph, feeds) | expected
            findings += map(partial(_check, expected=values, allowed=allowed), group)
    nodes = dict.fromkeys(partitioning.backends, 0)
    for subgraph in partitioning.subgraphs:
        nodes[subgraph.backend] += len(subgraph.nodes)
    return Verification(
        model=graph.name,
        backend=selection_of(graph),
        reference=selection_of(trusted),
        nodes=nodes,
        idle=tuple(n for n, count in nodes.items() if not count and n != graph.settings.fallback),
        outputs=outputs or (),
        subgraphs=tuple(findings) if per_subgraph else None,
        error=error,
    )


def selection_of(bound: BoundModel) -> str:
    """Write the backends that were selected as a selection is written."""
    return ",".join(map(str, bound.settings.backends)) or "none"


def _boundary(step: Step) -> tuple[str, ...]:
    return (*step.subgraph.inputs, *step.subgraph.outputs)


def _between(graph: BoundGraph, steps: Iterable[Step]) -> list[str]:
    """Return the values that subgraphs read and hand out, without the model's own."""
    known = {*graph.inputs, *graph.defaults, *graph.outputs}
    crossing = dict.fromkeys(name for step in steps for name in _boundary(step))
    return [name for name in crossing if name not in known]


def reference_values(
    trusted: BoundModel, inner: Sequence[str], feeds: Mapping[str, Any]
) -> dict[str, Any]:
    """Run the reference with further values of the graph as outputs; return them all, read-only."""
    names = (*dict.fromkeys(trusted.outputs), *inner)
    with Session(replace(trusted, outputs=names)) as session:
        results = session.run(None, feeds)
    return {name: read_only(value) for name, value in zip(names, results, strict=True)}


def _results(session: Session, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Run; return the outputs by name, or nothing and the error."""
    try:
        results = session.run(None, feeds)
    except ExecutionError as error:
        return {}, str(error)
    return dict(zip(session.graph.outputs, results, strict=True)), ""


def admit_inputs(graph: BoundGraph, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs as the operators get them."""
    values = {name: stored.array() for name, stored in graph.defaults.items()}
    return values | {name: admit_input(graph, name)(value) for name, value in feeds.items()}


def _check(
    step: Step, *, expected: Mapping[str, Any], allowed: Callable[[Iterable[int]], ToleranceOf]
) -> SubgraphFinding:
    """Run one operator on the reference's values and compare its results."""
    subgraph = step.subgraph
    labels = [node.label for node in subgraph.members] or [""]
    found: list[Difference] = []
    error = ""
    try:
        with step.lock:
            results = list(step.operator.run([expected[name] for name in subgraph.inputs]))
        if len(results) != len(subgraph.outputs):
            error = f"returned {len(results)} values, expected {len(subgraph.outputs)}"
        for name, value in zip(subgraph.outputs, results, strict=False):
            found += compare_values(name, value, expected[name], allowed(subgraph.nodes))
    except Exception as failure:  # noqa: BLE001 (a finding about the backend)
        is_told = isinstance(failure, SubgraphkitError)
        error = str(failure) if is_told else f"{type(failure).__name__}: {failure}"
    return SubgraphFinding(
        subgraph=subgraph.id,
        backend=subgraph.backend,
        nodes=len(subgraph.nodes),
        first=labels[0],
        last=labels[-1],
        differences=tuple(found),
        error=error,
        reads=subgraph.inputs,
        makes=subgraph.outputs,
    )
