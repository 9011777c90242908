"""Engines are kept only if they were seen to come back as what was compiled."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import ProbeResult
from subgraphkit.errors import SubgraphkitWarning
from subgraphkit.placing import background
from tests.models import parsed
from tests.storing import ProgramOperator, Storing, StoringProperty, restored, storing
from tests.unit.compiling.cache_checks import EXPECTED
from tests.unit.compiling.conftest import LINEAR, run
from tests.unit.compiling.test_cache import BLOCKS

_X = np.arange(6, dtype=np.float32).reshape(3, 2) - 2


def _with(make: Callable[[ProgramOperator], sk.SubgraphOperator], **members: Any) -> Any:
    """Return a backend that makes something else of what was compiled."""

    class Property(StoringProperty):
        def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
            operator = super().create_operator(subgraph, context)
            assert isinstance(operator, ProgramOperator)
            return make(operator)

    return storing(properties=lambda self: [Property(self)], **members)


def _rounding(self: Any, blob: bytes, *_: object, **__: object) -> ProgramOperator:
    """Restore what has lost half of its digits."""
    type(self).restorations += 1
    found = restored(blob)
    rounded = [one.astype(np.float16).astype(one.dtype) * 1.01 for one in found.constants]
    return ProgramOperator(found.program, rounded)


def _opened(backend: Any, text: str = LINEAR, **settings: Any) -> sk.InferenceSession:
    return sk.InferenceSession(parsed(text), backend=[backend], shapes={"N": 3}, **settings)


def test_what_comes_back_with_less_precision_is_not_kept_and_told_once(engines: Path) -> None:
    backend = storing(deserialize=_rounding)
    for number in (1, 2):
        with pytest.warns(SubgraphkitWarning, match=r"SGK155.*computes something else") as heard:
            operators, results = run(backend)
        assert len(heard) == 1
        assert operators.kept == frozenset()
        assert backend.compilations == number
        np.testing.assert_array_equal(results[0], EXPECTED)
    assert list(engines.iterdir()) == []


def test_weights_that_are_said_to_be_elsewhere_and_are_in_the_engine(engines: Path) -> None:
    """One engine would serve Mul by 2 and Mul by 3."""
    backend = storing(separate_weights=lambda self, subgraph: list(subgraph.constants))
    text = "m (float[N] x) => (float[N] y) <float[1] w = {%s}> { y = Mul(x, w) }"
    for number in (2, 3):
        with pytest.warns(SubgraphkitWarning, match=r"SGK155.*they are in the engine"):
            _, (y,) = run(backend, text % number)
        np.testing.assert_array_equal(y, [-2 * number, -number, 0])
    assert list(engines.glob("*.engine")) == []


def test_random_numbers_are_no_difference(engines: Path) -> None:
    class Drawing(ProgramOperator):
        def run(self, inputs: Sequence[Any], outputs: Any = None) -> Sequence[Any]:
            return [np.random.default_rng().random(one.shape, np.float32) for one in inputs]

    def deserialize(
        self: Any, blob: bytes, subgraph: sk.Subgraph, context: Any
    ) -> sk.SubgraphOperator:
        return Drawing(restored(blob).program, ())

    operators, _ = run(_with(lambda one: Drawing(one.program, ()), deserialize=deserialize))
    assert operators.kept == {"storing_0"}


class _Picky(ProgramOperator):
    """Refuses what does not look like an arrangement of the user's."""

    def run(self, inputs: Sequence[Any], outputs: Any = None) -> Sequence[Any]:
        if not np.array_equal(inputs[0], np.floor(inputs[0])):
            raise ValueError("not what was agreed upon")
        return super().run(inputs, outputs)


def _picky(one: ProgramOperator) -> ProgramOperator:
    return _Picky(one.program, one.constants)


def test_what_fails_on_made_up_inputs_is_not_kept_and_runs_all_the_same(engines: Path) -> None:
    backend = _with(_picky)
    with pytest.warns(SubgraphkitWarning, match=r"SGK155.*storing_0 fails on made-up inputs: not"):
        operators, results = run(backend)
    assert operators.kept == frozenset()
    np.testing.assert_array_equal(results[0], EXPECTED)
    assert list(engines.iterdir()) == []


def test_what_is_built_for_another_machine_is_kept(engines: Path) -> None:
    def probe(cls: Any, *, deep: bool = False) -> ProbeResult:
        return ProbeResult(available=True, builds_only=True)

    operators, _ = run(_with(_picky, probe=classmethod(probe)))
    assert operators.kept == {"storing_0"}


def test_the_first_answer_does_not_wait_for_the_proof(engines: Path) -> None:
    may_restore, asked = threading.Event(), threading.Event()

    def deserialize(
        self: Any, blob: bytes, subgraph: sk.Subgraph, context: Any
    ) -> sk.SubgraphOperator:
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


def test_a_session_that_is_never_idle_proves_beside_its_runs(
    engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_PAUSE_SECONDS", 0.1)
    may_end, began = threading.Event(), threading.Event()

    class Busy(ProgramOperator):
        def run(self, inputs: Sequence[Any], outputs: Any = None) -> Sequence[Any]:
            if np.array_equal(inputs[0], _X):
                began.set()
                assert may_end.wait(30)
            return super().run(inputs, outputs)

    backend = _with(lambda one: Busy(one.program, one.constants))
    with _opened(backend) as session, ThreadPoolExecutor(1) as pool:
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


def test_a_session_that_is_closed_at_once_keeps_its_engines(engines: Path) -> None:
    backend = storing()
    with _opened(backend) as session:
        assert backend.restorations == 0
    assert not session.weight_versions
    assert len(list(engines.glob("*.engine"))) == 1


def test_what_was_compiled_before_another_failed_is_kept(engines: Path) -> None:
    class Property(StoringProperty):
        def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
            if backend.compilations:
                raise RuntimeError("out of patience")
            return super().create_operator(subgraph, context)

    backend = storing(properties=lambda self: [Property(self)])
    with pytest.raises(sk.errors.CompileError, match="out of patience"):
        _opened(backend, BLOCKS)
    assert len(list(engines.glob("*.engine"))) == 1


def test_a_bundle_has_no_engine_that_comes_back_otherwise(home: Path) -> None:
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
def test_the_process_that_compiled_proves(
    engines: Path, kind: type[Storing], count: int, recwarn: pytest.WarningsRecorder
) -> None:
    for _ in range(2):
        with _opened(kind, isolate="storing") as session:
            np.testing.assert_array_equal(session.run(None, {"x": _X})[0], EXPECTED)
        assert len(list(engines.glob("*.engine"))) == count
    assert any("SGK155" in str(one.message) for one in recwarn) is not bool(count)
