"""The layers of the configuration, and where each value comes from."""

import asyncio
import os
import threading
from contextvars import copy_context
from itertools import product
from pathlib import Path

import pytest

from subgraphkit.configuration.config import config, resolve
from subgraphkit.configuration.settings import SETTINGS
from subgraphkit.errors import ConfigError, SubgraphkitWarning
from subgraphkit.limits import LoadLimits

LAYERS = ("call", "context", "process", "environment", "file", "user file")


@pytest.fixture
def user_file(tmp_path):
    (tmp_path / "home" / "subgraphkit").mkdir()
    return tmp_path / "home" / "subgraphkit" / "config.toml"


@pytest.fixture
def project_file(tmp_path):
    return tmp_path / "work" / "subgraphkit.toml"


@pytest.mark.parametrize("present", list(product((False, True), repeat=len(LAYERS))))
def test_the_first_layer_to_speak_wins_and_is_named(present, monkeypatch, project_file, user_file):
    spoken = [layer for layer, speaks in zip(LAYERS, present, strict=True) if speaks]
    names = {layer: layer.replace(" ", "_") for layer in LAYERS}
    origins = {
        "call": "argument backend='call'",
        "context": "config(backend='context')",
        "process": "config.set(backend='process')",
        "environment": "environment variable SUBGRAPH_BACKEND='environment'",
        "file": f"backend='file' in {project_file}, line 2",
        "user file": f"backend='user_file' in {user_file}, line 2",
        "default": "the default",
    }
    if "environment" in spoken:
        monkeypatch.setenv("SUBGRAPH_BACKEND", "environment")
    for layer, path in (("file", project_file), ("user file", user_file)):
        if layer in spoken:
            path.write_text(f"# settings\nbackend = {names[layer]!r}\n")
    process = config.set(backend="process" if "process" in spoken else None)
    with process, config(backend="context" if "context" in spoken else None):
        resolved = resolve(backend="call" if "call" in spoken else None)
    winner = spoken[0] if spoken else "default"
    assert [choice.name for choice in resolved.backends] == [names.get(winner, "auto")]
    assert resolved.backends[0].origin == origins[winner]
    assert resolved.sources["backend"] == (winner, origins[winner])


SETTINGS_GIVEN: dict[str, tuple[str, object, object]] = {
    "strict": ("yes", True, False),
    "on_missing": ("WARN", "warn", "error"),
    "fallback": ("none", "none", "numpy"),
    "on_fallback": ("ok", "ok", "warn"),
    "require": ("a=0.9, b=1", {"a": 0.9, "b": 1.0}, {}),
    "pin": ("Conv=a, #3=b", (("Conv", "a"), (3, "b")), ()),
    "keep_off": ("head=a", (("head", "a"),), ()),
    "on_unsupported": ("raise", "raise", "repartition"),
    "on_compile_error": ("fallback", "fallback", "raise"),
    "on_run_error": ("fallback", "fallback", "raise"),
    "checked": ("off", False, True),
    "nan_policy": ("propagate", "propagate", "warn"),
    "fold": ("off", False, True),
    "outputs": ("y, z", ("y", "z"), ()),
    "block": ("x, y", {"x", "y"}, frozenset()),
    "plugins": ("none", frozenset(), None),
    "cache": ("off", False, True),
    "cache_dir": ("/cache", Path("/cache"), None),
    "cache_size": ("2GiB", 2 << 30, 16 << 30),
    "threads": ("3", 3, ...),
    "max_memory": ("1.5GiB", 3 << 29, None),
    "limits": ("max_nodes=7", LoadLimits(max_nodes=7), LoadLimits()),
    "tune": ("first", "first", "off"),
    "tune_seconds": ("1.5", 1.5, 20.0),
    "max_error": ("1e-2", 1e-2, 0.0),
    "build": ("background", "background", "now"),
    "timeout_s": ("90", 90.0, None),
    "isolate": ("a, b", {"a", "b"}, frozenset()),
    "progress": ("log", "log", "none"),
    "data_roots": (f"/a{os.pathsep}/b, /c", (Path("/a"), Path("/b"), Path("/c")), ()),
    "model_root": ("/models", Path("/models"), None),
    "trusted_folders": ("/d", (Path("/d"),), ()),
    "trust_specs": ("1", True, False),
    "verbose": ("2", 2, 0),
    "raise_plugin_errors": ("1", True, False),
}
"""By setting, a variable's text, what it stands for, and the default; ``...`` is not looked at."""


def test_every_setting_has_a_default_and_can_be_given_by_the_environment(monkeypatch):
    assert {"backend", *SETTINGS_GIVEN} == SETTINGS.keys()
    default = resolve()
    assert [choice.name for choice in default.backends] == ["auto"]
    assert {layer for layer, _ in default.sources.values()} == {"default"}
    monkeypatch.setenv("SUBGRAPH_BACKEND", "a,b?")
    for name, (text, _, _) in SETTINGS_GIVEN.items():
        monkeypatch.setenv(f"SUBGRAPH_{name.upper()}", text)
    resolved = resolve()
    assert [str(choice) for choice in resolved.backends] == ["a", "b?"]
    assert {layer for layer, _ in resolved.sources.values()} == {"environment"}
    for name, (_, value, unsaid) in SETTINGS_GIVEN.items():
        assert getattr(resolved, name) == value, name
        assert unsaid in (..., getattr(default, name)), name


def test_the_environment_is_read_at_every_bind(monkeypatch):
    first = resolve()
    monkeypatch.setenv("SUBGRAPH_BACKEND", "a")
    assert resolve().backends[0].name == "a"
    assert first.backends[0].name == "auto"


@pytest.mark.parametrize(("variable", "text", "problem"), [
    ("STRICT", "maybe", "is not a boolean; use 1/0, true/false, yes/no or on/off"),
    ("ON_MISSING", "ignore", "is not one of 'error', 'warn'"),
    ("VERBOSE", "loud", "is not 0, 1, 2 or 3"),
    ("VERBOSE", "9", "is not 0, 1, 2 or 3"),
    ("THREADS", "0", "is not a number of threads, 1 or more"),
    ("THREADS", "all", "is not a number of threads, 1 or more"),
    ("TUNE", "now", "is not one of 'off', 'first', 'background'"),
    ("TUNE_SECONDS", "-1", "is not a number of seconds above 0"),
    ("FALLBACK", "a,b", "is not the name of one backend"),
    ("OPTIONS", "{", "is not JSON"),
    ("OPTIONS", "[]", "is not a mapping from backend to options"),
    ("OPTIONS", '{"a": 1}', "is not a mapping from backend to options"),
])  # fmt: skip
def test_a_value_of_the_wrong_kind_names_the_variable(variable, text, problem, monkeypatch):
    monkeypatch.setenv(f"SUBGRAPH_{variable}", text)
    with pytest.raises(ConfigError, match="SGK108") as caught:
        resolve()
    place = f"environment variable SUBGRAPH_{variable}={text!r} "
    assert caught.value.message.startswith(place + problem)


def test_unknown_variables_are_warned_of_once_together(monkeypatch):
    monkeypatch.setenv("SUBGRAPH_BACKENDS", "a")
    monkeypatch.setenv("SUBGRAPH_WHATEVER_ELSE", "a")
    with pytest.warns(SubgraphkitWarning) as caught:
        resolve()
    assert len(caught) == 1
    text = str(caught[0].message)
    assert text.startswith("[SGK114]")
    assert "'SUBGRAPH_BACKENDS' (did you mean 'SUBGRAPH_BACKEND'?)" in text
    assert "'SUBGRAPH_WHATEVER_ELSE'" in text
    assert caught[0].filename == __file__


def test_an_unknown_setting_of_a_call_is_an_error():
    with pytest.raises(ConfigError, match=r"SGK114.*'stict' \(did you mean 'strict'\?\)"):
        resolve(stict=True)
    with pytest.raises(ConfigError), config(stict=True):
        pass
    with pytest.raises(ConfigError):
        config.set(stict=True)


def test_options_merge_one_by_one(monkeypatch, project_file):
    project_file.write_text("[options.numpy]\na = 1\nb = 1\n")
    monkeypatch.setenv("SUBGRAPH_OPTIONS", '{"numpy": {"b": 2, "c": 2}}')
    monkeypatch.setenv("SUBGRAPH_NUMPY_C", "3")
    monkeypatch.setenv("SUBGRAPH_BACKEND", "numpy:d=4:e=4")
    resolved = resolve(options={"numpy": {"e": 5}})
    assert dict(resolved.options_for("numpy")) == {
        "a": (1, f"options={{'numpy': {{'a': 1}}}} in {project_file}, line 2"),
        "b": (2, """environment variable SUBGRAPH_OPTIONS='{"numpy": {"b": 2, "c": 2}}'"""),
        "c": ("3", "environment variable SUBGRAPH_NUMPY_C='3'"),
        "d": ("4", "environment variable SUBGRAPH_BACKEND='numpy:d=4:e=4'"),
        "e": (5, "argument options={'numpy': {'e': 5}}"),
    }


def test_options_in_a_selection_that_was_replaced_do_not_count():
    with config(backend="numpy:x=1", options={"numpy": {"y": 2}}):
        resolved = resolve(backend="numpy")
    assert {key: value for key, (value, _) in resolved.options_for("numpy").items()} == {"y": 2}


def test_of_nested_blocks_the_inner_selection_counts_with_its_options():
    with config(backend="a:x=1"), config(backend="b:y=2"):
        resolved = resolve()
    assert resolved.options_for("a") == {}
    assert resolved.options_for("b")["y"][0] == "2"


def test_pyproject_may_hold_the_settings(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text(
        "[tool.other]\nstrict = 1\n[tool.subgraphkit]\n\nstrict = true\n"
        "[tool.subgraphkit.options.a]\nx = 1\n"
    )
    resolved = resolve()
    assert resolved.sources["strict"] == ("file", f"strict=True in {path}, line 5")
    assert resolved.options_for("a")["x"][1].endswith(f"in {path}, line 7")


@pytest.mark.parametrize("text", ["[tool.ruff]\n", "not toml", "x = 'tool.subgraphkit'\n"])
def test_somebody_elses_pyproject_is_passed_by(text, tmp_path):
    (tmp_path / "work" / "pyproject.toml").write_text(text)
    (tmp_path / "subgraphkit.toml").write_text("strict = true\n")
    assert resolve().strict


@pytest.mark.parametrize(("text", "code", "problem"), [
    ("a = 1\nstrict = \n", "SGK109", "line 2: Invalid value"),
    ("strict = 'yes", "SGK109", "line 1: "),
    ("\nstrict = 'maybe'\n", "SGK108", "line 2 is not a boolean"),
    ("backend = 'a;b'\n", "SGK107", "line 1: expected NAME"),
    ("strickt = true\n", "SGK114", "did you mean 'strict'?"),
    ("[options]\nnumpy = 1\n", "SGK108", "line 2 is not a mapping"),
    ("\nstrickt = true\n", "SGK114", "line 2: 'strickt'"),
    ("# caf\xe9\nstrict = '\xff'\n".encode("latin-1"), "SGK109", "line 1: byte 0xe9 is not"),
])  # fmt: skip
def test_a_mistake_in_a_file_is_answered_with_file_and_line(text, code, problem, project_file):
    project_file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError) as caught:
        resolve()
    assert caught.value.code == code
    assert str(project_file) in caught.value.message
    assert problem in caught.value.message


@pytest.mark.parametrize(("text", "line"), [
    ("[options.numpy]\nmax_loop_iterations = 5\nfoo = 1\n", 3),
    ("[options]\nnumpy.max_loop_iterations = 5\nnumpy.foo = 1\n", 3),
    ("strict = true\noptions = {numpy = {foo = 1}}\n", 2),
    ("options.'numpy'.foo = 1\n", 1),
])  # fmt: skip
def test_an_option_of_a_file_knows_its_line(text, line, project_file):
    project_file.write_text(text)
    _, origin = resolve().options_for("numpy")["foo"]
    assert origin.endswith(f"{project_file}, line {line}")


def test_a_named_file_must_exist(monkeypatch):
    monkeypatch.setenv("SUBGRAPH_CONFIG", "nowhere.toml")
    with pytest.raises(ConfigError, match=r"SGK109.*nowhere\.toml: it does not exist"):
        resolve()


def test_a_setting_of_the_process_can_be_undone_in_any_order():
    first = config.set(verbose=1)
    second = config.set(verbose=2)
    assert resolve().verbose == 2
    first()
    assert resolve().verbose == 2
    second()
    second()
    assert resolve().verbose == 0


def in_thread(function):
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_plain_thread_sees_the_process_but_not_the_block():
    with config.set(verbose=1), config(verbose=2):
        assert resolve().verbose == 2
        context = copy_context()
    assert in_thread(lambda: context.run(lambda: resolve().verbose)) == 2
    assert in_thread(lambda: resolve().verbose) == 0


def test_tasks_inherit_the_block_they_were_made_in():
    async def level():
        await asyncio.sleep(0)
        return resolve().verbose

    async def both():
        with config(verbose=1):
            inner = asyncio.create_task(level())
        return [await inner, await level()]

    assert asyncio.run(both()) == [1, 0]


def test_the_table_shows_every_key_with_its_origin():
    table = resolve(backend="a?:x=1", cache_dir="/c").as_table()
    assert table[0] == ("backend", "a?:x=1", "call", "argument backend='a?:x=1'")
    assert ("cache_dir", "/c", "call", "argument cache_dir='/c'") in table
    assert table[-1] == ("options.a.x", "1", "call", "argument backend='a?:x=1'")


def test_isolation_is_of_nobody_of_everybody_or_of_those_named():
    assert not resolve(isolate="none").isolates("numpy")
    assert all(resolve(isolate=one).isolates("onednn") for one in ("process", ["numpy", "onednn"]))
    assert not resolve(isolate="numpy, onednn").isolates("openvino")
    for wrong in ("process,numpy", "none,numpy", "No Name", 3):
        with pytest.raises(ConfigError, match="SGK108"):
            resolve(isolate=wrong)
