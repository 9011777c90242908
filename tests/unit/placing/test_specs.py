"""Specs of sessions: what they hold, how they travel, and the sessions they open."""

import copy
import json
import pickle  # noqa: TID251 (what engines do with specs)
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.configuration.settings import SETTINGS, OtherSettings
from subgraphkit.errors import CallerError
from subgraphkit.partitioning import Constraints
from tests.models import LINEAR, parsed
from tests.unit.placing.spec_support import ones_for, refusal, save_with_data

pytestmark = pytest.mark.usefixtures("elsewhere")

DIGEST = "0" * 64


# -- what a spec is --------------------------------------------------------------------------


def test_a_spec_is_what_a_session_with_the_same_arguments_has():
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
            feeds = ones_for(session)
            np.testing.assert_equal(session.run(None, feeds), again.run(None, feeds))
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
def test_a_spec_is_pickled_small_and_comes_back_equal(protocol):
    spec = sk.SessionSpec.of("m.onnx", "numpy,onnxruntime?", {"n": 4}, threads=2, warm_up=True)
    data = pickle.dumps(spec, protocol)
    assert len(data) < 4096
    for again in (pickle.loads(data), copy.copy(spec), copy.deepcopy(spec)):
        assert again == spec
        assert (again.shapes["n"], again.settings["threads"], again.warm_up) == (4, 2, True)


def test_a_spec_that_engines_should_not_take_along_says_what_is_too_much():
    pins = [f"layer_{at}/attention/MatMul=numpy" for at in range(150)]
    most = sk.SessionSpec("m.onnx", DIGEST, settings={"pin": pins[:90]})
    assert len(pickle.dumps(most)) < 4096
    text = refusal("SGK192", lambda: sk.SessionSpec("m.onnx", DIGEST, settings={"pin": pins}))
    assert "'settings'" in text
    with sk.InferenceSession("m.onnx", "numpy", limits={"max_nodes": 10**4100}) as session:
        refusal("SGK192", lambda: pickle.dumps(session))


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
        ({"settings": {"backend": "numpy"}}, "setting 'backend' is none"),
        ({"settings": {"model": 3, "strict": True}}, "setting 'model' is none"),
        *((name, name) for name in ("source", "digest", "subgraphkit_spec")),  # which is missing
        *(
            (text, "")
            for text in (b"", b"[]", b"{}", b"3", b"{", b"[" * 100_000, b"\xff", b"[NaN]")
        ),
    ],
)
def test_what_is_no_spec_of_this_schema_is_refused(change, problem):
    members = json.loads(sk.SessionSpec("m.onnx", DIGEST).to_json())
    if isinstance(change, str):
        del members[change]
    elif isinstance(change, dict):
        members |= change
    text = change if isinstance(change, bytes) else json.dumps(members)
    assert problem in refusal("SGK193", lambda: sk.SessionSpec.from_json(text))


@pytest.mark.parametrize("depth", [30, 450, 900])
def test_a_spec_is_not_nested_deep(depth):
    value: Any = 1
    for _ in range(depth):
        value = {"a": [value]}
    text = sk.SessionSpec("m.onnx", DIGEST, options={"numpy": {"x": 1}}).to_json()
    with pytest.raises(CallerError, match=r"SGK19[23]"):
        sk.SessionSpec.from_json(text.replace('"x": 1', '"x": ' + '{"a": [' * depth + "]}" * depth))
    assert "nested" in refusal(
        "SGK192", lambda: sk.SessionSpec("m.onnx", DIGEST, options={"numpy": {"x": value}})
    )


def test_a_member_that_is_there_twice_is_refused():
    text = sk.SessionSpec("m.onnx", DIGEST, settings={"threads": 3}).to_json()
    for twice in (text[:-1] + ', "source": "other.onnx"}', text.replace("3}", '3, "threads": 4}')):
        assert "more than once" in refusal("SGK193", partial(sk.SessionSpec.from_json, twice))


# -- what travels ----------------------------------------------------------------------------


def test_what_holds_here_travels_and_what_is_of_this_machine_does_not(monkeypatch):
    monkeypatch.setenv("SUBGRAPH_BACKEND", "numpy")
    monkeypatch.setenv("SUBGRAPH_THREADS", "3")
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", "/their/cache")
    monkeypatch.setenv("SUBGRAPH_VERBOSE", "1")
    with sk.config(strict=False, on_run_error="fallback"):
        spec = sk.SessionSpec.of("m.onnx", threads=2)
    assert spec.backend == "numpy"
    expected = {"strict": False, "on_run_error": "fallback", "threads": 2}
    assert dict(spec.settings) == expected
    said = sk.SessionSpec.of("m.onnx", cache_dir="/scratch")
    assert said.settings["cache_dir"] == "/scratch"
    monkeypatch.setenv("HOME", str(Path.cwd() / "home"))
    of_a_home = sk.SessionSpec.of("m.onnx", cache_dir="~/c", data_roots=[Path("~/d")])
    assert str(Path.home()) not in of_a_home.to_json()
    with of_a_home.open() as session:
        assert session.spec == of_a_home
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
    "outputs": ["y", "z"],
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
    "max_error": 0.01,
    "build": "background",
    "timeout_s": 90,
    "isolate": "openvino, tvm",
    "data_roots": [Path("/a"), "/b"],
    "trusted_folders": "/d",
    "trust_specs": True,
    "verbose": 2,
    "raise_plugin_errors": True,
}


def test_every_setting_arrives_as_it_was_said():
    left = {"progress", "backend", "model_root"}
    assert set(SETTINGS) - left == set(SAID)
    assert set(OtherSettings.__annotations__) == set(SAID)
    spec = pickle.loads(pickle.dumps(sk.SessionSpec.of("m.onnx", **SAID)))
    said, arrived = sk.config.resolve(**SAID), sk.config.resolve(**spec.settings)
    assert {key: getattr(arrived, key) for key in SAID} == {key: getattr(said, key) for key in SAID}
    assert {arrived.sources[name][0] for name in SAID} == {"call"}


def _of_json(**members):
    own = json.loads(sk.SessionSpec.of("m.onnx", "numpy").to_json())
    return sk.SessionSpec.from_json(json.dumps(own | members))


LOOSE = {"limits": "unlimited", "isolate": "none", "max_memory": "100GiB", "timeout_s": 900}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("LIMITS", "max_nodes=1", "SGK216"), ("MAX_MEMORY", "1KiB", "SGK134")],
)
def test_what_a_process_sets_is_a_ceiling_for_specs_from_outside(monkeypatch, name, value, code):
    spec = _of_json(settings=LOOSE)
    spec.open().close()
    monkeypatch.setenv(f"SUBGRAPH_{name}", value)
    refusal(code, spec.open)
    refusal(code, pickle.loads(pickle.dumps(spec)).open)
    refusal(code, spec.get)
    sk.SessionSpec.of("m.onnx", "numpy", **LOOSE).open().close()  # a program's own


def test_specs_from_outside_keep_what_is_tighter_on_either_side():
    spec = _of_json(settings={**LOOSE, "limits": "max_nodes=9,max_depth=0", "timeout_s": 50})
    with (
        sk.config(
            limits="max_nodes=99,max_depth=5", isolate="numpy", max_memory="1GiB", timeout_s=60
        ),
        spec.open() as session,
    ):
        found = session.resolved_config
    assert (found.limits.max_nodes, found.limits.max_depth, found.timeout_s) == (9, 5, 50)
    assert (found.isolate, found.max_memory) == ({"numpy"}, 1 << 30)


@pytest.mark.parametrize("members", [
    {"settings": {"trusted_folders": ["/"]}},
    {"settings": {"data_roots": "/"}},
    {"options": {"tensorrt": {"plugin_libraries": ["x.so"]}}},
    {"backend": "tensorrt:modules=evil,numpy"},
    {"trust": True},
])  # fmt: skip
def test_a_spec_from_outside_names_no_code_and_nothing_to_trust(members):
    assert "the spec says" in refusal("SGK126", _of_json(**members).open)
    if "tensorrt" not in str(members):  # which need not run here
        with sk.config(trust_specs=True):
            _of_json(**members).open().close()


def test_of_a_file_nobody_vouches_for_no_option_travels_that_may_name_code(monkeypatch, elsewhere):
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


def test_a_source_is_named_from_the_root_or_as_it_was_given(elsewhere, monkeypatch):
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
    assert "models/m.onnx" in refusal("SGK201", spec.open)
    # a worker may keep all models in one folder
    sk.SessionSpec.of(full, "numpy").open(root=elsewhere / "models").close()
    absent = sk.SessionSpec("/their/m.onnx", spec.digest, "numpy")
    absent.open(root=elsewhere / "models").close()


def test_a_plan_file_travels_by_its_path(elsewhere):
    tuned = sk.SessionSpec.of("m.onnx", f"@{elsewhere / 'plan.json'}", root=elsewhere)
    assert tuned.backend == "@plan.json"
    assert "plan.json" in refusal("SGK124", lambda: tuned.open(root=elsewhere))


# -- digests ---------------------------------------------------------------------------------


def test_a_model_that_was_changed_is_refused_with_both_digests():
    spec = sk.SessionSpec.of("m.onnx", "numpy")
    onnx.save(parsed(LINEAR, opset=19), "m.onnx")
    found = sk.SessionSpec.of("m.onnx", "numpy").digest
    text = refusal("SGK194", spec.open)
    assert spec.digest[:12] in text
    assert found[:12] in text


def test_external_data_is_part_of_the_digest():
    save_with_data("big.onnx", 1.0)
    spec = sk.SessionSpec.of("big.onnx", "numpy")
    spec.open().close()
    before = Path("big.onnx").read_bytes()
    Path("w.bin").write_bytes(np.full((4, 4), 2.0, np.float32).tobytes())
    assert Path("big.onnx").read_bytes() == before
    refusal("SGK194", spec.open)


def test_of_a_bundle_the_manifest_is_what_counts():
    with sk.InferenceSession("m.onnx", "numpy") as session:
        session.export("bundle")
    spec = sk.SessionSpec.of("bundle", threads=1)
    manifest = json.loads(Path("bundle/manifest.json").read_text())
    assert (spec.digest, spec.backend) == (manifest["sha256"], None)
    with spec.open() as opened:
        assert opened.spec == spec
    with sk.SessionSpec.of("bundle", "numpy").open() as opened:
        assert opened.spec.backend is None  # it was the bundle's
    refusal("SGK185", sk.SessionSpec.of("bundle", "onnxruntime?,numpy").open)
    with sk.InferenceSession("m.onnx", "numpy", {"N": 3}) as session:
        session.export("bundle", overwrite=True)
    refusal("SGK194", spec.open)
