"""Engines that are kept: compiled once, proved, and restored."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import ProbeResult
from subgraphkit.errors import SubgraphkitWarning
from subgraphkit.finding.registry import registered
from subgraphkit.placing import background
from tests.fakes import claiming, extended
from tests.models import parsed
from tests.storing import ProgramOperator, Storing, StoringProperty, restored, storing
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


def test_a_second_bind_compiles_nothing_and_computes_the_same(caplog):
    class Listener:
        heard: list[bool] = []  # noqa: RUF012 (one for this test)

        @sk.hookimpl
        def subgraphkit_compiled(self, event):
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


def test_equal_blocks_of_a_model_compile_once_and_blocks_with_other_weights_do_not():
    backend = storing()
    run(backend, BLOCKS)
    assert (backend.compilations, backend.restorations) == (2, 1 + 2)  # two for the proofs


def test_blocks_whose_weights_are_not_in_the_engine_share_one(engines):
    class Separate(ProgramOperator):
        def serialize(self):
            return ProgramOperator(self.program, ()).serialize()

    def deserialize(self, blob, subgraph, context):
        constants = [held.array() for held in subgraph.constants.values()]
        return Separate(restored(blob).program, constants)

    backend = storing(
        separate_weights=lambda self, subgraph: list(subgraph.constants),
        kind=Separate,
        deserialize=deserialize,
    )
    _, results = run(backend, BLOCKS)
    assert backend.compilations == 1
    assert len(list(engines.glob("*.engine"))) == 1
    _, expected = run(storing(), BLOCKS, cache=False)
    np.testing.assert_array_equal(results[0], expected[0])


def test_the_cache_can_be_switched_off(home):
    backend = storing()
    for _ in range(2):
        run(backend, cache="off")
    assert (backend.compilations, backend.restorations) == (2, 0)
    assert not (home / "cache").exists()


def test_a_backend_that_stores_nothing_never_touches_the_disk(home):
    partitioning = sk.partition(
        sk.bind(sk.load(parsed(LINEAR)), {"N": 1}), [claiming(["MatMul", "Add", "Relu"])]
    )
    sk.compile_subgraphs(partitioning)
    assert sorted(path.name for path in home.iterdir()) == []


def test_the_operators_of_another_backend_are_not_kept(engines):
    class Property(StoringProperty):
        def create_operator(self, subgraph, context):
            return context.compile(subgraph)

    backend = storing(properties=lambda self: [Property(self)])
    with registered(storing(name="other")):
        for _ in range(2):
            run(backend, fallback="other")
    assert backend.restorations == 0
    assert list(engines.glob("*.engine")) == []


def test_new_weights_are_compiled_past_the_cache(engines):
    backend = storing()
    session = sk.InferenceSession(parsed(LINEAR), backend=[backend], shapes={"N": 3})
    assert session.update_weights({"bias": np.zeros(2, np.float32)}) == {"storing_0": "recompiled"}
    assert len(list(engines.glob("*.engine"))) == 1


def _failing(self, *_, **__):
    raise ValueError("made for another driver")


@pytest.mark.parametrize(("deserialize", "text"), [
    (_failing, "made for another driver"),
    (lambda *_, **__: None, "deserialize returned a None"),
    (lambda *_, **__: object, "deserialize returned a type"),
])  # fmt: skip
def test_an_engine_that_cannot_be_restored_is_compiled_again(deserialize, text, caplog):
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
def test_an_operator_that_cannot_be_serialized_runs_all_the_same(serialize, text, monkeypatch):
    monkeypatch.setattr(ProgramOperator, "serialize", serialize)
    with pytest.warns(SubgraphkitWarning, match=f"SGK152.*store.*{text}"):
        _, results = run(storing())
    np.testing.assert_array_equal(results[0], EXPECTED)


def test_a_backend_without_identity_is_not_cached(engines):
    def failing(self):
        raise RuntimeError("no driver")

    with pytest.warns(SubgraphkitWarning, match=r"SGK152.*no driver"):
        _, results = run(storing(fingerprint=failing))
    np.testing.assert_array_equal(results[0], EXPECTED)
    assert list(engines.iterdir()) == []


def test_a_backend_whose_source_is_not_known_is_not_cached(engines, caplog):
    caplog.set_level(logging.INFO, "subgraphkit.cache")
    typed_in = storing(__module__="typed_in")
    typed_in.__mro__[1].__module__ = StoringProperty.__module__ = "typed_in"
    try:
        run(typed_in)
    finally:
        typed_in.__mro__[1].__module__ = StoringProperty.__module__ = storing.__module__
    assert "neither a version nor the source of the backend is known" in caplog.text
    assert list(engines.iterdir()) == []


_X = np.arange(6, dtype=np.float32).reshape(3, 2) - 2


def _rounding(self, blob, *_, **__):
    """Restore what has lost half of its digits."""
    type(self).restorations += 1
    found = restored(blob)
    rounded = [one.astype(np.float16).astype(one.dtype) * 1.01 for one in found.constants]
    return ProgramOperator(found.program, rounded)


def _opened(backend, text=LINEAR, **settings):
    return sk.InferenceSession(parsed(text), backend=[backend], shapes={"N": 3}, **settings)


def test_what_comes_back_with_less_precision_is_not_kept_and_told_once(engines):
    backend = storing(deserialize=_rounding)
    for number in (1, 2):
        with pytest.warns(SubgraphkitWarning, match=r"SGK155.*computes something else") as heard:
            operators, results = run(backend)
        assert len(heard) == 1
        assert operators.kept == frozenset()
        assert backend.compilations == number
        np.testing.assert_array_equal(results[0], EXPECTED)
    assert list(engines.iterdir()) == []


def test_weights_that_are_said_to_be_elsewhere_and_are_in_the_engine(engines):
    """One engine would serve Mul by 2 and Mul by 3."""
    backend = storing(separate_weights=lambda self, subgraph: list(subgraph.constants))
    text = "m (float[N] x) => (float[N] y) <float[1] w = {%s}> { y = Mul(x, w) }"
    for number in (2, 3):
        with pytest.warns(SubgraphkitWarning, match=r"SGK155.*they are in the engine"):
            _, (y,) = run(backend, text % number)
        np.testing.assert_array_equal(y, [-2 * number, -number, 0])
    assert list(engines.glob("*.engine")) == []


def test_random_numbers_are_no_difference(engines):
    class Drawing(ProgramOperator):
        def run(self, inputs, outputs=None):
            return [np.random.default_rng().random(one.shape, np.float32) for one in inputs]

    def deserialize(self, blob, subgraph, context):
        return Drawing(restored(blob).program, ())

    operators, _ = run(storing(kind=Drawing, deserialize=deserialize))
    assert operators.kept == {"storing_0"}


class _Picky(ProgramOperator):
    """Refuses what does not look like an arrangement of the user's."""

    def run(self, inputs, outputs=None):
        if not np.array_equal(inputs[0], np.floor(inputs[0])):
            raise ValueError("not what was agreed upon")
        return super().run(inputs, outputs)


def test_what_fails_on_made_up_inputs_is_not_kept_and_runs_all_the_same(engines):
    backend = storing(kind=_Picky)
    with pytest.warns(SubgraphkitWarning, match=r"SGK155.*storing_0 fails on made-up inputs: not"):
        operators, results = run(backend)
    assert operators.kept == frozenset()
    np.testing.assert_array_equal(results[0], EXPECTED)
    assert list(engines.iterdir()) == []


def test_what_is_built_for_another_machine_is_kept(engines):
    def probe(cls, *, deep=False):
        return ProbeResult(available=True, builds_only=True)

    operators, _ = run(storing(kind=_Picky, probe=classmethod(probe)))
    assert operators.kept == {"storing_0"}


def test_the_first_answer_does_not_wait_for_the_proof(engines):
    may_restore, asked = threading.Event(), threading.Event()

    def deserialize(self, blob, subgraph, context):
        asked.set()
        assert may_restore.wait(30)
        return restored(blob)

    session = _opened(storing(deserialize=deserialize))
    np.testing.assert_array_equal(session.run(None, {"x": _X})[0], EXPECTED)
    assert asked.wait(30)
    np.testing.assert_array_equal(session.run(None, {"x": _X})[0], EXPECTED)
    assert list(engines.glob("*.engine")) == []
    may_restore.set()
    session.close()
    assert len(list(engines.glob("*.engine"))) == 1


def test_a_session_that_is_never_idle_proves_beside_its_runs(engines, monkeypatch):
    monkeypatch.setattr(background, "_PAUSE_SECONDS", 0.1)
    may_end, began = threading.Event(), threading.Event()

    class Busy(ProgramOperator):
        def run(self, inputs, outputs=None):
            if np.array_equal(inputs[0], _X):
                began.set()
                assert may_end.wait(30)
            return super().run(inputs, outputs)

    with _opened(storing(kind=Busy)) as session, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(session.run, None, {"x": _X})
        assert began.wait(30)
        end = time.monotonic() + 30
        while not list(engines.glob("*.json")) and time.monotonic() < end:
            time.sleep(0.01)
        is_done = answer.done()
        may_end.set()
        np.testing.assert_array_equal(answer.result()[0], EXPECTED)
    assert not is_done
    assert len(list(engines.glob("*.engine"))) == 1


def test_a_session_that_is_closed_at_once_keeps_its_engines(engines):
    backend = storing()
    with _opened(backend) as session:
        assert backend.restorations == 0
    assert not session.weight_versions
    assert len(list(engines.glob("*.engine"))) == 1


def test_what_was_compiled_before_another_failed_is_kept(engines):
    class Property(StoringProperty):
        def create_operator(self, subgraph, context):
            if backend.compilations:
                raise RuntimeError("out of patience")
            return super().create_operator(subgraph, context)

    backend = storing(properties=lambda self: [Property(self)])
    with pytest.raises(sk.errors.CompileError, match="out of patience"):
        _opened(backend, BLOCKS)
    assert len(list(engines.glob("*.engine"))) == 1


def test_a_bundle_has_no_engine_that_comes_back_otherwise(home):
    backend = storing(deserialize=_rounding)
    session = _opened(backend, cache=False)
    with pytest.warns(SubgraphkitWarning, match=r"SGK155.*computes something else"):
        session.export(home / "bundle")
    session.close()
    assert list((home / "bundle").glob("*.engine")) == []
    with sk.InferenceSession(home / "bundle", backend=[backend]) as session:
        np.testing.assert_array_equal(session.run(None, {"x": _X})[0], EXPECTED)
    assert backend.compilations == 2


class Rounding(Storing):
    """Restores what has lost half of its digits, in a process of its own as well."""

    deserialize = _rounding


@pytest.mark.parametrize(("kind", "count"), [(Storing, 1), (Rounding, 0)])
def test_the_process_that_compiled_proves(engines, kind, count, recwarn):
    for _ in range(2):
        with _opened(kind, isolate="storing") as session:
            np.testing.assert_array_equal(session.run(None, {"x": _X})[0], EXPECTED)
        assert len(list(engines.glob("*.engine"))) == count
    assert any("SGK155" in str(one.message) for one in recwarn) is not bool(count)
