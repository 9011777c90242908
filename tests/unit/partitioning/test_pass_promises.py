"""What holds of every partitioning, and after nodes were given back."""

import pytest

from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import OpSelector
from subgraphkit.errors import ConfigError, InternalError, SelectorContractError, SubgraphkitError
from subgraphkit.partitioning import partition
from subgraphkit.partitioning.algorithms.quotient import cyclic_groups
from subgraphkit.partitioning.claiming import claim
from subgraphkit.partitioning.claiming.graph import PartitionState
from subgraphkit.partitioning.outcome.verification import verify_borders
from tests.golden_support import GOLDEN
from tests.unit.partitioning.pass_support import (
    DescribedProperty,
    backend,
    bound,
    described,
    graph_of,
    regions,
    shown,
    taking,
)

FAILED = Refusal("compile_failed", "the compiler gave up")
TRIPLE = [("Exp", ["x"], ["a"]), ("Neg", ["a"], ["b"]), ("Abs", ["b"], ["c"])]


def reasons(found, node, name):
    return [str(one.refusal) for one in found.refusals.get(node, ()) if one.backend == name]


# What is given back


def constants():
    text = """
    constants (float[4] x) => (float[4] c) {
      k = Constant<value = float[4] {1, 2, 3, 4}>()
      a = Neg(x)
      c = Add(a, k)
    }
    """
    return partition(bound(text), [taking("Add Neg", "one"), taking("*", "rest")])


LOOPED = """
looped (float[2] x) => (float[2] y) <float s = {0.5}, int8 z = {0}> {
  q = QuantizeLinear(x, s, z)
  c = Cast<to = 1>(q)
  m = ReduceMax<keepdims = 0>(c)
  y = DequantizeLinear(q, m, z)
}
"""
"""A quantised pair that cannot stay together: the scale of its second half comes from its first."""


def test_giving_back_a_constant_gives_back_what_reads_it():
    after = constants().repartition("one_0", {0: FAILED})
    assert regions(after, "one") == [[1]]
    assert reasons(after, 2, "one") == [str(FAILED)]
    assert after.home_of(0).backend == "rest"


def test_a_property_whose_first_turn_comes_late_sees_the_partitioning_too():
    one, two, rest = taking("*", "one"), taking("Neg", "two"), taking("*", "rest")
    found = partition(graph_of(TRIPLE, ["c"]), [one, two, rest])
    (late,), (early,) = two.properties(), one.properties()
    assert (late.prepared, late.finished) == (0, [])  # type: ignore[attr-defined]
    after = found.repartition("one_0", {1: FAILED})
    assert (late.prepared, late.finished) == (1, [after])  # type: ignore[attr-defined]
    assert early.finished == [found]  # type: ignore[attr-defined]
    again = after.repartition("two_1", {1: FAILED})
    assert late.finished == [after]  # type: ignore[attr-defined]
    assert again.home_of(1).backend == "rest"


# Sizes


def test_a_match_that_may_not_be_cut_is_given_back_if_it_is_too_large():
    one = described("one: ; pattern=Exp>Neg>Abs; max_nodes=2")
    found = partition(graph_of(TRIPLE, ["c"]), [one, taking("*", "rest")])
    assert regions(found, "one") == []
    assert reasons(found, 1, "one") == [
        "too_large: a region that may not be cut has 3 nodes, the property's maximum is 2"
    ]


# Groups


def test_a_quantized_pair_that_a_path_parts_stays_out_and_says_so():
    pair = "QuantizeLinear DequantizeLinear"
    found = partition(bound(LOOPED), [taking(pair, "one"), taking("*", "rest")])
    assert regions(found, "rest") == [[0, 1, 2, 3]]
    (reason,) = reasons(found, 0, "one")
    assert reason.startswith("group: QuantizeLinear and DequantizeLinear stay together")
    whole = partition(bound(LOOPED), [taking(f"{pair} Cast ReduceMax", "one"), taking("*", "rest")])
    assert regions(whole, "one") == [[0, 1, 2, 3]]
    alone = partition(bound(LOOPED), [taking("Cast ReduceMax", "one"), taking(pair, "last")])
    assert regions(alone, "last") == [[0], [3]]


def test_groups_on_cycles_are_named_by_strong_component():
    graph = graph_of([("Exp", [f"v{at}"], [f"v{at + 1}"]) for at in range(9)], ["v9"])
    assert cyclic_groups(graph.adjacency, [[0, 2], [3, 4], [6, 8], [5, 7]]) == [[0], [2, 3]]
    assert cyclic_groups(graph.adjacency, [[0, 1], [2, 3]]) == []


# Borders


@pytest.mark.parametrize("crossing", [("input", "a"), ("output", "b")])
def test_a_forbidden_value_at_an_edge_is_a_bug_and_is_found(crossing):
    graph = graph_of(TRIPLE, ["c"])
    one = taking("Neg", "one")
    found = partition(graph, [one, taking("*", "rest")])
    made = list(zip(found.subgraphs, found.claimed_by, strict=True))
    verify_borders(PartitionState(graph, found.passes.claims), made)
    refusing = one.properties()[0]
    refusing.accept_boundary = lambda node, name, side: (side, name) != crossing  # type: ignore[method-assign]
    with pytest.raises(InternalError, match=f"value '{crossing[1]}' crosses the edge of .*'one_1'"):
        verify_borders(PartitionState(graph, found.passes.claims), made)


# Last resorts


def test_without_rounds_left_whole_regions_are_dropped_for_one_bad_edge(monkeypatch):
    rows = [("Exp", ["x"], ["a"]), ("Neg", ["a"], ["b"]), ("Cos", ["b"], ["u"])]
    rows += [("Add", ["b", "u"], ["y"]), ("Exp", ["y"], ["w"])]

    def divide():
        one = taking(
            "Exp Neg Add",
            "one",
            accept=lambda subgraph: 3 not in subgraph.nodes,
            accept_boundary=lambda node, value, side: (side, value) != ("input", "b"),
        )
        return partition(graph_of(rows, ["w"]), [one, taking("*", "rest")])

    assert regions(divide(), "one") == [[0, 1], [4]]
    monkeypatch.setattr(claim, "_ROUNDS", 1)
    assert regions(divide(), "one") == [[0, 1]]


FOLDER = GOLDEN / "partitionings"
CASES = sorted(path.stem for path in FOLDER.glob("*.txt"))
MODES = ("any", "connected")


def read(name):
    """Return the text above the line, the model, the backends, and the expected counts."""
    above = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n---\n")[0]
    lines = above.splitlines()
    remarks = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    model = "\n".join(line for line in lines if not line.startswith("# "))
    backends = [text.removeprefix("backend ") for text in remarks if text.startswith("backend ")]
    counts = next((text for text in remarks if text.startswith("fewest ")), "fewest")
    expected = dict(pair.split("=") for pair in counts.split()[1:])
    return above, model, backends, {mode: int(count) for mode, count in expected.items()}


def result_of(model, backends, mode):
    try:
        graph = bound(model)
    except SubgraphkitError as error:
        return str(error)
    return shown(partition(graph, [described(line, mode) for line in backends]))


@pytest.mark.parametrize("name", CASES)
def test_a_tricky_graph_is_partitioned_as_written_down(name, golden):
    above, model, backends, _ = read(name)
    results = {mode: result_of(model, backends, mode) for mode in MODES}
    if len(set(results.values())) == 1:
        below = f"{' and '.join(MODES)}:\n{results['any']}"
    else:
        below = "\n\n".join(f"{mode}:\n{text}" for mode, text in results.items())
    golden(f"partitionings/{name}", f"{above}\n---\n{below}")


@pytest.mark.parametrize("name", [name for name in CASES if read(name)[3]])
@pytest.mark.parametrize("mode", MODES)
def test_the_first_backend_has_as_few_regions_as_possible(name, mode):
    _, model, backends, expected = read(name)
    made = [described(line, mode) for line in backends]
    found = partition(bound(model), made)
    assert len(regions(found, made[0].name)) == expected[mode]


def properties(*operators):
    """Make a backend with one property for each list of operators."""
    made: list[SubgraphProperty] = []
    for at, listed in enumerate(operators):
        property_ = DescribedProperty(
            lambda graph, listed=listed: OpSelector(graph, listed.split())
        )  # type: ignore[misc]
        property_.name = f"p{at}"  # type: ignore[misc]
        made.append(property_)
    return backend("fake", *made)


def chain(operators, *backends):
    listed = operators.split()
    rows = [(operator, [f"v{at}"], [f"v{at + 1}"]) for at, operator in enumerate(listed)]
    return partition(graph_of(rows, [f"v{len(listed)}"]), [*backends, taking("*", "rest")])


def test_what_another_property_of_the_backend_took_is_not_refused_by_it():
    found = chain("Relu Neg Relu Abs Relu", properties("Relu", "Neg Abs"))
    assert "REFUSED BY" not in found.report(details=True)
    assert found.to_dict()["refusals"] == []
    # The property that refused it did so all the same.
    assert [(one.property, one.refusal.code) for one in found.refusals[1]] == [
        ("p0", "op_unsupported")
    ]


ROWS = [
    ("Exp", ["x"], ["a"]),
    ("Neg", ["a"], ["b"]),
    ("Exp", ["b"], ["c"]),
    ("Cos", ["c"], ["d"]),
    ("Exp", ["d"], ["e"]),
    ("Neg", ["e"], ["f"]),
]


def divide():
    backends = [taking("Exp Neg", "one"), taking("Neg", "two"), taking("*", "rest")]
    return partition(graph_of(ROWS, ["f"]), backends)


def test_a_node_given_back_goes_to_the_next_backend_and_the_rest_stays():
    before = divide()
    after = before.repartition("one_0", {1: FAILED})
    assert [(one.id, one.nodes) for one in after.subgraphs] == [
        ("one_0", (0,)),
        ("two_1", (1,)),
        ("one_2", (2,)),
        ("rest_3", (3,)),
        ("one_4", (4, 5)),
    ]
    assert after.subgraph("one_4") is before.subgraph("one_4")
    assert after.subgraph("rest_3") is before.subgraph("rest_3")
    assert [tuple(one) for one in after.refusals[1]] == [("one", "main", FAILED)]
    assert after.claim_of(after.subgraph("two_1")).backend.name == "two"


def test_the_partitioning_it_was_made_from_does_not_change():
    before = divide()
    text = before.report(details=True)
    before.repartition("one_0", {1: FAILED})
    assert before.report(details=True) == text
    assert 1 not in before.refusals


def test_a_whole_subgraph_can_be_given_back():
    after = divide().give_back("one_0", FAILED)
    assert [(one.id, one.nodes) for one in after.subgraphs][:3] == [
        ("rest_0", (0,)),
        ("two_1", (1,)),
        ("rest_2", (2,)),
    ]


@pytest.mark.parametrize(("subgraph", "given", "error", "text"), [
    ("rest_33", {1: FAILED}, ConfigError, "SGK123.*no subgraph 'rest_33'; did you mean 'rest_3'"),
    ("one_0", {3: FAILED}, SelectorContractError, "SGK122.*gave back node 3, which is not in"),
    ("one_0", {1: "slow"}, ConfigError, "SGK123.*because of 'slow', expected a Refusal"),
    ("one_0", {}, SelectorContractError, "SGK122.*gave back no node of subgraph 'one_0'"),
])  # fmt: skip
def test_what_cannot_be_given_back_is_refused(subgraph, given, error, text):
    with pytest.raises(error, match=text):
        divide().repartition(subgraph, given)
