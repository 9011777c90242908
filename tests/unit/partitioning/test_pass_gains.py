"""What refused operators would bring a backend, and which nodes count as refused by it."""

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import OpSelector, PatternSelector
from subgraphkit.ir import Node
from subgraphkit.partitioning import Partitioning, partition
from tests.unit.partitioning.pass_support import (
    All,
    DescribedProperty,
    backend,
    graph_of,
    selecting,
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


def gained(found: Partitioning) -> dict[str, tuple[int, int]]:
    """Return, by operator, the nodes and operations that the first backend would gain."""
    return {one.operator: (one.nodes, one.flops) for one in found.quality.backends[0].gains}


def test_refused_operators_are_listed_with_their_nodes_and_operations() -> None:
    found = chain("Relu Sin Relu Sin Relu Cos", taking("Relu", "fake"))
    (sin, cos) = found.quality.backends[0].gains
    assert (sin.operator, sin.nodes, cos.operator, cos.nodes) == ("Sin", 2, "Cos", 1)
    assert sin.flops == 2 * cos.flops > 0
    share = 2 * cos.flops / found.quality.flops
    assert f"if fake took Sin: 2 nodes gained ({share:.1%} of the FLOPs)" in found.report(
        details=True
    )
    assert found.quality.backends[1].gains == ()


def test_refusals_that_are_not_about_the_operator_are_not_supposed_away() -> None:
    class Late(All):
        def select(self, node: Node) -> bool | Refusal:
            return node.id > 1 or Refusal("too_small", "by and by")

    rows = [("Exp", [f"v{at}"], [f"v{at + 1}"]) for at in range(4)]
    found = partition(graph_of(rows, ["v4"]), [selecting(lambda _: Late()), taking("*", "rest")])
    assert gained(found) == {}


def test_what_another_property_of_the_backend_took_is_not_refused_by_it() -> None:
    found = chain("Relu Neg Relu Abs Relu", properties("Relu", "Neg Abs"))
    assert "refused by" not in found.report(details=True)
    assert found.to_dict()["refusals"] == []
    assert gained(found) == {}
    # The property that refused it did so all the same.
    assert [(one.property, one.refusal.code) for one in found.refusals[1]] == [
        ("p0", "op_unsupported")
    ]


def test_a_node_that_several_properties_refuse_is_one_node() -> None:
    found = chain("Relu Neg Sin", properties("Relu", "Neg", "Relu"))
    (line,) = [
        one for one in found.report(details=True).splitlines() if "is not in the list" in one
    ]
    assert line.split()[:3] == ["fake", "1", "Sin"]
    listed = [(one["node"], one["property"]) for one in found.to_dict()["refusals"]]
    assert listed == [(2, "p0")]  # in the same words it is listed once
    assert [one.property for one in found.explain(2).asked[:3]] == ["p0", "p1", "p2"]


def test_a_pattern_is_shortened_where_another_property_was_first() -> None:
    first = DescribedProperty(lambda graph: OpSelector(graph, ["Abs"]))
    second = DescribedProperty(
        lambda graph: PatternSelector(graph, [["Relu", "Neg", "Abs"], ["Relu", "Neg"]])
    )
    found = chain("Relu Neg Abs", backend("fake", first, second))
    assert [(one.backend, one.nodes) for one in found.subgraphs] == [
        ("fake", (0, 1)),
        ("fake", (2,)),
    ]
