"""Random graphs, random backends: the promises of the pass hold, with networkx as the oracle."""

import random

import networkx as nx
import pytest

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.partitioning import partition
from tests.unit.partitioning.pass_support import (
    DescribedProperty,
    backend,
    graph_of,
    selecting,
    taking,
)

ONE_IN = {
    "test_the_number_of_regions_does_not_depend_on_the_order_of_the_file": 40,
    "test_giving_nodes_back_keeps_every_promise_and_the_other_subgraphs": 10,
}
"""Of how many random graphs one is for a test that takes longer."""


def pytest_generate_tests(metafunc):
    if one_in := ONE_IN.get(metafunc.function.__name__):
        count = metafunc.config.getoption("--random-graphs") // one_in
        metafunc.parametrize("seed", range(count))


OPERATORS = {"Exp": 1, "Neg": 1, "Cos": 1, "Add": 2, "Mul": 2, "Sum": 3}


def random_rows(dice, count):
    values = ["x", "z"]
    rows = []
    for at in range(count):
        operator = dice.choice(list(OPERATORS))
        recent = values[-dice.choice([3, 8, 40]) :]
        rows.append((operator, dice.choices(recent, k=OPERATORS[operator]), [f"v{at}"]))
        values.append(f"v{at}")
    outputs = sorted({f"v{count - 1}", dice.choice(values[2:])})
    return rows, outputs


class Moody(SubgraphSelector):
    """Keeps state and answers by a seeded hash of everything it was asked so far."""

    def __init__(self, seed, *, splittable):
        self.seed = seed
        self.asked: list[int] = []
        self.splittable = splittable  # type: ignore[misc]

    def draw(self, *about):
        self.asked += about
        return random.Random(hash((self.seed, len(self.asked), *about))).random()

    def select(self, node):
        return self.draw(node.id) < 0.8 or Refusal("attribute", "not in the mood")

    def select_input(self, node, producer):
        return self.draw(node.id, producer.id) < 0.7

    def select_output(self, node, consumer):
        return self.draw(node.id, consumer.id) < 0.7

    def filter(self, candidates):
        if self.draw() < 0.6:
            return candidates
        return [node for node in candidates if self.draw(node.id) < 0.8]

    def reset(self):
        self.asked = self.asked[:1]


def random_property(dice):
    operators = " ".join(dice.sample(list(OPERATORS), dice.randint(1, 5)))
    made: Backend
    if dice.random() < 0.5:
        seed, splittable = dice.randrange(1 << 30), dice.random() < 0.5
        made = selecting(lambda _: Moody(seed, splittable=splittable))
    else:
        made = taking(operators)
    (property_,) = made.properties()
    assert isinstance(property_, DescribedProperty)
    property_.connectivity = dice.choice(["any", "connected"])
    property_.min_nodes = dice.choice([1, 1, 1, 2, 3])
    property_.max_nodes = dice.choice([None, None, 3, 5])
    chance = dice.choice([0.0, 0.0, 0.15])
    if chance:
        salt = dice.randrange(1 << 30)

        def accept(node, value, side):
            del side
            return random.Random(f"{salt} {node.id} {value}").random() > chance

        property_.accept_boundary = accept
    return property_


def random_backends(dice):
    made = [
        backend(name, *(random_property(dice) for _ in range(dice.choice([1, 1, 2]))))
        for name in ("one", "two", "three")[: dice.randint(1, 3)]
    ]
    return [*made, taking("*", "rest", connectivity=dice.choice(["any", "connected"]))]


def dependencies(graph):
    """Build the graph of nodes from the names alone."""
    oracle = nx.DiGraph()
    oracle.add_nodes_from(range(len(graph.nodes)))
    maker = {name: node.id for node in graph.nodes for name in node.outputs}
    for node in graph.nodes:
        oracle.add_edges_from((maker[name], node.id) for name in node.inputs if name in maker)
    return oracle


def check(found):
    """Check every promise."""
    oracle = check_order(found)
    for one in found.subgraphs:
        check_region(found, one.id, oracle)
    made = check_values(found)
    read = set(found.graph.outputs).union(*(one.inputs for one in found.subgraphs))
    assert len(made) == len(set(made))
    assert set(made) <= read
    check_reasons(found)


def check_order(found):
    """Check that every node is in one region, and that these can run one after the other."""
    oracle = dependencies(found.graph)
    home = {node: one.id for one in found.subgraphs for node in one.nodes}
    assert sorted(home) == list(range(len(found.graph.nodes)))
    assert sum(len(one.nodes) for one in found.subgraphs) == len(home)
    place = {one.id: at for at, one in enumerate(found.subgraphs)}
    assert all(place[home[a]] <= place[home[b]] for a, b in oracle.edges)
    return oracle


def check_region(found, name, oracle):
    one = found.subgraph(name)
    inside = set(one.nodes)
    after = set().union(*(nx.descendants(oracle, node) for node in inside))
    before = set().union(*(nx.ancestors(oracle, node) for node in inside))
    assert not after & before - inside, "not convex"
    property_ = found.claim_of(one).property
    assert len(inside) >= property_.min_nodes
    assert property_.max_nodes is None or len(inside) <= property_.max_nodes
    if property_.connectivity == "connected":
        assert nx.is_weakly_connected(oracle.subgraph(inside))


def check_values(found):
    """Run the plan in thought: every value is there when it is read. Return what is handed out."""
    made = [*found.graph.inputs]
    for one in found.subgraphs:
        assert set(one.inputs) <= set(made)
        inside = set(one.inputs)
        for node in one.nodes:
            assert set(found.graph.nodes[node].inputs) <= inside
            inside.update(found.graph.nodes[node].outputs)
        assert set(one.outputs) <= inside
        made += one.outputs
    assert set(found.graph.outputs) <= set(made)
    return made[len(found.graph.inputs) :]


def check_reasons(found):
    """Every property before the one that claimed a node refused it, and nobody after was asked."""
    for node in range(len(found.graph.nodes)):
        verdicts = [asked.verdict for asked in found.explain(node).asked]
        claimed = verdicts.index("claimed")
        assert all(verdict == "refused" for verdict in verdicts[:claimed])


def test_random_graphs_keep_every_promise(pytestconfig):
    dice = random.Random("graphs")
    for number in range(pytestconfig.getoption("--random-graphs")):
        rows, outputs = random_rows(dice, dice.randint(1, 14 if number % 20 else 40))
        state = dice.getstate()
        found = partition(graph_of(rows, outputs), random_backends(dice))
        check(found)
        if number % 20 == 0:
            dice.setstate(state)
            again = partition(graph_of(rows, outputs), random_backends(dice))
            assert found.report(details=True) == again.report(details=True)


@pytest.mark.parametrize("seed", range(12))
def test_larger_random_graphs_keep_every_promise(seed):
    dice = random.Random(f"large {seed}")
    rows, outputs = random_rows(dice, 250)
    check(partition(graph_of(rows, outputs), random_backends(dice)))


def test_the_number_of_regions_does_not_depend_on_the_order_of_the_file(seed):
    dice = random.Random(f"order {seed}")
    rows, outputs = random_rows(dice, 40)
    backends = ["Exp Add Sum", "*"]

    def count(shuffled):
        made = [taking(text, f"b{at}", connectivity="any") for at, text in enumerate(backends)]
        found = partition(graph_of(shuffled, outputs), made)
        check(found)
        return sum(one.backend == "b0" for one in found.subgraphs)

    expected = count(rows)
    for _ in range(3):
        dice.shuffle(rows)
        assert count(rows) == expected


def test_giving_nodes_back_keeps_every_promise_and_the_other_subgraphs(seed):
    dice = random.Random(f"give back {seed}")
    rows, outputs = random_rows(dice, dice.randint(2, 30))
    found = partition(graph_of(rows, outputs), random_backends(dice))
    for _ in range(4):
        candidates = [one for one in found.subgraphs if one.backend != "rest"]
        if not candidates:
            break
        one = dice.choice(candidates)
        given_back = dice.sample(one.nodes, dice.randint(1, len(one.nodes)))
        reason = Refusal("compile_failed", "the compiler gave up")
        others = [other for other in found.subgraphs if other is not one]
        found = found.repartition(one.id, dict.fromkeys(given_back, reason))
        assert all(any(other is kept for kept in found.subgraphs) for other in others)
        check_order(found)
        check_values(found)
        for node in set(given_back) & set(one.nodes):
            assert any(r.refusal == reason for r in found.refusals[node])
