"""The engine cache in a session: what is found again, and that nothing wrong ever is."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import SubgraphkitWarning
from subgraphkit.finding.registry import registered
from tests.fakes import claiming, extended
from tests.models import parsed
from tests.storing import ProgramOperator, StoringProperty, restored, storing
from tests.unit.compiling.cache_checks import EXPECTED
from tests.unit.compiling.conftest import LINEAR, run

BLOCKS = """
blocks (float[N] x) => (float[N] y)
<float[3] w1 = {1, 2, 3}, float[3] w2 = {1, 2, 3}, float[3] w3 = {5, 6, 7}>
{
  a1 = Mul(x, w1)
  b1 = Relu(a1)
  c1 = Exp(b1)
  a2 = Mul(c1, w2)
  b2 = Relu(a2)
  c2 = Exp(b2)
  a3 = Mul(c2, w3)
  y = Relu(a3)
}
"""


def test_a_second_bind_compiles_nothing_and_computes_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Listener:
        heard: list[bool] = []  # noqa: RUF012 (one for this test)

        @sk.hookimpl
        def subgraphkit_compiled(self, event: Any) -> None:
            self.heard.append(event.from_cache)

    caplog.set_level(logging.INFO, "subgraphkit")
    backend = storing()
    with extended(Listener()):
        first, before = run(backend)
        second, after = run(backend)
    assert (backend.compilations, backend.restorations) == (1, 2)  # one for the proof
    assert (first.restored, second.restored) == (frozenset(), {"storing_0"})
    assert (first.kept, second.kept) == ({"storing_0"}, {"storing_0"})
    assert Listener.heard == [False, True]
    assert "compiled storing_0 (3 nodes" in caplog.text
    assert "restored storing_0 (3 nodes" in caplog.text
    np.testing.assert_array_equal(before[0], EXPECTED)
    np.testing.assert_array_equal(after[0], EXPECTED)


def test_equal_blocks_of_a_model_compile_once_and_blocks_with_other_weights_do_not() -> None:
    backend = storing()
    run(backend, BLOCKS)
    assert (backend.compilations, backend.restorations) == (2, 1 + 2)  # two for the proofs


def test_blocks_whose_weights_are_not_in_the_engine_share_one(engines: Path) -> None:
    class Separate(ProgramOperator):
        def serialize(self) -> bytes | None:
            return ProgramOperator(self.program, ()).serialize()

    class Property(StoringProperty):
        def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
            operator = super().create_operator(subgraph, context)
            assert isinstance(operator, ProgramOperator)
            return Separate(operator.program, operator.constants)

    def deserialize(
        self: Any, blob: bytes, subgraph: sk.Subgraph, context: Any
    ) -> sk.SubgraphOperator:
        constants = [held.array() for held in subgraph.constants.values()]
        return Separate(restored(blob).program, constants)

    backend = storing(
        separate_weights=lambda self, subgraph: list(subgraph.constants),
        properties=lambda self: [Property(self)],
        deserialize=deserialize,
    )
    _, results = run(backend, BLOCKS)
    assert backend.compilations == 1
    assert len(list(engines.glob("*.engine"))) == 1
    _, expected = run(storing(), BLOCKS, cache=False)
    np.testing.assert_array_equal(results[0], expected[0])


def test_the_cache_can_be_switched_off(home: Path) -> None:
    backend = storing()
    for _ in range(2):
        run(backend, cache="off")
    assert (backend.compilations, backend.restorations) == (2, 0)
    assert not (home / "cache").exists()


def test_a_backend_that_stores_nothing_never_touches_the_disk(home: Path) -> None:
    partitioning = sk.partition(
        sk.bind(sk.load(parsed(LINEAR)), {"N": 1}), [claiming(["MatMul", "Add", "Relu"])]
    )
    sk.compile_subgraphs(partitioning)
    assert sorted(path.name for path in home.iterdir()) == []


def test_the_operators_of_another_backend_are_not_kept(engines: Path) -> None:
    class Property(StoringProperty):
        def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
            return context.compile(subgraph)

    backend = storing(properties=lambda self: [Property(self)])
    with registered(storing(name="other")):
        for _ in range(2):
            run(backend, fallback="other")
    assert backend.restorations == 0
    assert list(engines.glob("*.engine")) == []


def test_new_weights_are_compiled_past_the_cache(engines: Path) -> None:
    backend = storing()
    session = sk.InferenceSession(parsed(LINEAR), backend=[backend], shapes={"N": 3})
    assert session.update_weights({"bias": np.zeros(2, np.float32)}) == {"storing_0": "recompiled"}
    assert len(list(engines.glob("*.engine"))) == 1


def _failing(self: Any, *_: object, **__: object) -> Any:
    raise ValueError("made for another driver")


@pytest.mark.parametrize(
    ("deserialize", "text"),
    [
        (_failing, "made for another driver"),
        (lambda *_, **__: None, "deserialize returned a None"),
        (lambda *_, **__: object, "deserialize returned a type"),
    ],
)
def test_an_engine_that_cannot_be_restored_is_compiled_again(
    deserialize: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(storing())
    broken = storing(deserialize=deserialize)
    with pytest.warns(SubgraphkitWarning, match=rf"SGK155.*not kept.*{text}"):
        _, results = run(broken)
    assert broken.compilations == 1
    np.testing.assert_array_equal(results[0], EXPECTED)
    assert "failed to restore" in caplog.text


@pytest.mark.parametrize(
    ("serialize", "text"),
    [(_failing, "made for another driver"), (lambda self: 3, "returned a int, expected bytes")],
)
def test_an_operator_that_cannot_be_serialized_runs_all_the_same(
    serialize: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProgramOperator, "serialize", serialize)
    with pytest.warns(SubgraphkitWarning, match=f"SGK152.*store.*{text}"):
        _, results = run(storing())
    np.testing.assert_array_equal(results[0], EXPECTED)


def test_a_backend_without_identity_is_not_cached(engines: Path) -> None:
    def failing(self: Any) -> str:
        raise RuntimeError("no driver")

    with pytest.warns(SubgraphkitWarning, match=r"SGK152.*no driver"):
        _, results = run(storing(fingerprint=failing))
    np.testing.assert_array_equal(results[0], EXPECTED)
    assert list(engines.iterdir()) == []


def test_a_backend_whose_source_is_not_known_is_not_cached(
    engines: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "subgraphkit.cache")
    typed_in = storing(__module__="typed_in")
    typed_in.__mro__[1].__module__ = StoringProperty.__module__ = "typed_in"
    try:
        run(typed_in)
    finally:
        typed_in.__mro__[1].__module__ = StoringProperty.__module__ = storing.__module__
    assert "neither a version nor the source of the backend is known" in caplog.text
    assert list(engines.iterdir()) == []
