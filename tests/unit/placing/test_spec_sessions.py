"""Sessions and their specs: who has none, what is pickled, and one session for each process."""

import copy
import io
import pickle  # noqa: TID251 (what engines do with specs)
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.partitioning import Constraints
from tests.models import LINEAR, parsed
from tests.scripts import in_child
from tests.unit.placing.spec_support import ones_for, refusal, save_with_data

pytestmark = pytest.mark.usefixtures("elsewhere")

# -- sessions without a spec -----------------------------------------------------------------


@pytest.mark.parametrize("form", ["bytes", "proto", "model", "file"])
def test_a_session_of_what_no_other_process_reads_has_none(form):
    model = parsed(LINEAR)
    source: Any = {"proto": model, "bytes": model.SerializeToString()}.get(form)
    if form == "model":
        source = sk.load("m.onnx")
    if form == "file":
        source = io.BytesIO(Path("m.onnx").read_bytes())
    with sk.InferenceSession(source, "numpy") as session:
        text = refusal("SGK192", lambda: session.spec)
        assert "bundle" in text
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            refusal("SGK192", lambda way=way: way(session))
    refusal("SGK192", lambda: sk.SessionSpec.of(source))


def test_backends_progress_and_constraints_that_are_code_have_none():
    kind = sk.get_backend("numpy")
    assert "numpy" in refusal("SGK192", lambda: sk.SessionSpec.of("m.onnx", kind))
    assert "numpy" in refusal("SGK192", lambda: sk.InferenceSession("m.onnx", kind).spec)
    with sk.InferenceSession("m.onnx", "numpy", progress=lambda _: None) as session:
        assert "progress" in refusal("SGK192", lambda: session.spec)
    some = Constraints(pins={lambda _: True: "numpy"})
    refusal("SGK192", lambda: sk.SessionSpec.of("m.onnx", "numpy", constraints=some))
    strange = {"numpy": {"x": object()}}
    refusal("SGK192", lambda: sk.SessionSpec.of("m.onnx", "numpy", options=strange))


def test_a_session_whose_weights_or_file_changed_has_none():
    save_with_data("big.onnx", 1.0)
    with sk.InferenceSession("big.onnx", "numpy") as session:
        spec = session.spec
        session.update_weights({"w": np.zeros((4, 4), np.float32)})
        assert "export" in refusal("SGK192", lambda: session.spec)
    with sk.InferenceSession("big.onnx", "numpy") as session:
        assert session.spec == spec
        Path("w.bin").write_bytes(np.full((4, 4), 2.0, np.float32).tobytes())
        assert "big.onnx" in refusal("SGK192", lambda: session.spec)


def test_a_session_of_a_plan_is_not_pickled_nor_copied():
    found = sk.partition(sk.bind(sk.load("m.onnx"), backend="numpy"))
    with sk.Session(sk.plan(found, sk.compile_subgraphs(found))) as session:
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            assert "InferenceSession" in refusal("SGK192", lambda way=way: way(session))


class _Mine(sk.InferenceSession):
    pass


def test_a_session_arrives_as_one_that_its_spec_opened():
    with sk.InferenceSession("m.onnx", "numpy", threads=1) as session:
        feeds = ones_for(session)
        expected = session.run(None, feeds)
        for way in (lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy):
            with way(session) as again:
                assert type(again) is sk.InferenceSession
                assert again is not session
                assert again.spec == session.spec
                np.testing.assert_array_equal(again.run(None, feeds)[0], expected[0])
    with _Mine("m.onnx", "numpy") as derived:
        assert derived.spec == sk.SessionSpec.of("m.onnx", "numpy")
        assert "_Mine" in refusal("SGK192", lambda: pickle.dumps(derived))


# -- one session for each process ------------------------------------------------------------


def test_get_opens_once_whoever_asks_and_again_once_it_is_closed():
    spec = sk.SessionSpec.of("m.onnx", "numpy", timeout_s=77)
    barrier = threading.Barrier(8)

    def ask(_):
        barrier.wait()
        return pickle.loads(pickle.dumps(spec)).get()  # type: ignore[no-any-return]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(set(map(id, found))) == 1
    first = found[0]
    assert spec.get() is first
    first.close()
    second = spec.get()
    assert second is not first
    spec.release()
    assert "SGK144" in refusal("SGK144", lambda: second.run(None, ones_for(second)))
    spec.release()
    third = spec.get()
    assert third is not second
    spec.release()


def test_a_forked_child_has_a_session_of_its_own_and_leaves_the_parents_alone():
    spec = sk.SessionSpec.of("m.onnx", "numpy", timeout_s=80)
    mine = spec.get()

    def elsewhere():
        theirs = spec.get()
        fine = theirs is not mine and bool(theirs.run(None, ones_for(theirs)))
        spec.release()
        return fine

    assert in_child(elsewhere) == "True"
    assert spec.get() is mine
    mine.run(None, ones_for(mine))
    spec.release()


def test_a_spec_has_its_session_warmed_up(monkeypatch):
    runs: list[Any] = []
    monkeypatch.setattr(sk.InferenceSession, "warm_up", lambda _, shapes=None: runs.append(shapes))
    sk.SessionSpec.of("m.onnx", "numpy").open().close()
    assert runs == []
    sk.SessionSpec.of("m.onnx", "numpy", warm_up=True).open().close()
    sk.SessionSpec.of("m.onnx", "numpy", warm_up={"n": 5}).open().close()
    assert runs == [None, {"n": 5}]
