"""Large graphs, and those of nothing but constants: time grows with their size."""

import sys
from collections.abc import Sequence

import pytest

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.refusal import Unsupported
from subgraphkit.backend.selector import OpSelector, SubgraphSelector
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.partitioning import partition
from tests.unit.partitioning.pass_support import (
    DescribedProperty,
    backend,
    bound,
    graph_of,
    regions,
    selecting,
    taking,
)

Row = tuple[str, Sequence[str], Sequence[str]]
Case = tuple[list[Row], list[str], Backend]


def lines_run(function):
    """Count the lines that run, once more for every turn of a loop on one line."""
    count = 0

    def step(frame, event, argument):
        nonlocal count
        del frame, argument
        count += event == "line"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def hub(size, *, first="Exp"):
    rows: list[Row] = [(first, ["x"], ["h"])]
    rows += [("Neg", ["h"], [f"y{at}"]) for at in range(size)]
    return rows, [f"y{at}" for at in range(size)]


def chain(size, *operators):
    rows: list[Row] = [
        (operators[at % len(operators)], [f"v{at}"], [f"v{at + 1}"]) for at in range(size)
    ]
    return rows, [f"v{size}"]


def spine(size):
    """A chain, and for each of its nodes one more that reads it."""
    rows, _ = chain(size, "Exp")
    rows += [("Neg", [f"v{at + 1}"], [f"y{at}"]) for at in range(size)]
    return rows, [f"y{at}" for at in range(size)]


def leaving(allowed):
    """Accept some values alone as outputs, and every input."""
    return lambda node, value, side: side == "input" or value in allowed


def hub_that_may_not_hand_out(size):
    refusing = taking("Exp Neg", "one", accept_boundary=leaving({"h"}))
    return *hub(size), refusing


def sum_of_what_may_not_enter(size, answer=lambda _, value, side: (side, value) != ("input", "x")):
    rows: list[Row] = [("Neg", ["x"], [f"a{at}"]) for at in range(size)]
    rows.append(("Sum", [f"a{at}" for at in range(size)], ["y"]))
    return rows, ["y"], taking("Neg Sum", "one", accept_boundary=answer)


def sum_of_what_may_not_leave(size):
    return sum_of_what_may_not_enter(size, leaving({"y"}))


def group_refused_at_its_end(size):
    rows, outputs = chain(size, "Exp")
    rows[-1] = ("Cos", *rows[-1][1:])
    return rows, outputs, taking("Exp", "one", groups=lambda graph: [range(size)])


class AllButCos(SubgraphSelector):
    def select(self, node):
        return node.op_type != "Cos"


def group_refused_from_every_side(size):
    rows, outputs = spine(size)
    rows[size // 2] = ("Cos", *rows[size // 2][1:])
    made = selecting(lambda _: AllButCos(), "one", groups=lambda graph: [range(size)])
    return rows, outputs, made


def group_that_every_node_beside_it_reads(size):
    return *spine(size), selecting(lambda _: AllButCos(), "one", groups=lambda graph: [range(size)])


def groups_that_cannot_stay_together(size):
    groups = [(at, at + 2) for at in range(0, size - 3, 8)]
    return *chain(size, "Exp", "Neg", "Abs"), taking("Exp Neg", "one", groups=lambda graph: groups)


def groups_that_wait_on_each_other(size):
    rows, outputs = chain(size, "Exp")
    groups = [(at, at + size // 2) for at in range(size // 2)]
    return rows, outputs, taking("Exp", "one", groups=lambda graph: groups)


def many_pieces_of_small_groups(size):
    rows, outputs = chain(size, "Exp")
    groups = [(at, at + 1) for at in range(0, size - 1, 2)]
    return rows, outputs, taking("Exp", "one", max_nodes=10, groups=lambda graph: groups)


@pytest.mark.parametrize("case", [
    hub_that_may_not_hand_out,
    sum_of_what_may_not_enter,
    sum_of_what_may_not_leave,
    group_refused_at_its_end,
    group_refused_from_every_side,
    group_that_every_node_beside_it_reads,
    groups_that_cannot_stay_together,
    groups_that_wait_on_each_other,
    many_pieces_of_small_groups,
])  # fmt: skip
def test_a_graph_four_times_as_large_is_about_four_times_the_work(case):
    def work(size):
        rows, outputs, one = case(size)
        graph = graph_of(rows, outputs)
        return lines_run(lambda: partition(graph, [one, taking("*", "rest")]))

    assert work(1_200) < 6 * work(300)


def test_a_subgraph_given_back_does_not_start_compiling_over_again():
    class Failing(DescribedProperty):
        def create_operator(self, subgraph, context):
            raise Unsupported("no")

    class Idle(SubgraphOperator):
        def run(self, inputs, outputs=None):
            return []

    class Working(DescribedProperty):
        def create_operator(self, subgraph, context):
            return Idle()

    def work(size):
        rows, outputs = chain(size, "Exp", "Cos")
        failing = Failing(lambda graph: OpSelector(graph, ["Exp"]))
        working = Working(lambda graph: OpSelector(graph, ["Exp", "Cos"]))
        backends = [backend("one", failing), backend("two", working)]
        found = partition(graph_of(rows, outputs), backends)
        return lines_run(lambda: compile_subgraphs(found))

    assert work(800) < 6 * work(200)


Rows = list[tuple[str, list[str], list[str]]]


def unet(depth):
    rows: Rows = []
    for at in range(depth):
        rows += [("exp", [f"e{at}"], [f"e{at + 1}"]), ("cos", [f"e{at + 1}"], [f"s{at + 1}"])]
    last = f"e{depth}"
    for at in range(depth, 0, -1):
        rows.append(("add", [last, f"s{at}"], [f"d{at}"]))
        last = f"d{at}"
    return rows


def ladder(steps):
    rows: Rows = []
    for at in range(steps):
        rows += [
            ("cos", [f"a{at}"], [f"u{at}"]),
            ("exp", [f"u{at}"], [f"e{at}"]),
            ("add", [f"e{at}", f"u{at}"], [f"a{at + 1}"]),
        ]
    return rows


@pytest.mark.parametrize("connectivity", ["any", "connected"])
@pytest.mark.parametrize("size", [4, 300, 10_000])
def test_the_families_that_take_torch_fx_and_mxnet_minutes(size, connectivity):
    backends = [taking("exp add", connectivity=connectivity), taking("*", "rest")]
    found = partition(graph_of(unet(size), ["d1"]), backends)
    assert len(regions(found, "fake")) == 2
    found = partition(graph_of(ladder(size), [f"a{size}"]), backends)
    assert len(regions(found, "fake")) == size


def test_a_graph_of_nothing_but_constants_has_one_subgraph_that_hands_nothing_out():
    text = """
    constant () => (float[2] k) {
      k = Constant<value = float[2] {1, 2}>()
    }
    """
    found = partition(bound(text), [taking("*", "one"), taking("*", "rest")])
    (only,) = found.subgraphs
    assert (only.nodes, only.members, only.inputs, only.outputs) == ((0,), (), (), ())
    assert only.backend == "rest"
    assert "constant: travels with its first reader" in str(found.explain(0))


def test_a_constant_that_a_body_reads_travels_with_the_node_that_holds_the_body():
    text = """
    branches (bool c, float[4] x) => (float[4] z) {
      k = Constant<value = float[4] {1, 2, 3, 4}>()
      a = Relu(x)
      y = If (c) <
        then_branch = yes () => (float[4] t) { t = Add(a, k) },
        else_branch = no () => (float[4] e) { e = Identity(a) }
      >
      z = Relu(y)
    }
    """
    found = partition(bound(text), [taking("Relu", "one"), taking("*", "rest")])
    assert found.home_of(0) is found.home_of(2)
    assert set(found.home_of(0).constants) == {"k"}


@pytest.fixture(scope="module")
def long_chain(pytestconfig):
    count = pytestconfig.getoption("--chained-nodes")
    return graph_of(_Chain(count), [f"v{count}"])


@pytest.mark.parametrize("connectivity", ["any", "connected"])
def test_a_chain_of_very_many_nodes(long_chain, connectivity):
    found = partition(long_chain, [taking("Exp", "one", connectivity=connectivity)])
    (only,) = found.subgraphs
    assert len(only.nodes) == len(long_chain.nodes)
    assert (only.inputs, only.outputs) == (("v0",), (f"v{len(long_chain.nodes)}",))


class _Chain(Sequence[tuple[str, Sequence[str], Sequence[str]]]):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        return (("Exp", (f"v{at}",), (f"v{at + 1}",)) for at in range(self.count))

    def __getitem__(self, at):
        raise NotImplementedError
