"""The engine cache in a session: what is found again, and that nothing wrong ever is."""

import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import CompileError, SubgraphkitWarning
from subgraphkit.finding.extensions import register_extension, unregister_extension
from subgraphkit.finding.registry import registered
from tests.fakes import claiming
from tests.models import parsed
from tests.ready import python_command
from tests.scripts import ROOT
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


def test_a_second_bind_compiles_nothing_and_computes_the_same() -> None:
    backend = storing()
    first, before = run(backend)
    second, after = run(backend)
    assert (backend.compilations, backend.restorations) == (1, 2)  # one for the proof
    assert (first.restored, second.restored) == (frozenset(), {"storing_0"})
    np.testing.assert_array_equal(before[0], EXPECTED)
    np.testing.assert_array_equal(after[0], EXPECTED)


def test_another_process_finds_the_engine(home: Path) -> None:
    told = home / "compilations"
    script = (
        "from tests.storing import Storing; from tests.unit.compiling.conftest import run;"
        "print(sorted(run(Storing)[0].restored))"
    )
    environment = {**os.environ, "COMPILATIONS": str(told)}
    for expected in ("[]", "['storing_0']"):
        done = subprocess.run(
            python_command("-c", script),
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == expected, done.stderr
    assert told.read_text().split() == ["storing_0"]


def test_the_same_model_under_other_names_uses_the_same_engine() -> None:
    backend = storing()
    run(backend)
    renamed = LINEAR
    for old, new in {"linear": "other", "x": "zz", "product": "p", "sum": "s", "bias": "b"}.items():
        renamed = renamed.replace(f"{old})", f"{new})").replace(f"{old},", f"{new},")
        renamed = renamed.replace(f"{old} =", f"{new} =").replace(f"] {old}", f"] {new}")
    assert renamed != LINEAR
    operators, results = run(backend, renamed)
    assert operators.restored == {"storing_0"}
    np.testing.assert_array_equal(results[0], EXPECTED)


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


def test_a_backend_may_restore_an_engine_with_what_it_knows_of_the_bind(home: Path) -> None:
    told: list[Any] = []

    class Restoring(sk.Backend):
        name = "restoring"

        def properties(self) -> list[sk.SubgraphProperty]:
            return [StoringProperty(storing()())]

        def fingerprint(self) -> str:
            return "one"

        def deserialize(
            self, blob: bytes, subgraph: sk.Subgraph, context: Any
        ) -> sk.SubgraphOperator:
            told.append((context.kept_folder(), context.reshape({"N": 4}, {})))
            return restored(blob)

    first, _ = run(Restoring)
    second, after = run(Restoring)
    assert (first.restored, second.restored) == (frozenset(), {"restoring_0"})
    np.testing.assert_array_equal(after[0], EXPECTED)
    _, (folder, types) = told  # the first for the proof
    assert folder == home / "cache/subgraphkit/backends/restoring"
    assert folder.is_dir()
    assert types["x"].shape[0] == 4


def test_two_models_that_differ_in_one_weight_have_two_engines() -> None:
    backend = storing()
    run(backend)
    _, results = run(backend, LINEAR.replace("{10, -20}", "{10, -2}"))
    assert backend.compilations == 2
    assert results[0].tolist() != EXPECTED.tolist()


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


class Listener:
    def __init__(self) -> None:
        self.heard: list[bool] = []

    @sk.hookimpl
    def subgraphkit_compiled(self, event: Any) -> None:
        self.heard.append(event.from_cache)


def test_extensions_hear_whether_an_engine_came_from_the_cache() -> None:
    listener = Listener()
    register_extension(listener, "listener")
    try:
        backend = storing()
        run(backend)
        run(backend)
    finally:
        unregister_extension("listener")
    assert listener.heard == [False, True]


def test_new_weights_are_compiled_past_the_cache(engines: Path) -> None:
    backend = storing()
    session = sk.InferenceSession(parsed(LINEAR), backend=[backend], shapes={"N": 3})
    assert session.update_weights({"bias": np.zeros(2, np.float32)}) == {"storing_0": "recompiled"}
    assert len(list(engines.glob("*.engine"))) == 1


def test_an_engine_that_cannot_be_restored_is_compiled_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run(storing())

    def failing(self: Any, *_: object, **__: object) -> Any:
        raise ValueError("made for another driver")

    broken = storing(deserialize=failing)
    with pytest.warns(SubgraphkitWarning, match=r"SGK155.*not kept.*made for another driver"):
        _, results = run(broken)
    assert broken.compilations == 1
    np.testing.assert_array_equal(results[0], EXPECTED)
    assert "failed to restore" in caplog.text


@pytest.mark.parametrize("returned", [None, 3, b"", object])
def test_what_deserialize_returns_has_to_be_an_operator(returned: object) -> None:
    run(storing())
    odd = storing(deserialize=lambda self, blob, subgraph, context: returned)
    with pytest.warns(SubgraphkitWarning, match=r"SGK155.*deserialize returned a"):
        _, results = run(odd)
    assert odd.compilations == 1
    np.testing.assert_array_equal(results[0], EXPECTED)


def _with_operator(make: type[ProgramOperator]) -> Any:
    class Property(StoringProperty):
        def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
            operator = super().create_operator(subgraph, context)
            assert isinstance(operator, ProgramOperator)
            return make(operator.program, operator.constants)

    return storing(properties=lambda self: [Property(self)])


def test_an_operator_that_fails_to_serialize_runs_all_the_same() -> None:
    class Failing(ProgramOperator):
        def serialize(self) -> bytes | None:
            raise RuntimeError("no room on the device")

    with pytest.warns(SubgraphkitWarning, match=r"SGK152.*store.*no room on the device"):
        _, results = run(_with_operator(Failing))
    np.testing.assert_array_equal(results[0], EXPECTED)


def test_what_serialize_returns_has_to_be_bytes() -> None:
    class Odd(ProgramOperator):
        def serialize(self) -> Any:
            return "text"

    with pytest.warns(SubgraphkitWarning, match="returned a str, expected bytes or None"):
        run(_with_operator(Odd))


def test_an_operator_that_cannot_be_stored_is_compiled_each_time(engines: Path) -> None:
    class Unstorable(ProgramOperator):
        def serialize(self) -> bytes | None:
            return None

    backend = _with_operator(Unstorable)
    for _ in range(2):
        run(backend)
    assert backend.compilations == 2
    assert list(engines.iterdir()) == []


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


def test_a_failure_to_compile_is_the_same_with_a_cache_and_leaves_no_lock(engines: Path) -> None:
    class Property(StoringProperty):
        def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
            raise RuntimeError("out of registers")

    with pytest.raises(CompileError, match="out of registers"):
        run(storing(properties=lambda self: [Property(self)]))
    assert list(engines.iterdir()) == []


def test_nodes_given_back_are_given_back_with_a_cache_too() -> None:
    class Property(StoringProperty):
        def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
            if len(subgraph.nodes) == 3:
                raise sk.Unsupported("too many", nodes=(2,))
            return super().create_operator(subgraph, context)

    backend = storing(properties=lambda self: [Property(self)])
    for _ in range(2):
        operators, results = run(backend)
        np.testing.assert_array_equal(results[0], EXPECTED)
        assert [s.backend for s in operators.partitioning.subgraphs] == ["storing", "numpy"]
    assert backend.compilations == 1


def test_a_log_at_info_level_tells_what_was_restored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "subgraphkit")
    run(storing())
    run(storing())
    assert "compiled storing_0 (3 nodes" in caplog.text
    assert "restored storing_0 (3 nodes" in caplog.text


def test_engines_that_are_in_the_cache_now_are_told() -> None:
    backend = storing()
    first, _ = run(backend)
    second, _ = run(backend)
    past, _ = run(backend, cache="off")
    small, _ = run(storing(name="other"), cache_size=1)
    assert (first.kept, second.kept) == ({"storing_0"}, {"storing_0"})
    assert (past.kept, small.kept) == (frozenset(), frozenset())
