"""Storing and restoring, missing libraries, wrong options, failures while compiling."""

import sys
import threading
import warnings
from importlib.util import find_spec

import numpy as np
import pytest

import subgraphkit as sk
from backends.tvm.tests.tvm_models import dense, homes, open_tvm, operators, parsed, refusals
from subgraphkit.backend import BindContext
from subgraphkit_tvm import TvmBackend, backend, building, claims, tuning
from subgraphkit_tvm.library import quiet

X = np.random.default_rng(1).standard_normal((5, 48)).astype(np.float32)


def test_the_probe_names_the_library_and_the_processor():
    found = TvmBackend.probe(deep=True)
    assert found.available
    assert found.devices[0].startswith("cpu (")
    assert "apache-tvm" in found.versions


def test_an_engine_can_be_stored_and_serves_other_weights():
    model, weights = dense()
    other, other_weights = dense(seed=5)
    with open_tvm(model) as session, open_tvm(other, backend="tvm") as second:
        (operator,) = operators(session)
        blob = operator.serialize()
        assert operator.info()["storable"]
        (subgraph,) = second.partitioning.subgraphs
        assert set(TvmBackend().separate_weights(subgraph)) == {"w", "b"}
        restored = TvmBackend().deserialize(blob, subgraph, BindContext())
        (y,) = restored.run([X])
        wanted = np.maximum(X @ other_weights["w"] + other_weights["b"], 0)
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
        assert restored.update_weights(weights)
        np.testing.assert_array_equal(restored.run([X])[0], operator.run([X])[0])


def test_a_second_session_takes_the_code_from_the_cache(tmp_path, monkeypatch):
    model, _ = dense()
    other, weights = dense(seed=7)
    with open_tvm(model, cache=True, cache_dir=str(tmp_path)):
        pass

    def build(lowered):
        raise AssertionError(f"compiled again: {lowered}")

    monkeypatch.setattr(backend, "build", build)
    with open_tvm(other, cache=True, cache_dir=str(tmp_path)) as session:
        (y,) = session.run(None, {"x": X})
    wanted = np.maximum(X @ weights["w"] + weights["b"], 0)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


def test_without_a_linker_code_is_compiled_in_memory_and_not_stored(monkeypatch):
    def no_linker(executable):
        raise RuntimeError(f"no compiler for {type(executable).__name__}")

    monkeypatch.setattr(building, "link", no_linker)
    model, weights = dense()
    with open_tvm(model) as session:
        (operator,) = operators(session)
        assert operator.serialize() is None
        assert not operator.info()["storable"]
        (y,) = session.run(None, {"x": X})
    wanted = np.maximum(X @ weights["w"] + weights["b"], 0)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


def test_a_node_that_only_fails_when_compiled_is_given_back_alone(monkeypatch):
    monkeypatch.setattr(claims, "judge_by_rule", lambda node: None)
    model = parsed("g (float[4] x) => (float[4] y) { a = Relu(x) b = Sinh(a) y = Neg(b) }")
    with open_tvm(model) as session:
        assert homes(session) == [("tvm", (0,)), ("numpy", (1,)), ("tvm", (2,))]
        assert "TVM: " in refusals(session, 1)[0][1]
        (y,) = session.run(None, {"x": np.ones(4, np.float32)})
    np.testing.assert_allclose(y, -np.sinh(np.ones(4)), rtol=1e-6)


def test_tuning_without_what_it_needs_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr(tuning, "_NEEDED", ("numpy", "a_library_that_nobody_has"))
    told = r"(?s)SGK104.*a_library_that_nobody_has.*subgraphkit-tvm\[tuning"
    with pytest.raises(sk.SubgraphkitError, match=told):
        open_tvm(dense()[0], options={"tvm": {"tuning": "metaschedule"}})


def test_tuning_needs_a_directory(monkeypatch):
    monkeypatch.setattr(tuning, "_NEEDED", ())
    with pytest.raises(sk.SubgraphkitError, match=r"SGK112.*tuning_dir"):
        open_tvm(dense()[0], options={"tvm": {"tuning": "metaschedule"}})


@pytest.mark.skipif(
    any(find_spec(name) is None for name in tuning._NEEDED), reason="extra 'tuning' not installed"
)
def test_tuning_finds_code_that_is_right_and_remembers_it(tmp_path):
    if not tuning._json_works():
        pytest.skip("the installed apache-tvm-ffi crashes TVM when it writes records")
    model, weights = dense()
    options = {"tvm": {"tuning": "metaschedule", "tuning_trials": 2, "tuning_dir": str(tmp_path)}}
    with open_tvm(model, options=options) as session:
        assert {backend for backend, _ in homes(session)} == {"tvm"}
        (y,) = session.run(None, {"x": X})
    wanted = np.maximum(X @ weights["w"] + weights["b"], 0)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
    assert (tmp_path / "database_tuning_record.json").stat().st_size > 0


def test_only_a_thread_that_asks_to_be_quiet_is(capsys):
    stream = sys.stdout
    asked, done = threading.Event(), threading.Event()

    def other():
        sys.stdout.write("heard\n")
        with quiet():
            asked.set()
            done.wait(60)
            sys.stdout.write("unheard\n")

    thread = threading.Thread(target=other)
    with quiet():
        sys.stdout.write("unheard\n")
        thread.start()
        assert asked.wait(60)
    sys.stdout.write("heard again\n")
    done.set()
    thread.join(60)
    assert capsys.readouterr().out == "heard\nheard again\n"
    assert sys.stdout is stream


def test_only_what_tvm_warns_about_is_kept_from_the_user():
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with quiet():
            for module in ("numpy", "tvm.relax"):
                warnings.warn_explicit(f"of {module}", UserWarning, "file.py", 1, module=module)
    assert [str(one.message) for one in warned] == ["of numpy"]
