"""Operators of subgraphs, and of subgraphs that are divided a second time."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import subgraphkit as sk
from subgraphkit.backend import NodeSelector
from subgraphkit.backend.operator import maker_of
from subgraphkit.errors import CompileError, ConfigError, SelectorContractError
from subgraphkit.finding.registry import registered
from subgraphkit.ir import BoundGraph, Graph
from subgraphkit.partitioning import Partitioning
from tests.fakes import ReferenceOperator, claiming, extended
from tests.models import CHAIN, bound, parsed
from tests.unit.compiling.dividing import (
    DIVIDED,
    EXPECTED,
    OUTER,
    Inner,
    X,
    dividing,
    session,
)
from tests.unit.partitioning.pass_support import backend

ALL = ("Relu", "Neg", "Abs", "Add")


def refusing(*nodes):
    """A maker of operators that gives back the nodes, where they are in the subgraph."""

    def make(subgraph, _=None):
        if mine := tuple(node for node in nodes if node in subgraph.nodes):
            raise sk.Unsupported("too hard", nodes=mine)
        return ReferenceOperator(subgraph)

    return make


def failing(subgraph):
    raise RuntimeError(f"no kernel for {len(subgraph.nodes)} nodes")


def test_there_is_one_operator_per_subgraph_in_order():
    partitioning = sk.partition(bound(CHAIN, N=2), [claiming(["Relu"], "a"), claiming(ALL, "b")])
    operators = sk.compile_subgraphs(partitioning)
    assert operators.partitioning is partitioning
    assert [operator.subgraph for operator in operators] == list(partitioning.subgraphs)  # type: ignore[attr-defined]


def test_nodes_given_back_go_to_the_next_backend_and_nothing_else_moves():
    graph = bound(CHAIN, N=2)
    picky = claiming(ALL, "picky", make=refusing(1))
    partitioning = sk.partition(graph, [picky, claiming(ALL, "rest")])
    assert [s.id for s in partitioning.subgraphs] == ["picky_0"]
    operators = sk.compile_subgraphs(partitioning)
    assert [s.id for s in operators.partitioning.subgraphs] == ["picky_0", "rest_1", "picky_2"]
    assert len(operators) == 3
    assert operators.origin is partitioning
    assert "too hard" in operators.partitioning.report(details=True)
    x = np.ones((2, 4), np.float32)
    session = sk.Session(sk.plan(partitioning, operators))
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.zeros((2, 4)))


def test_a_failure_is_raised_with_subgraph_nodes_and_cause():
    partitioning = sk.partition(bound(CHAIN, N=2), [claiming(ALL, "bad", make=failing)])
    with pytest.raises(CompileError, match=r"(?s)SGK130.*no kernel for 3 nodes") as failure:
        sk.compile_subgraphs(partitioning)
    assert (failure.value.backend, failure.value.subgraph) == ("bad", "bad_0")
    assert isinstance(failure.value.__cause__, RuntimeError)


def test_a_failure_moves_the_region_where_the_policy_says_so():
    graph = sk.bind(sk.load(parsed(CHAIN)), on_compile_error="fallback")
    partitioning = sk.partition(graph, [claiming(ALL, "bad", make=failing), claiming(ALL, "good")])
    operators = sk.compile_subgraphs(partitioning)
    assert [s.backend for s in operators.partitioning.subgraphs] == ["good"]


def test_giving_back_is_an_error_where_the_policy_says_so():
    graph = sk.bind(sk.load(parsed(CHAIN)), on_unsupported="raise")
    partitioning = sk.partition(graph, [claiming(ALL, "picky", make=refusing(1))])
    with pytest.raises(CompileError, match="too hard"):
        sk.compile_subgraphs(partitioning)


@pytest.mark.parametrize("nodes", [12, "ab", (0, "a"), (1.0,), (None,)])
def test_giving_back_what_is_no_node_index_breaks_the_contract(nodes):
    def make(subgraph):
        raise sk.Unsupported("odd", nodes=nodes)

    partitioning = sk.partition(bound(CHAIN, N=2), [claiming(ALL, "odd", make=make)])
    with pytest.raises(SelectorContractError, match=r"SGK122.*expected indices of nodes"):
        sk.compile_subgraphs(partitioning)


def test_something_that_is_not_an_operator_breaks_the_contract():
    partitioning = sk.partition(
        bound(CHAIN, N=2),
        [claiming(ALL, "odd", make=lambda subgraph: subgraph)],  # type: ignore[arg-type,return-value]
    )
    with pytest.raises(SelectorContractError, match="returned a Subgraph"):
        sk.compile_subgraphs(partitioning)


class Listener:
    """Collects the events of compiling."""

    def __init__(self):
        self.events: list[Any] = []

    @sk.hookimpl
    def subgraphkit_compiled(self, event):
        self.events.append(("compiled", event.subgraph))

    @sk.hookimpl
    def subgraphkit_fallback(self, event):
        self.events.append((event.level, event.subgraph))

    @sk.hookimpl
    def subgraphkit_run_end(self, event):
        self.events.append(("run", event.run))


@pytest.fixture
def listener():
    with extended(Listener()) as heard:
        yield heard


def test_extensions_hear_of_compiling_giving_back_and_running(listener):
    picky = claiming(ALL, "picky", make=refusing(1))
    partitioning = sk.partition(bound(CHAIN, N=2), [picky, claiming(ALL, "rest")])
    session = sk.Session(sk.plan(partitioning, sk.compile_subgraphs(partitioning)))
    session.run(None, {"x": np.ones((2, 4), np.float32)})
    assert listener.events[0] == ("unsupported", "picky_0")
    assert sorted(listener.events[1:4]) == [
        ("compiled", "picky_0"),
        ("compiled", "picky_2"),
        ("compiled", "rest_1"),
    ]
    assert listener.events[4:] == [("run", 0)]


# -- the division --------------------------------------------------------------------------------


def test_nodes_keep_their_numbers_and_the_edge_is_that_of_the_subgraph():
    whole = bound(DIVIDED, N=2)
    (outer,) = sk.partition(whole, [backend("acme", Inner(("Add", "Relu", "Neg")))]).subgraphs[1:2]
    assert outer.nodes == (1, 2, 3, 4)
    found = sk.partition(outer, [Inner(["Add"])])
    assert [one.nodes for one in found.subgraphs] == [(1,), (2, 3), (4,)]
    assert [one.backend for one in found.subgraphs] == ["acme", "numpy", "acme"]
    assert [one.inputs for one in found.subgraphs] == [("a",), ("c",), ("e", "d")]
    assert [one.outputs for one in found.subgraphs] == [("c",), ("d", "e"), ("y",)]
    assert (found.graph.inputs, found.graph.outputs) == (outer.inputs, outer.outputs)
    assert found.home_of(2).id == "numpy_2"
    assert repr(found) == "Partitioning('acme_1', 4 nodes in 3 subgraphs: acme 2, numpy 1)"
    assert found.to_dict()["node_count"] == found.quality.nodes == 4
    assert "4 nodes in 3 subgraphs" in found.report()
    with pytest.raises(ConfigError, match="node 5 is not in the subgraph"):
        found.home_of(5)
    for one in found.subgraphs:
        onnx.checker.check_model(one.to_model(), full_check=True)


@pytest.mark.parametrize("among", ["numpy", None, [Inner, Inner()], Inner()])
def test_a_subgraph_is_divided_among_properties_only(among):
    (outer,) = sk.partition(bound(DIVIDED, N=2), [backend("acme", Inner(OUTER))]).subgraphs
    with pytest.raises(ConfigError, match=r"SGK123.*expected a list of SubgraphProperty"):
        sk.partition(outer, among)


def test_a_subgraph_of_a_graph_that_was_not_bound_cannot_be_divided():
    (outer,) = sk.partition(bound(DIVIDED, N=2), [backend("acme", Inner(OUTER))]).subgraphs
    plain = {name: getattr(outer.graph, name) for name in Graph.__dataclass_fields__}
    with pytest.raises(ConfigError, match="not cut out of a bound model"):
        sk.partition(replace(outer, graph=BoundGraph(**plain)), [Inner()])


# -- one operator --------------------------------------------------------------------------------


def by_lot(seed, share):
    lot = NodeSelector(lambda node: random.Random(f"{seed} {node.id}").random() < share)
    made = Inner()
    made.create_selector = lambda graph: lot  # type: ignore[method-assign]
    made.connectivity = random.Random(seed).choice(["any", "connected"])
    return made


@st.composite
def texts(draw):
    """Make the text of a model of up to eight nodes over values of one shape."""
    values, nodes = ["x0", "x1", "w0", "w1"], []
    for index in range(draw(st.integers(2, 8))):
        a, b = (draw(st.sampled_from(values)) for _ in "ab")
        branches = (
            f"<then_branch = t () => (float[2] p) {{ p = Add({a}, w0) }}, "
            f"else_branch = e () => (float[2] q) {{ q = Neg({b}) }}>"
        )
        calls = [f"Add({a}, {b})", f"Mul({a}, {b})", f"Relu({a})", f"Neg({a})"]
        nodes.append(f"v{index} = {draw(st.sampled_from([*calls, f'If (flag) {branches}']))}")
        values.append(f"v{index}")
    nodes.append(f"y = Concat<axis = 0>({', '.join(values)})")
    head = "g (bool flag, float[2] x0, float[2] x1) => (float[n] y)"
    return f"{head} <float[2] w0 = {{0, 2.5}}, float[2] w1 = {{1, 2.5}}> {{ {' '.join(nodes)} }}"


@given(texts(), st.integers(0, 1 << 30))
def test_a_model_divided_twice_at_random_computes_the_same(text, seed):
    model = parsed(text)
    feeds = {
        "flag": np.array(seed % 2 == 0),
        "x0": np.array([1.5, -2], np.float32),
        "x1": np.array([-3, 4], np.float32),
    }
    log: list[tuple[sk.Subgraph, Partitioning]] = []
    outer = by_lot(f"outer {seed}", 0.8)
    outer.create_operator = dividing(  # type: ignore[method-assign]
        by_lot(f"one {seed}", 0.4), by_lot(f"two {seed}", 0.4), log=log
    )
    (expected,) = sk.InferenceSession(model, "numpy").run(None, feeds)
    with sk.InferenceSession(model, [backend("acme", outer)]) as run:
        np.testing.assert_array_equal(run.run(None, feeds)[0], expected)
    for subgraph, inner in log:
        home = [node for one in inner.subgraphs for node in one.nodes]
        assert sorted(home) == sorted(subgraph.nodes)
        made = {*subgraph.inputs}
        for one in inner.subgraphs:
            assert made.issuperset(one.inputs)
            made.update(one.outputs)
        assert made.issuperset(subgraph.outputs)


LOOPING = """
looping (float[2] x, bool flag, int64 trips) => (float[2] y)
<float[2] w = {1, 2}, bool go = {1}>
{
  a = Mul(x, w)
  b = Neg(a)
  c = If (flag) <
    then_branch = yes () => (float[2] p) { p = Add(b, w) },
    else_branch = no () => (float[2] q) {
      q = If (flag) <
        then_branch = never () => (float[2] r) { r = Neg(b) },
        else_branch = deep () => (float[2] s) { s = Mul(a, b) }
      >
    }
  >
  d = Loop (trips, go, c) <
    body = again (int64 i, bool on, float[2] held) => (bool still, float[2] next) {
      still = Identity(on)
      next = Add(held, a)
    }
  >
  y = Relu(d)
}
"""


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("inner", [["Neg", "Loop"], ["If"], ["Mul", "If", "Relu"], ["Loop"]])
def test_what_bodies_capture_crosses_inner_edges(*, flag, inner):
    feeds = {"x": X[0], "flag": np.array(flag), "trips": np.array(3)}
    (expected,) = sk.InferenceSession(parsed(LOOPING), "numpy").run(None, feeds)
    make = dividing(Inner(inner, lambda subgraph, context: context.compile(subgraph)))
    operators = ["Mul", "Neg", "If", "Loop", "Relu"]
    with session(make, operators, model=LOOPING) as run:
        assert len(run.plan.steps) == 1
        np.testing.assert_array_equal(run.run(None, feeds)[0], expected)


# -- giving back ---------------------------------------------------------------------------------


def test_nodes_given_back_inside_are_run_inside():
    with session(dividing(Inner(["Mul", "Add"], refusing(1)))) as run:
        assert [step.subgraph.id for step in run.plan.steps] == ["acme_0"]
        regions = run.plan.steps[0].operator.info()["regions"]
        assert [(one["backend"], one["node_count"]) for one in regions] == [
            ("acme", 1),
            ("numpy", 1),
            ("numpy", 2),
            ("acme", 2),
        ]
        np.testing.assert_array_equal(run.run(None, {"x": X})[0], EXPECTED[0])


@pytest.mark.parametrize("inner", [Inner(["Mul", "Add", "Neg"]), Inner(OUTER, refusing(2))])
def test_nodes_that_nobody_takes_inside_go_back_to_the_first_level(inner):
    both = [backend("acme", Inner(OUTER, dividing(inner))), backend("other", Inner(["Relu"]))]
    with sk.InferenceSession(parsed(DIVIDED), both, strict=True) as run:
        steps = [(step.subgraph.backend, step.subgraph.nodes) for step in run.plan.steps]
        assert steps == [("acme", (0, 1)), ("other", (2,)), ("acme", (3, 4, 5))]
        np.testing.assert_array_equal(run.run(None, {"x": X})[0], EXPECTED[0])


def test_the_fallback_backend_is_not_its_own_fallback():
    total = dividing(Inner(), Inner(["Relu", "Neg"]))
    with registered(claiming(OUTER, "total", create_operator=lambda _, *given: total(*given))):
        with sk.InferenceSession(parsed(DIVIDED), "none", fallback="total") as run:
            regions = run.plan.steps[0].operator.info()["regions"]
            assert {one["backend"] for one in regions} == {"total"}
        elsewhere = backend(
            "acme", Inner(OUTER, lambda subgraph, context: context.compile(subgraph))
        )
        with sk.InferenceSession(parsed(DIVIDED), [elsewhere], fallback="total") as run:
            assert maker_of(run.plan.steps[0].operator) == "total"
            np.testing.assert_array_equal(run.run(None, {"x": X})[0], EXPECTED[0])


def test_a_failure_inside_names_the_region():
    def failing(subgraph, context):
        if 4 in subgraph.nodes:
            raise RuntimeError("no kernel")
        return ReferenceOperator(subgraph)

    with pytest.raises(CompileError, match=r"'acme_4' \(2 nodes, #4 Add .. #5 Mul\).*no kernel"):
        session(dividing(Inner(["Mul", "Add"], failing)))


def test_a_property_cannot_divide_its_own_region_again():
    class Endless(Inner):
        def create_operator(self, subgraph, context):
            return context.compile(context.partition(subgraph, [self]))

    with pytest.raises(sk.errors.SelectorContractError, match=r"SGK122.*would never end"):
        sk.InferenceSession(parsed(DIVIDED), [backend("acme", Endless(OUTER))])


def test_only_a_subgraph_or_a_division_can_be_compiled():
    with pytest.raises(sk.errors.SelectorContractError, match=r"compile\(\) was given \[\]"):
        session(lambda subgraph, context: context.compile([]))


def test_regions_are_divided_while_they_are_compiled_and_not_before():
    class Early(Inner):
        def prepare(self, graph, context):
            if self.name == "inner":
                context.partition(sk.partition(graph, "numpy").subgraphs[0], [])  # type: ignore[arg-type]

    with pytest.raises(sk.errors.SelectorContractError, match="while it is compiled"):
        sk.InferenceSession(parsed(DIVIDED), [backend("acme", Early(OUTER))])
