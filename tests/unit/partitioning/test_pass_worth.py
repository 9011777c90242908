"""What refused operators would be worth, and which nodes count as refused by a backend."""

import pytest

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import OpSelector, PatternSelector
from subgraphkit.ir import Node
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.partitioning.reports import worth
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


@pytest.mark.parametrize(("connectivity", "saved"), [("any", 1), ("connected", 2)])
def test_the_worth_of_an_operator_is_counted_by_the_propertys_own_rule(
    connectivity: str, saved: int
) -> None:
    rows = [
        ("Exp", ["x"], ["a"]),
        ("Exp", ["z"], ["b"]),
        ("Cos", ["a"], ["p"]),
        ("Cos", ["b"], ["q"]),
        ("Add", ["a", "q"], ["c"]),
        ("Add", ["b", "p"], ["d"]),
        ("Sin", ["d"], ["e"]),
    ]
    backends = [taking("Exp Add", "one", connectivity=connectivity), taking("*", "rest")]
    (one, _) = partition(graph_of(rows, ["c", "e"]), backends).quality.backends
    assert one.regions_saved == {"Cos": saved, "Sin": 0}


def test_refusals_that_are_not_about_the_operator_are_not_supposed_away() -> None:
    class Late(All):
        def select(self, node: Node) -> bool | Refusal:
            return node.id > 1 or Refusal("too_small", "by and by")

    rows = [("Exp", [f"v{at}"], [f"v{at + 1}"]) for at in range(4)]
    found = partition(graph_of(rows, ["v4"]), [selecting(lambda _: Late()), taking("*", "rest")])
    assert found.quality.backends[0].regions_saved == {}


def test_what_another_property_of_the_backend_took_is_not_refused_by_it() -> None:
    found = chain("Relu Neg Relu Abs Relu", properties("Relu", "Neg Abs"))
    assert "refused by" not in found.report()
    assert found.to_dict()["refusals"] == []
    assert found.quality.backends[0].regions_saved == {}
    # The property that refused it did so all the same.
    assert [(one.property, one.refusal.code) for one in found.refusals[1]] == [
        ("p0", "op_unsupported")
    ]


def test_a_node_that_several_properties_refuse_is_one_node() -> None:
    found = chain("Relu Neg Sin", properties("Relu", "Neg", "Relu"))
    (line,) = [one for one in found.report().splitlines() if "is not in the list" in one]
    assert line.split()[:3] == ["fake", "1", "Sin"]
    listed = [(one["node"], one["property"]) for one in found.to_dict()["refusals"]]
    assert listed == [(2, "p0")]  # in the same words it is listed once
    assert [one.property for one in found.explain(2).asked[:3]] == ["p0", "p1", "p2"]


def test_an_operator_goes_to_the_property_that_it_promises_most() -> None:
    found = chain("Relu Sin Relu Neg", properties("Neg", "Relu"))
    assert found.quality.backends[0].regions_saved == {"Sin": 1}
    assert chain("Relu Sin Relu Neg", properties("Relu", "Neg")).quality.backends[
        0
    ].regions_saved == {"Sin": 1}


def test_quality_counts_what_operators_are_worth_only_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    count = worth.connected_regions
    monkeypatch.setattr(worth, "connected_regions", lambda *given: asked.append(1) or count(*given))
    found = chain("Relu Sin Relu Cos Relu", taking("Relu", "fake"))
    quality = found.quality
    assert quality.backends[0].gap == 0
    assert asked == []
    assert quality.backends[0].regions_saved == {"Cos": 1, "Sin": 1}
    assert found.report().count("1 region fewer") == 2
    # Once as it is, and once for each operator.
    assert len(asked) == 3


def test_on_a_large_graph_the_least_promising_operators_are_left_out_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operators = "Relu Sin Relu Sin Relu Cos Relu Tan Tan"
    whole = chain(operators, taking("Relu", "fake")).quality.backends[0]
    assert whole.regions_saved == {"Sin": 2, "Cos": 1, "Tan": 0}
    assert whole.uncounted_operators == ()
    # Nine units and eight edges, to be gone through twice for the first operator.
    monkeypatch.setattr(worth, "_CONNECTED_BUDGET", 3 * 17)
    found = chain(operators, taking("Relu", "fake"))
    one = found.quality.backends[0]
    assert one.regions_saved == {"Sin": 2, "Cos": 1}
    assert one.uncounted_operators == ("Tan",)
    assert "if fake took 1 more operator: not counted in a graph of this size" in found.report()
    assert found.to_dict()["quality"]["backends"][0]["uncounted_operators"] == ["Tan"]


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
