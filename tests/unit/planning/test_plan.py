"""Plans: steps in order, each value dropped after its last use."""

import pytest

import subgraphkit as sk
from subgraphkit.errors import CallerError
from tests.fakes import claiming
from tests.models import CHAIN, DIAMOND, bound


def planned(text, *backends, **symbols):
    partitioning = sk.partition(bound(text, **symbols), list(backends))
    return sk.plan(partitioning, sk.compile_subgraphs(partitioning))


def test_a_value_is_dropped_after_its_last_use():
    plan = planned(DIAMOND, claiming(["Relu", "Abs"], "a"), claiming(["Neg", "Add"], "b"))
    read: dict[str, int] = {}
    for place, step in enumerate(plan.steps):  # type: ignore[attr-defined]
        read |= dict.fromkeys((*step.subgraph.inputs, *step.subgraph.outputs), place)
    dropped = {name: i for i, step in enumerate(plan.steps) for name in step.drops}  # type: ignore[attr-defined]
    assert dropped == {name: place for name, place in read.items() if name not in {"x", "y"}}


def test_a_region_nobody_reads_from_has_no_step():
    text = "g (float[2] x) => (float[2] y) { dead = Neg(x) y = Relu(x) }"
    plan = planned(text, claiming(["Neg"], "a"), claiming(["Relu"], "b"))
    assert [step.subgraph.backend for step in plan.steps] == ["b"]  # type: ignore[attr-defined]
    assert repr(plan) == f"Plan({plan.partitioning!r})"  # type: ignore[attr-defined]


def test_operators_of_another_partitioning_are_refused():
    graph = bound(CHAIN, N=2)
    one = sk.partition(graph, [claiming(["Relu", "Neg"])])
    other = sk.partition(graph, [claiming(["Relu", "Neg"])])
    with pytest.raises(CallerError, match="another partitioning"):
        sk.plan(one, sk.compile_subgraphs(other))
