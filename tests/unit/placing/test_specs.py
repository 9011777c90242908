"""Specs of sessions: what they hold, how they travel, and the sessions they open."""

import copy
import io
import json
import multiprocessing
import os
import pickle  # noqa: TID251 (what engines do with specs)
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import subgraphkit as sk
from subgraphkit.configuration.settings import SETTINGS, OtherSettings
from subgraphkit.errors import CallerError, ConfigError, SubgraphkitError
from subgraphkit.partitioning import Constraints
from tests.models import LINEAR, parsed

DIGEST = "0" * 64


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in an empty folder with a model in it, with no setting from outside."""
    for name in [name for name in os.environ if name.startswith("SUBGRAPH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")
    monkeypatch.chdir(tmp_path)
    onnx.save(parsed(LINEAR), "m.onnx")
    return tmp_path


def _feeds(session: sk.InferenceSession) -> dict[str, Any]:
    return {
        one.name: np.ones([d if isinstance(d, int) else 2 for d in one.shape], np.float32)
        for one in session.get_inputs()
    }


def _refusal(code: str, made: Any) -> str:
    with pytest.raises(SubgraphkitError) as caught:
        made()
    assert caught.value.code == code, caught.value
    return str(caught.value)


# -- what a spec is --------------------------------------------------------------------------


def test_a_spec_is_what_a_session_with_the_same_arguments_has() -> None:
    arguments: dict[str, Any] = {
        "backend": "numpy",
        "options": {"numpy": {}},
        "threads": 1,
        "timeout_s": 90,
        "limits": {"max_nodes": 1000},
        "constraints": Constraints(pins={0: "numpy"}),
        "isolate": "none",
        "progress": "log",
    }
    spec = sk.SessionSpec.of("m.onnx", **arguments)
    with sk.InferenceSession("m.onnx", **arguments) as session:
        assert session.spec == spec
        assert hash(session.spec) == hash(spec)
        with spec.open() as again:
            assert again.spec == spec
            feeds = _feeds(session)
            for one, other in zip(session.run(None, feeds), again.run(None, feeds), strict=True):
                np.testing.assert_array_equal(one, other)
    assert spec != sk.SessionSpec.of("m.onnx", "numpy")
    assert dict(spec.settings) == {
        "threads": 1,
        "timeout_s": 90.0,
        "limits": "max_nodes=1000",
        "pin": ("#0=numpy",),
        "isolate": (),
        "progress": "log",
    }


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_spec_is_pickled_small_and_comes_back_equal(protocol: int) -> None:
    spec = sk.SessionSpec.of("m.onnx", "numpy,onnxruntime?", {"n": 4}, threads=2, warm_up=True)
    data = pickle.dumps(spec, protocol)
    assert len(data) < 4096
    for again in (pickle.loads(data), copy.copy(spec), copy.deepcopy(spec)):
        assert again == spec
        assert (again.shapes["n"], again.settings["threads"], again.warm_up) == (4, 2, True)


_NAMES = st.text(min_size=1, max_size=8)
_JSON = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_OBJECTS = st.dictionaries(_NAMES, _JSON, max_size=3)


@settings(max_examples=60)
@given(
    source=_NAMES,
    backend=st.none() | _NAMES,
    shapes=_OBJECTS,
    options=st.dictionaries(_NAMES, _OBJECTS, max_size=2),
    others=_OBJECTS,
    flags=st.tuples(st.booleans(), st.booleans()),
)
def test_any_spec_comes_back_from_json_and_pickle(
    source: str, backend: Any, shapes: Any, options: Any, others: Any, flags: tuple[bool, bool]
) -> None:
    spec = sk.SessionSpec(source, DIGEST, backend, shapes, options, others, *flags)
    for again in (sk.SessionSpec.from_json(spec.to_json()), pickle.loads(pickle.dumps(spec))):
        assert (again, hash(again)) == (spec, hash(spec))
        assert again.to_json() == spec.to_json()


def test_a_spec_cannot_be_changed_nor_by_what_it_was_made_of() -> None:
    options: dict[str, Any] = {"numpy": {"a": [1, {"b": 2}]}}
    spec = sk.SessionSpec("m.onnx", DIGEST, options=options)
    before = spec.to_json()
    options["numpy"]["a"][1]["b"] = 3
    assert spec.to_json() == before
    with pytest.raises(TypeError):
        spec.options["numpy"]["a"][1]["b"] = 3
    with pytest.raises(AttributeError):
        spec.source = "other.onnx"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"subgraphkit_spec": 2}, "schema 2"),
        ({"subgraphkit_spec": "1"}, "schema '1'"),
        ({"subgraphkit_spec": True}, "schema True"),
        ({"secret": 1}, "member 'secret' is unknown"),
        ({"source": ""}, "'source'"),
        ({"source": 3}, "'source'"),
        ({"digest": "abc"}, "'digest'"),
        ({"digest": None}, "'digest'"),
        ({"backend": ["numpy"]}, "'backend'"),
        ({"shapes": [1]}, "'shapes'"),
        ({"options": "x"}, "'options'"),
        ({"settings": None}, "'settings'"),
        ({"trust": 1}, "'trust'"),
        ({"warm_up": "yes"}, "'warm_up'"),
    ],
)
def test_what_is_no_spec_of_this_schema_is_refused(change: dict[str, Any], problem: str) -> None:
    members = json.loads(sk.SessionSpec("m.onnx", DIGEST).to_json()) | change
    assert problem in _refusal("SGK193", lambda: sk.SessionSpec.from_json(json.dumps(members)))


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", "{", "[" * 100_000, b"\xff\xfe\x00"])
def test_what_is_no_spec_at_all_is_refused(text: str | bytes) -> None:
    _refusal("SGK193", lambda: sk.SessionSpec.from_json(text))


@pytest.mark.parametrize("missing", ["source", "digest", "subgraphkit_spec"])
def test_a_spec_without_what_it_must_have_is_refused(missing: str) -> None:
    members = json.loads(sk.SessionSpec("m.onnx", DIGEST).to_json())
    del members[missing]
    assert missing in _refusal("SGK193", lambda: sk.SessionSpec.from_json(json.dumps(members)))


# -- what travels ----------------------------------------------------------------------------


def test_what_holds_here_travels_and_what_is_of_this_machine_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SUBGRAPH_BACKEND", "numpy")
    monkeypatch.setenv("SUBGRAPH_THREADS", "3")
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", "/home/me/cache")
    monkeypatch.setenv("SUBGRAPH_VERBOSE", "1")
    with sk.config(strict=False, on_run_error="fallback"):
        spec = sk.SessionSpec.of("m.onnx", threads=2)
    assert spec.backend == "numpy"
    expected = {"strict": False, "on_run_error": "fallback", "threads": 2}
    assert dict(spec.settings) == expected
    said = sk.SessionSpec.of("m.onnx", cache_dir="/scratch")
    assert said.settings["cache_dir"] == "/scratch"
    monkeypatch.delenv("SUBGRAPH_THREADS")
    assert "threads" not in sk.SessionSpec.of("m.onnx").settings


SAID: dict[str, Any] = {
    "strict": True,
    "on_missing": "warn",
    "fallback": "none",
    "on_fallback": "ok",
    "require": {"numpy": 0.5},
    "on_unsupported": "raise",
    "on_compile_error": "fallback",
    "on_run_error": "fallback",
    "checked": False,
    "nan_policy": "propagate",
    "fold": False,
    "pin": {"a, b": "numpy", 3: "numpy"},
    "keep_off": "Relu=openvino, Relu=tvm",
    "block": {"x", "y"},
    "plugins": "none",
    "cache": False,
    "cache_dir": Path("/cache"),
    "cache_size": "2GiB",
    "threads": 3,
    "max_memory": "1.5GiB",
    "limits": "max_nodes=7, max_value_bytes=2GiB",
    "tune": "first",
    "tune_seconds": 1.5,
    "build": "background",
    "timeout_s": 90,
    "isolate": "openvino, tvm",
    "data_roots": [Path("/a"), "/b"],
    "trusted_folders": "/d",
    "verbose": 2,
    "raise_plugin_errors": True,
}


def test_every_setting_arrives_as_it_was_said() -> None:
    left = {"progress", "backend", "model_root"}
    assert set(SETTINGS) - left == set(SAID)
    assert set(OtherSettings.__annotations__) == set(SAID)
    spec = pickle.loads(pickle.dumps(sk.SessionSpec.of("m.onnx", **SAID)))
    said, arrived = sk.config.resolve(**SAID), sk.config.resolve(**spec.settings)
    assert {name: getattr(arrived, name) for name in SAID} == {
        name: getattr(said, name) for name in SAID
    }
    assert {arrived.sources[name][0] for name in SAID} == {"call"}


def test_of_a_file_that_nobody_vouches_for_no_option_travels_that_may_name_code(
    monkeypatch: pytest.MonkeyPatch, elsewhere: Path
) -> None:
    monkeypatch.delenv("SUBGRAPH_CONFIG")
    (elsewhere / "subgraphkit.toml").write_text(
        'backend = "numpy"\n[options.tensorrt]\nmodules = "evil"\nprecision = "fp16"\n'
        "[options.nobody_knows]\nx = 1\n"
    )
    spec = sk.SessionSpec.of("m.onnx")
    assert spec.backend == "numpy"
    assert "modules" not in spec.options.get("tensorrt", {})
    assert "nobody_knows" not in spec.options
    with sk.config(trusted_folders=[elsewhere]):
        assert sk.SessionSpec.of("m.onnx").options["tensorrt"]["modules"] == "evil"


def test_a_source_is_named_from_the_root_or_as_it_was_given(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "models").mkdir()
    (elsewhere / "m.onnx").rename(elsewhere / "models" / "m.onnx")
    full = elsewhere / "models" / "m.onnx"
    assert sk.SessionSpec.of("models/m.onnx").source == "models/m.onnx"
    assert sk.SessionSpec.of(full).source == str(full)
    assert sk.SessionSpec.of(full, root=elsewhere / "other").source == str(full)
    assert sk.SessionSpec.of(full, root="models").source == "m.onnx"
    monkeypatch.setenv("SUBGRAPH_MODEL_ROOT", str(elsewhere))
    spec = sk.SessionSpec.of("models/m.onnx", "numpy")
    assert spec.source == "models/m.onnx"
    monkeypatch.chdir("/")
    spec.open().close()
    monkeypatch.delenv("SUBGRAPH_MODEL_ROOT")
    spec.open(root=elsewhere).close()
    assert "models/m.onnx" in _refusal("SGK201", spec.open)
    # a worker may keep all models in one folder
    sk.SessionSpec.of(full, "numpy").open(root=elsewhere / "models").close()
    absent = sk.SessionSpec("/home/them/m.onnx", spec.digest, "numpy")
    absent.open(root=elsewhere / "models").close()


def test_a_plan_file_travels_by_its_path(elsewhere: Path) -> None:
    tuned = sk.SessionSpec.of("m.onnx", f"@{elsewhere / 'plan.json'}", root=elsewhere)
    assert tuned.backend == "@plan.json"
    assert "plan.json" in _refusal("SGK124", lambda: tuned.open(root=elsewhere))


# -- digests ---------------------------------------------------------------------------------


def _with_data(path: str, value: float) -> None:
    weights = onnx.numpy_helper.from_array(np.full((4, 4), value, np.float32), "w")
    body = "g (float[2,4] x) => (float[2,4] y) { y = MatMul(x, w) }"
    model = parsed(body)
    model.graph.initializer.append(weights)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)


def test_a_model_that_was_changed_is_refused_with_both_digests() -> None:
    spec = sk.SessionSpec.of("m.onnx", "numpy")
    onnx.save(parsed(LINEAR, opset=19), "m.onnx")
    found = sk.SessionSpec.of("m.onnx", "numpy").digest
    text = _refusal("SGK194", spec.open)
    assert spec.digest[:12] in text
    assert found[:12] in text


def test_external_data_is_part_of_the_digest() -> None:
    _with_data("big.onnx", 1.0)
    spec = sk.SessionSpec.of("big.onnx", "numpy")
    spec.open().close()
    before = Path("big.onnx").read_bytes()
    Path("w.bin").write_bytes(np.full((4, 4), 2.0, np.float32).tobytes())
    assert Path("big.onnx").read_bytes() == before
    _refusal("SGK194", spec.open)


def test_of_a_bundle_the_manifest_is_what_counts() -> None:
    with sk.InferenceSession("m.onnx", "numpy") as session:
        session.export("bundle")
    spec = sk.SessionSpec.of("bundle", threads=1)
    manifest = json.loads(Path("bundle/manifest.json").read_text())
    assert (spec.digest, spec.backend) == (manifest["sha256"], None)
    with spec.open() as opened:
        assert opened.spec == spec
    with sk.InferenceSession("m.onnx", "numpy", {"N": 3}) as session:
        session.export("bundle", overwrite=True)
    _refusal("SGK194", spec.open)


# -- sessions without a spec -----------------------------------------------------------------


@pytest.mark.parametrize("form", ["bytes", "proto", "model", "file"])
def test_a_session_of_what_no_other_process_reads_has_none(form: str) -> None:
    model = parsed(LINEAR)
    source: Any = {"proto": model, "bytes": model.SerializeToString()}.get(form)
    if form == "model":
        source = sk.load("m.onnx")
    if form == "file":
        source = io.BytesIO(Path("m.onnx").read_bytes())
    with sk.InferenceSession(source, "numpy") as session:
        text = _refusal("SGK192", lambda: session.spec)
        assert "bundle" in text
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            _refusal("SGK192", lambda way=way: way(session))
    _refusal("SGK192", lambda: sk.SessionSpec.of(source))


def test_backends_progress_and_constraints_that_are_code_have_none() -> None:
    kind = sk.get_backend("numpy")
    assert "numpy" in _refusal("SGK192", lambda: sk.SessionSpec.of("m.onnx", kind))
    assert "numpy" in _refusal("SGK192", lambda: sk.InferenceSession("m.onnx", kind).spec)
    with sk.InferenceSession("m.onnx", "numpy", progress=lambda _: None) as session:
        assert "progress" in _refusal("SGK192", lambda: session.spec)
    some = Constraints(pins={lambda _: True: "numpy"})
    _refusal("SGK192", lambda: sk.SessionSpec.of("m.onnx", "numpy", constraints=some))
    strange = {"numpy": {"x": object()}}
    _refusal("SGK192", lambda: sk.SessionSpec.of("m.onnx", "numpy", options=strange))


def test_a_session_whose_weights_or_file_changed_has_none() -> None:
    _with_data("big.onnx", 1.0)
    with sk.InferenceSession("big.onnx", "numpy") as session:
        spec = session.spec
        session.update_weights({"w": np.zeros((4, 4), np.float32)})
        assert "export" in _refusal("SGK192", lambda: session.spec)
    with sk.InferenceSession("big.onnx", "numpy") as session:
        assert session.spec == spec
        Path("w.bin").write_bytes(np.full((4, 4), 2.0, np.float32).tobytes())
        assert "big.onnx" in _refusal("SGK192", lambda: session.spec)


def test_a_session_of_a_plan_is_not_pickled_nor_copied() -> None:
    found = sk.partition(sk.bind(sk.load("m.onnx"), backend="numpy"))
    with sk.Session(sk.plan(found, sk.compile_subgraphs(found))) as session:
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            assert "InferenceSession" in _refusal("SGK192", lambda way=way: way(session))


class _Mine(sk.InferenceSession):
    pass


def test_a_session_arrives_as_one_that_its_spec_opened() -> None:
    with sk.InferenceSession("m.onnx", "numpy", threads=1) as session:
        feeds = _feeds(session)
        expected = session.run(None, feeds)
        for way in (lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy):
            with way(session) as again:
                assert type(again) is sk.InferenceSession
                assert again is not session
                assert again.spec == session.spec
                np.testing.assert_array_equal(again.run(None, feeds)[0], expected[0])
    with _Mine("m.onnx", "numpy") as derived:
        assert derived.spec == sk.SessionSpec.of("m.onnx", "numpy")
        assert "_Mine" in _refusal("SGK192", lambda: pickle.dumps(derived))


# -- one session for each process ------------------------------------------------------------


def test_get_opens_once_whoever_asks_and_again_once_it_is_closed() -> None:
    spec = sk.SessionSpec.of("m.onnx", "numpy", timeout_s=77)
    barrier = threading.Barrier(8)

    def ask(_: int) -> sk.InferenceSession:
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
    assert "SGK144" in _refusal("SGK144", lambda: second.run(None, _feeds(second)))
    spec.release()
    third = spec.get()
    assert third is not second
    spec.release()


def test_get_that_failed_is_tried_again() -> None:
    spec = sk.SessionSpec.of("m.onnx", "numpy", timeout_s=78)
    Path("m.onnx").rename("hidden.onnx")
    _refusal("SGK201", spec.get)
    Path("hidden.onnx").rename("m.onnx")
    spec.get()
    spec.release()


def _works(spec: sk.SessionSpec, number: int = 0) -> tuple[int, int, list[float]]:
    session = spec.get()
    return os.getpid(), number, session.run(None, _feeds(session))[0].ravel().tolist()


@pytest.mark.parametrize(("method", "count"), [("fork", 2), ("spawn", 1)])
def test_each_worker_of_a_pool_opens_its_own(method: str, count: int, elsewhere: Path) -> None:
    spec = sk.SessionSpec.of(elsewhere / "m.onnx", "numpy", timeout_s=79)
    own, _, expected = _works(spec)
    with multiprocessing.get_context(method).Pool(count) as pool:
        answers = pool.starmap_async(_works, [(spec, n) for n in range(4)]).get(timeout=60)
    assert all(pid != own for pid, *_ in answers)
    assert all(result == expected for *_, result in answers)
    spec.release()


def test_a_forked_child_has_a_session_of_its_own_and_leaves_the_parents_alone() -> None:
    spec = sk.SessionSpec.of("m.onnx", "numpy", timeout_s=80)
    mine = spec.get()
    inward, outward = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            theirs = spec.get()
            fine = theirs is not mine and bool(theirs.run(None, _feeds(theirs)))
            spec.release()
            os.write(outward, b"fine" if fine else b"not its own")
        except BaseException as error:  # noqa: BLE001 (the parent is told)
            os.write(outward, repr(error).encode())
        os._exit(0)
    os.close(outward)
    with os.fdopen(inward, "rb") as told:
        assert told.read() == b"fine"
    os.waitpid(child, 0)
    assert spec.get() is mine
    mine.run(None, _feeds(mine))
    spec.release()


def test_a_spec_has_its_session_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []
    monkeypatch.setattr(sk.InferenceSession, "warm_up", lambda _, shapes=None: runs.append(shapes))
    sk.SessionSpec.of("m.onnx", "numpy").open().close()
    assert runs == []
    sk.SessionSpec.of("m.onnx", "numpy", warm_up=True).open().close()
    sk.SessionSpec.of("m.onnx", "numpy", warm_up={"n": 5}).open().close()
    assert runs == [None, {"n": 5}]


def test_errors_of_specs_are_the_callers() -> None:
    with pytest.raises(ConfigError) as caught:
        sk.SessionSpec.from_json("{}")
    assert caught.value.fault == "caller"
    assert isinstance(caught.value, CallerError)
