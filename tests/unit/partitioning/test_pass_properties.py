"""Which nodes count as refused by a backend of several properties."""

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.selector import OpSelector
from subgraphkit.partitioning import Partitioning, partition
from tests.unit.partitioning.pass_support import (
    DescribedProperty,
    backend,
    graph_of,
    taking,
)


def properties(*operators: str) -> Backend:
    """Make a backend with one property for each list of operators."""
    made: list[SubgraphProperty] = []
    for at, listed in enumerate(operators):
        property_ = DescribedProperty(
            lambda graph, listed=listed: OpSelector(graph, listed.split())
        )  # type: ignore[misc]
        property_.name = f"p{at}"  # type: ignore[misc]
        made.append(property_)
    return backend("fake", *made)


def chain(operators: str, *backends: Backend) -> Partitioning:
    listed = operators.split()
    rows = [(operator, [f"v{at}"], [f"v{at + 1}"]) for at, operator in enumerate(listed)]
    return partition(graph_of(rows, [f"v{len(listed)}"]), [*backends, taking("*", "rest")])


def test_what_another_property_of_the_backend_took_is_not_refused_by_it() -> None:
    found = chain("Relu Neg Relu Abs Relu", properties("Relu", "Neg Abs"))
    assert "REFUSED BY" not in found.report(details=True)
    assert found.to_dict()["refusals"] == []
    # The property that refused it did so all the same.
    assert [(one.property, one.refusal.code) for one in found.refusals[1]] == [
        ("p0", "op_unsupported")
    ]


def test_a_node_that_several_properties_refuse_is_one_node() -> None:
    found = chain("Relu Neg Sin", properties("Relu", "Neg", "Relu"))
    lines = [one.split() for one in found.report(details=True).splitlines()]
    assert [one[1:2] for one in lines if one[:1] == ["fake"]] == [
        ["1"],
        ["2"],
    ]  # nodes refused; subgraphs
    listed = [(one["node"], one["property"]) for one in found.to_dict()["refusals"]]
    assert listed == [(2, "p0")]  # in the same words it is listed once
    assert [one.property for one in found.explain(2).asked[:3]] == ["p0", "p1", "p2"]
