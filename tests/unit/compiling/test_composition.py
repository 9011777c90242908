"""The operators of a divided subgraph as one: run, given new weights, closed and cached."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import ON_DEVICE, Progress, Traits
from subgraphkit.compiling.composition import ComposedOperator
from subgraphkit.errors import ExecutionError
from tests.fakes import ReferenceOperator, WeightedOperator, failing
from tests.models import bound, parsed
from tests.storing import Storing, StoringProperty, storing
from tests.unit.compiling.dividing import DIVIDED, OUTER, Inner, X, dividing, session
from tests.unit.partitioning.pass_support import backend

# -- running -------------------------------------------------------------------------------------


class Noting(ReferenceOperator):
    """Notes what it is called with."""

    device = "cuda:0"
    traits = Traits(thread_safe=True)
    log: list[Any]

    def run(self, inputs, outputs=None):
        self.log.append(outputs)
        return super().run(inputs)


def composed(subgraph_operators):
    (outer,) = sk.partition(bound(DIVIDED, N=2), [backend("acme", Inner(OUTER))]).subgraphs
    found = sk.partition(outer, [Inner(["Mul", "Add"]), Inner(["Relu", "Neg"])])
    parts = [(one, subgraph_operators[one.id](one)) for one in found.subgraphs]
    return ComposedOperator(found.graph, parts)


def test_values_between_regions_of_one_device_stay_there():
    class On(Noting):
        log: list[Any] = []  # noqa: RUF012 (one for this test)

    operator = composed(dict.fromkeys(["acme_0", "acme_2", "acme_4"], On))
    assert operator.device == "cuda:0"
    operator.run([X])
    assert On.log == [(ON_DEVICE,), (ON_DEVICE, ON_DEVICE), None]
    On.log.clear()
    room = np.empty_like(X)
    operator.run([X], [ON_DEVICE, room])
    assert On.log[-1][0] is ON_DEVICE
    assert On.log[-1][1] is room


def test_a_run_that_is_cancelled_ends_before_the_next_region():
    progress = Progress()

    class Cancelling(Noting):
        log: list[Any] = []  # noqa: RUF012 (one for this test)

        def run_stoppable(self, given, inputs, outputs=None):
            if len(self.log) == 1:
                given.cancel(TimeoutError("late"))
            return super().run_stoppable(given, inputs, outputs)

    operator = composed(dict.fromkeys(["acme_0", "acme_2", "acme_4"], Cancelling))
    with pytest.raises(TimeoutError, match="late") as caught:
        operator.run_stoppable(progress, [X])
    assert len(Cancelling.log) == 2
    assert "It happened in" in caught.value.__notes__[0]
    Cancelling.log = [None, None]
    assert len(operator.run_stoppable(Progress(), [X])) == len(operator.run([X]))


def test_an_operator_that_is_not_thread_safe_is_run_by_one_thread_at_a_time():
    class Alone(ReferenceOperator):
        inside = 0
        most = 0

        def run(self, inputs, outputs=None):
            Alone.inside += 1
            Alone.most = max(Alone.most, Alone.inside)
            try:
                return super().run(inputs)
            finally:
                Alone.inside -= 1

    operator = composed({"acme_0": Alone, "acme_2": ReferenceOperator, "acme_4": ReferenceOperator})
    assert operator.traits.thread_safe
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(operator.run, [[X]] * 80))
    assert Alone.most == 1


def test_a_failure_while_running_names_the_inner_region():
    wrong = failing(FloatingPointError, "lost")

    def make(subgraph, context):
        return wrong(subgraph) if 4 in subgraph.nodes else ReferenceOperator(subgraph)

    with session(dividing(Inner(["Mul", "Add"], make))) as run:
        with pytest.raises(ExecutionError, match=r"'acme_0'.*lost") as caught:
            run.run(None, {"x": X})
        (note,) = caught.value.__cause__.__notes__  # type: ignore[union-attr]
        assert "Subgraph('acme_4', 2 nodes" in note
        assert "backend 'acme'" in note


def test_closing_closes_every_operator_inside():
    made: list[ReferenceOperator] = []

    def make(subgraph, context):
        made.append(ReferenceOperator(subgraph))
        return made[-1]

    session(dividing(Inner(["Mul", "Add"], make))).close()
    assert [one.closed for one in made] == [1, 1]


# -- new weights ---------------------------------------------------------------------------------


class Stubborn(ReferenceOperator):
    """Takes no new weights."""


def weighted(of):
    return lambda subgraph, context: of(subgraph)(subgraph)


def with_weights(**weights):
    with sk.InferenceSession(parsed(DIVIDED.replace("Add(e, d)", "Add(e, c)")), "numpy") as run:
        run.update_weights(weights)
        return run.run(None, {"x": X})


@pytest.mark.parametrize(
    ("last", "outcome"), [(WeightedOperator, "refitted"), (Stubborn, "recompiled")]
)
def test_all_operators_inside_take_new_weights_or_the_region_is_compiled_again(last, outcome):
    model = DIVIDED.replace("Add(e, d)", "Add(e, c)")
    make = weighted(lambda subgraph: last if 5 in subgraph.nodes else WeightedOperator)
    new = np.array([5, 7], np.float32)
    with session(dividing(Inner(["Mul", "Add"], make)), model=model) as run:
        assert run.update_weights({"w": new}) == {"acme_0": outcome}
        np.testing.assert_equal(run.run(None, {"x": X}), with_weights(w=new))


def test_operators_that_took_new_weights_give_them_back_if_others_do_not():
    class Takes(WeightedOperator):
        taken: list[Any] = []  # noqa: RUF012 (one for this test)

        def update_weights(self, changed):
            self.taken.append({name: value.tolist() for name, value in changed.items()})
            return super().update_weights(changed)

    operator = composed({"acme_0": Takes, "acme_2": ReferenceOperator, "acme_4": Stubborn})
    before = operator.run([X])
    assert not operator.update_weights({"w": np.array([5, 7], np.float32)})
    assert Takes.taken == [{"w": [5, 7]}, {"w": [1, 2]}]
    np.testing.assert_equal(operator.run([X]), before)


# -- the cache -----------------------------------------------------------------------------------


class DividingProperty(StoringProperty):
    """Divides what it claims among properties that store what they compile."""

    name = "dividing"

    def create_operator(self, subgraph, context):
        inner = StoringProperty(self.backend)
        inner.max_nodes = 1
        return context.compile(context.partition(subgraph, [inner]))


@pytest.fixture
def _cached(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.usefixtures("_cached")
def test_engines_inside_are_kept_one_by_one():
    made: type[Storing] = storing(properties=lambda self: [DividingProperty(self)])
    model = "m (float[2] x) => (float[2] y) { a = Relu(x) b = Add(a, a) y = Relu(b) }"
    for _ in range(2):
        compiled = sk.compile_subgraphs(sk.partition(bound(model), [made]))
        assert [one.id for one in compiled.partitioning.subgraphs] == ["storing_0"]
        assert (compiled.kept, compiled.restored) == (frozenset(), frozenset())
    # The two Relu are one engine.
    assert (made.compilations, made.restorations) == (2, 1 + 3 + 2)  # two for the proofs


@pytest.mark.usefixtures("_cached")
def test_a_region_that_is_all_of_the_subgraph_waits_for_no_lock_of_its_own():
    class Same(DividingProperty):
        def create_operator(self, subgraph, context):
            if self.inside:
                return StoringProperty.create_operator(self, subgraph, context)
            inner = Same(self.backend)
            inner.inside = True
            return context.compile(context.partition(subgraph, [inner]))

        inside = False

    made = storing(properties=lambda self: [Same(self)])
    model = "m (float[2] x) => (float[2] y) { y = Relu(x) }"
    compiled = sk.compile_subgraphs(sk.partition(bound(model), [made]))
    np.testing.assert_array_equal(compiled[0].run([X[0]])[0], [1, 0])
    assert made.compilations == 1
