"""Weights and plans that change under a running session."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Traits
from subgraphkit.errors import CallerError, WeightUpdateError
from tests.fakes import ReferenceOperator, WeightedOperator, claiming
from tests.models import LINEAR, parsed

X = np.ones((1, 3), np.float32)
BOTH = ("MatMul", "Add")


def value(session):
    return session.run(None, {"x": X})[0][0].tolist()


def bias(*values):
    return {"bias": np.array(values, np.float32)}


class Unclosable(ReferenceOperator):
    def close(self):
        raise OSError("the device is gone")


@pytest.mark.parametrize(("make", "outcome"), [
    (WeightedOperator, "refitted"), (ReferenceOperator, "recompiled"), (Unclosable, "recompiled")
])  # fmt: skip
def test_an_operator_refits_or_is_compiled_again_and_says_which(make, outcome):
    session, changed = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH, make=make)]), bias(0, 0)
    assert value(session) == [19, 32]
    assert session.update_weights(changed) == {"fake_0": outcome}
    changed["bias"][:] = 100  # it was copied
    assert value(session) == [9, 12]
    assert session.weight_versions == {"bias": 1}
    assert session.plan.steps[0].subgraph.members[1].constant(1).tolist() == [0, 0]


def test_only_the_subgraphs_that_use_a_weight_are_touched():
    pair = [claiming(["MatMul"], "one"), claiming(["Add"], "two")]
    session = sk.InferenceSession(parsed(LINEAR), pair)
    before = session.plan.steps
    assert session.update_weights(bias(1, 1)) == {"two_1": "recompiled"}
    assert session.plan.steps[0].operator is before[0].operator
    assert before[1].operator.closed == 1  # type: ignore[attr-defined]
    assert value(session) == [10, 13]


@pytest.mark.parametrize(("changed", "told"), [
    ({"nothing": np.zeros(2, np.float32)}, "no weight 'nothing'"),
    ({"bias": np.zeros(3, np.float32)}, "weight 'bias' is float32[2]; the new value is"),
    ({"bias": np.zeros(2)}, "float64"),
    ([np.zeros(2)], "are a list, expected a mapping"),
])  # fmt: skip
def test_weights_that_do_not_fit_are_refused(changed, told):
    session = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH)])
    with pytest.raises(WeightUpdateError, match="SGK133") as refusal:
        session.update_weights(changed)
    assert told in str(refusal.value)
    assert value(session) == [19, 32]


def two_with(make):
    """Open a session with two subgraphs, the second of which an operator of this kind runs."""
    soft = claiming(["MatMul"], "soft", make=WeightedOperator)
    return sk.InferenceSession(parsed(LINEAR), [soft, claiming(["Add"], "other", make=make)])


class Stubborn(ReferenceOperator):
    def update_weights(self, changed):
        raise MemoryError("no room for two engines")


def test_old_weights_are_put_back_when_a_subgraph_cannot_take_new_ones():
    session = two_with(Stubborn)
    with pytest.raises(WeightUpdateError, match="no room for two engines"):
        session.update_weights(bias(0, 0) | {"w": np.zeros((3, 2), np.float32)})
    assert value(session) == [19, 32]
    assert session.weight_versions == {}


class Interrupted(WeightedOperator):
    """Hears Ctrl-C when it has taken new weights, and when it is closed."""

    def update_weights(self, changed):
        if not changed["bias"].any():
            super().update_weights(changed)
            raise KeyboardInterrupt
        return super().update_weights(changed)


def test_old_weights_are_put_back_when_an_update_is_interrupted():
    session = two_with(Interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.update_weights(bias(0, 0) | {"w": np.zeros((3, 2), np.float32)})
    assert value(session) == [19, 32]
    assert session.weight_versions == {}
    session.update_weights(bias(1, 1))
    assert value(session) == [10, 13]


@pytest.mark.parametrize(("text", "sums"), [
    ("g (float[2] x) => (float[2] w) <float[2] w = {1, 2}> { y = Relu(x) }", [8, 9]),
    ("g (float[2] x) => (float[2] y) { w = Constant<value = float[2] {1, 2}>() y = Add(x, w) }",
     [9, 10]),
])  # fmt: skip
def test_a_weight_that_is_an_output_or_a_constant_node_has_the_new_value(text, sums):
    session = sk.InferenceSession(parsed(text), [claiming(["Add", "Constant", "Relu"])])
    session.update_weights({"w": np.array([8, 9], np.float32)})
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == sums


def test_new_weights_may_have_a_foreign_byte_order_or_be_text():
    session = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH)])
    session.update_weights({"bias": np.array([0, 0], ">f4")})
    assert value(session) == [9, 12]
    text = 'g (float[1] x) => (string[2] w) <string[2] w = {"a", "b"}> { y = Relu(x) }'
    session = sk.InferenceSession(parsed(text), "numpy")
    session.update_weights({"w": ["c", "d"]})
    assert session.run(None, {"x": np.ones(1, np.float32)})[0].tolist() == ["c", "d"]


@pytest.mark.parametrize(
    "stored", ["y = Reshape(x, shp)", "shp2 = Constant<value_ints=[3, 4]>() y = Reshape(x, shp2)"]
)
def test_a_constant_that_decides_a_shape_cannot_be_replaced(stored):
    text = f"""
    g (float[2, 6] x) => (int64[2] s, y) <int64[2] shp = {{3, 4}}> {{ {stored} s = Shape(y) }}"""
    session = sk.InferenceSession(parsed(text), "numpy")
    name = "shp2" if "shp2" in stored else "shp"
    with pytest.raises(WeightUpdateError, match="would change what was decided"):
        session.update_weights({name: np.array([6, 2])})
    assert session.run(None, {"x": np.ones((2, 6), np.float32)})[0].tolist() == [3, 4]
    assert session.update_weights({name: np.array([3, 4])})


def test_numbers_with_which_a_backend_would_not_take_a_node_are_refused():
    text = "g (float[2] x) => (float[2] y) <float e = {2}> { y = Pow(x, e) }"
    squares = claiming({"Pow": lambda node: node.graph.constants["e"].array() == 2})
    session = sk.InferenceSession(parsed(text), [squares])
    with pytest.raises(WeightUpdateError, match="fake refuses node #0 Pow"):
        session.update_weights({"e": np.float32(3)})
    assert session.run(None, {"x": np.array([2, 3], np.float32)})[0].tolist() == [4, 9]


FORK = "fork (float[1] x) => (float[1] p, float[1] q) { p = Relu(x) q = Neg(x) }"


def planned(session, *backends):
    partitioning = sk.partition(session.graph, list(backends) or None)
    return sk.plan(partitioning, sk.compile_subgraphs(partitioning))


def operators(plan):
    return [step.operator for step in plan.steps]


class Stamp(sk.SubgraphOperator):
    """Returns the number of the generation it was made for, while it is open."""

    traits = Traits(thread_safe=True)

    def __init__(self, generation):
        self.generation: float = generation()
        self.closed = False

    def run(self, inputs, outputs=None):
        assert not self.closed
        return [np.full(1, self.generation, np.float32)]

    def close(self):
        self.closed = True


def test_ten_thousand_runs_over_a_hundred_exchanges_see_one_generation_each():
    now = 0
    backends = [
        claiming(["Relu"], "one", make=lambda _: Stamp(lambda: now)),
        claiming(["Neg"], "two", make=lambda _: Stamp(lambda: now)),
    ]
    session = sk.InferenceSession(parsed(FORK), backends)
    binding = session.io_binding()
    feeds = {"x": np.ones(1, np.float32)}
    binding.bind_cpu_input("x", feeds["x"])
    permits = threading.Semaphore(0)

    def run_often():
        seen = []
        for _ in range(2_500):
            permits.acquire()
            p, q = session.run(None, feeds)
            seen.append((float(p[0]), float(q[0])))
        return seen

    with ThreadPoolExecutor(4) as pool:
        runners = [pool.submit(run_often) for _ in range(4)]
        try:
            for now in range(1, 101):
                before, after = session.plan, planned(session, *backends)
                permits.release(100)
                session.exchange(after)
                assert all(operator.closed for operator in operators(before))
                session.run_with_iobinding(binding)
                assert [float(array[0]) for array in binding.get_outputs()] == [now, now]
        finally:
            permits.release(10_000)
        seen = [pair for runner in runners for pair in runner.result()]
    assert len(seen) == 10_000
    assert [pair for pair in seen if pair[0] != pair[1]] == []
    assert len(set(seen)) > 10


def test_another_plan_may_divide_the_model_in_another_way():
    with sk.InferenceSession(parsed(LINEAR), [claiming(BOTH)]) as session:
        first = session.plan
        session.exchange(planned(session, claiming(["MatMul"], "one"), claiming(["Add"], "two")))
        assert [s.id for s in session.partitioning.subgraphs] == ["one_0", "two_1"]
        assert value(session) == [19, 32]
        assert [operator.closed for operator in operators(first)] == [1]
        # What both plans have stays open.
        second = session.plan
        renewed = ReferenceOperator(second.steps[1].subgraph)
        session.exchange(lambda now: now.with_operator(1, renewed))
        assert value(session) == [19, 32]
        assert [operator.closed for operator in operators(second)] == [0, 1]
    assert renewed.closed == 1


@pytest.mark.parametrize("make", [WeightedOperator, ReferenceOperator])
def test_another_plan_computes_with_the_weights_of_today(make):
    session = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH, make=make)])
    made_before = planned(session)
    session.update_weights({"bias": np.zeros(2, np.float32)})
    session.exchange(made_before)
    assert value(session) == [9, 12]
    assert session.weight_versions == {"bias": 1}
    session.update_weights({"bias": np.ones(2, np.float32)})
    assert value(session) == [10, 13]
    assert session.weight_versions == {"bias": 2}


def test_a_plan_that_cannot_be_taken_is_closed_and_the_old_one_stays():
    session = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH)])
    session.update_weights({"bias": np.zeros(2, np.float32)})
    stubborn = planned(session, claiming(BOTH, "stubborn", make=Stubborn))
    with pytest.raises(WeightUpdateError, match="no room for two engines"):
        session.exchange(stubborn)
    assert [operator.closed for operator in operators(stubborn)] == [1]
    assert value(session) == [9, 12]

    other = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH)])
    with pytest.raises(CallerError, match=r"SGK123.*another bound model"):
        session.exchange(other.plan)
    assert value(other) == [19, 32]

    late = planned(session)
    session.close()
    with pytest.raises(CallerError, match="SGK144"):
        session.exchange(late)
    assert [operator.closed for operator in operators(late)] == [1]
