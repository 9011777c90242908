"""Processors of a session: what each operator is told of threads, and of others who have some."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Traits
from tests.fakes import ReferenceOperator, claiming
from tests.models import CHAIN, bound, parsed
from tests.storing import restored, storing

X = np.ones((2, 4), np.float32)
Told = list[tuple[str, int | None, bool]]


def listening(told, name, operators, pool, gives_back=()):
    """Make a backend that notes down what its operators are told."""

    def create_operator(self, subgraph, context):
        mine = tuple(node for node in gives_back if node in subgraph.nodes)
        if mine:
            raise sk.Unsupported("too hard", nodes=mine)
        told.append((name, context.threads, context.shares_processors))
        return ReferenceOperator(subgraph)

    made = claiming(operators, name, create_operator=create_operator)
    made.traits = Traits(pool=pool)
    return made


def test_a_backend_that_takes_everything_shares_with_nobody():
    told: Told = []
    alone = listening(told, "a", ("Relu", "Neg"), "spins")
    sk.compile_subgraphs(sk.partition(bound(CHAIN, N=2), [alone]))
    assert [shares for *_, shares in told] == [False]


@pytest.mark.parametrize(
    ("pool", "shares"), [("none", False), ("sleeps", True), ("spins", True), ("unknown", True)]
)
def test_processors_are_shared_where_two_backends_have_threads(pool, *, shares):
    told: Told = []
    first = listening(told, "a", ("Relu",), "sleeps")
    second = listening(told, "b", ("Neg",), pool)
    sk.compile_subgraphs(sk.partition(bound(CHAIN, N=2), [first, second]))
    assert {name for name, *_ in told} == {"a", "b"}
    assert {answer for *_, answer in told} == {shares}


@pytest.mark.parametrize(("pool", "shares"), [("sleeps", False), ("spins", True)])
def test_subgraphs_of_one_backend_share_processors_if_each_has_threads_that_spin(pool, *, shares):
    told: Told = []
    ends = listening(told, "a", ("Relu",), pool)
    middle = listening(told, "b", ("Neg",), "none")
    sk.compile_subgraphs(sk.partition(bound(CHAIN, N=2), [ends, middle]))
    assert [(name, answer) for name, _, answer in told] == [
        ("a", shares), ("b", shares), ("a", shares)
    ]  # fmt: skip


def test_who_may_spin_and_was_told_otherwise_is_compiled_again_when_another_comes():
    told: Told = []
    first = listening(told, "a", ("Neg",), "spins")
    picky = listening(told, "b", ("Relu",), "none", gives_back=(2,))
    last = listening(told, "c", ("Relu",), "sleeps")
    made = sk.compile_subgraphs(sk.partition(bound(CHAIN, N=2), [first, picky, last]))
    answers = [(name, shares) for name, _, shares in told]
    assert answers == [("b", False), ("a", False), ("a", True), ("c", True)]
    assert [operator.closed for operator in made] == [0, 0, 0]  # type: ignore[attr-defined]
    session = sk.Session(sk.plan(made.origin, made))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.zeros((2, 4)))


def test_a_backend_that_restores_an_engine_is_told_as_well(tmp_path):
    told: list[tuple[int | None, bool]] = []

    def deserialize(self, blob, subgraph, context):
        told.append((context.threads, context.shares_processors))
        return restored(blob)

    keeping = storing(operators=("Relu",), deserialize=deserialize)
    other = listening([], "b", ("Neg",), "sleeps")
    for _ in range(2):
        sk.InferenceSession(
            parsed(CHAIN), [keeping, other], shapes={"N": 2}, threads=2, cache_dir=tmp_path
        )
    assert told
    assert set(told) == {(2, True)}


def test_the_configuration_of_a_session_names_who_promises_nothing():
    told: Told = []
    unsaid = listening(told, "a", ("Relu",), "unknown")
    second = listening(told, "b", ("Neg",), "sleeps")
    session = sk.InferenceSession(
        parsed(CHAIN), backend=[unsaid, second], shapes={"N": 2}, threads=1
    )
    rows = {key: rest for key, *rest in session.resolved_config.as_table()}
    assert rows["threads"][0] == "1"
    assert rows["threads.a"][1:] == ["backend", "backend 'a' does not say that it obeys"]
    assert "threads.b" not in rows
