"""One session, one plan after the other."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Traits
from subgraphkit.errors import CallerError, WeightUpdateError
from subgraphkit.planning import Plan
from tests.fakes import ReferenceOperator, WeightedOperator, claiming
from tests.models import LINEAR, parsed

FORK = """
fork (float[1] x) => (float[1] p, float[1] q) {
  p = Relu(x)
  q = Neg(x)
}
"""
X = np.ones((1, 3), np.float32)
BOTH = ("MatMul", "Add")


def planned(session: sk.Session, *backends: Any) -> Plan:
    partitioning = sk.partition(session.graph, list(backends) or None)
    return sk.plan(partitioning, sk.compile_subgraphs(partitioning))


def operators(plan: Plan) -> list[Any]:
    return [step.operator for step in plan.steps]


def value(session: sk.Session) -> list[float]:
    return list(session.run(None, {"x": X})[0][0])


class Stamp(sk.SubgraphOperator):
    """Returns the number of the generation it was made for, while it is open."""

    traits = Traits(thread_safe=True)

    def __init__(self, generation: Callable[[], int]) -> None:
        self.generation: float = generation()
        self.closed = False

    def run(self, inputs: Sequence[Any], outputs: Any = None) -> Sequence[Any]:
        assert not self.closed
        return [np.full(1, self.generation, np.float32)]

    def close(self) -> None:
        self.closed = True


def test_ten_thousand_runs_over_a_hundred_exchanges_see_one_generation_each() -> None:
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

    def run_often() -> list[tuple[float, float]]:
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


def test_another_plan_may_divide_the_model_in_another_way() -> None:
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
def test_another_plan_computes_with_the_weights_of_today(make: Any) -> None:
    session = sk.InferenceSession(parsed(LINEAR), [claiming(BOTH, make=make)])
    made_before = planned(session)
    session.update_weights({"bias": np.zeros(2, np.float32)})
    session.exchange(made_before)
    assert value(session) == [9, 12]
    assert session.weight_versions == {"bias": 1}
    session.update_weights({"bias": np.ones(2, np.float32)})
    assert value(session) == [10, 13]
    assert session.weight_versions == {"bias": 2}


class Stubborn(ReferenceOperator):
    def update_weights(self, changed: Any) -> bool:
        raise MemoryError("no room for two engines")


def test_a_plan_that_cannot_be_taken_is_closed_and_the_old_one_stays() -> None:
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
