"""What a new user does wrong, on the command line and in Python: a clear, coded error each."""

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import SubgraphkitError
from tests.interrupting import heard
from tests.models import CHAIN, LINEAR, parsed
from tests.unit.cli.conftest import Cli, Install


def _truncated() -> bytes:
    data: bytes = parsed(LINEAR).SerializeToString()
    return data[: len(data) * 2 // 3]


def _cyclic() -> bytes:
    model = parsed(CHAIN)
    model.graph.node[0].input[0] = "y"
    data: bytes = model.SerializeToString()
    return data


def _changed(change: Callable[[onnx.ModelProto], object]) -> Callable[[], bytes]:
    def make() -> bytes:
        model = parsed(LINEAR)
        change(model)
        data: bytes = model.SerializeToString()
        return data

    return make


BAD_MODELS: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "truncated": (_truncated, "SGK202", "is not an ONNX model"),
    "empty": (lambda: b"", "SGK202", "The file is empty"),
    "text": (lambda: b"# Read me\n\nThis is no model.\n", "SGK202", "It looks like text"),
    "cyclic": (_cyclic, "SGK203", "cycle"),
    "new opset": (
        _changed(lambda m: setattr(m.opset_import[0], "version", 9999)),
        "SGK206",
        "version 9999",
    ),
    "unknown domain": (
        _changed(lambda m: setattr(m.graph.node[0], "domain", "com.acme")),
        "SGK207",
        "'com.acme'",
    ),
    "unknown operator": (
        _changed(lambda m: setattr(m.graph.node[0], "op_type", "MatMull")),
        "SGK207",
        "Did you mean 'MatMul'?",
    ),
    "two names": (
        _changed(lambda m: m.graph.node[1].output.__setitem__(0, "product")),
        "SGK204",
        "'product'",
    ),
    "nobody's value": (
        _changed(lambda m: m.graph.node[1].input.__setitem__(0, "prodcut")),
        "SGK205",
        "'prodcut'",
    ),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_a_bad_model_is_told_in_python(name: str) -> None:
    make, code, words = BAD_MODELS[name]
    Path("bad.onnx").write_bytes(make())
    with pytest.raises(sk.errors.ModelError) as told:
        sk.InferenceSession("bad.onnx")
    assert told.value.code == code
    assert words in str(told.value)


def test_a_missing_file_is_told() -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.onnx"):
        sk.InferenceSession("missing.onnx")


def test_an_operator_nobody_runs_is_told() -> None:
    model = parsed(
        "g (float[2] x) => (float[2] y) { y = com.acme.Twist(x) }",
        header='"" : 18, "com.acme" : 1',
    )
    onnx.save(model, "foreign.onnx")
    with pytest.raises(sk.errors.UnclaimedNodesError):
        sk.InferenceSession("foreign.onnx")


BAD_FEEDS: dict[str, tuple[str, Any, str]] = {
    "wrong dtype": ("x", np.zeros((2, 3), np.float64), "SGK141"),
    "wrong rank": ("x", np.zeros(3, np.float32), "SGK140"),
    "fixed dimension exceeded": ("x", np.zeros((2, 4), np.float32), "SGK140"),
}


@pytest.mark.parametrize("name", BAD_FEEDS)
def test_a_bad_input_is_told_in_python_and_the_session_lives_on(linear: Path, name: str) -> None:
    value, array, code = BAD_FEEDS[name]
    with sk.InferenceSession(linear) as session:
        with pytest.raises(sk.errors.InputError) as told:
            session.run(None, {value: array})
        assert told.value.code == code
        assert session.run(None, {"x": np.zeros((2, 3), np.float32)})[0].shape == (2, 2)


def test_an_input_of_a_wrong_name_is_told(linear: Path) -> None:
    session = sk.InferenceSession(linear)
    with pytest.raises(sk.errors.InputError, match=r"\[SGK142\].*missing: 'x'"):
        session.run(None, {"X": np.zeros((2, 3), np.float32)})


def _strided(array: Any) -> Any:
    return np.repeat(array, 2, axis=1)[:, ::2]


def _read_only(array: Any) -> Any:
    array.setflags(write=False)
    return array


@pytest.mark.parametrize("unusual", [np.asfortranarray, _strided, _read_only])
def test_an_unusual_array_works_and_is_left_alone(linear: Path, unusual: Any) -> None:
    plain = np.arange(6, dtype=np.float32).reshape(2, 3)
    fed = unusual(plain.copy())
    with sk.InferenceSession(linear) as session:
        np.testing.assert_array_equal(session(x=fed)["y"], session(x=plain)["y"])
    np.testing.assert_array_equal(fed, plain)


def test_an_unknown_backend_gets_a_suggestion(linear: Path) -> None:
    with pytest.raises(sk.errors.BackendNotFoundError, match="did you mean 'numpy'"):
        sk.InferenceSession(linear, backend="nunpy")


def test_an_option_with_a_typo_gets_a_suggestion(linear: Path) -> None:
    with pytest.raises(sk.errors.OptionError, match="max_loop_iterations"):
        sk.InferenceSession(linear, options={"numpy": {"max_loop_iteration": 3}})


def test_a_backend_whose_import_raises_is_told_when_it_is_named(
    new_process: Cli, install: Install, linear: Path
) -> None:
    install("broken", "raise ImportError('libvendor.so.4 is missing')")
    ended = new_process("run", linear, "--backend", "broken,numpy")
    assert (ended.code, ended.out) == (3, "")
    assert "[SGK103]" in ended.err
    assert "ImportError: libvendor.so.4 is missing" in ended.err
    assert "Traceback" not in ended.err
    assert "Traceback" in new_process("run", linear, "--backend", "broken", "--debug").err
    assert new_process("run", linear, "--backend", "broken?,numpy").code == 0
    assert new_process("run", linear).code == 0


def test_a_bug_is_told_as_a_bug(cli: Cli, linear: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("unexpected")

    monkeypatch.setattr("subgraphkit.cli.commands.plan.partition", fail)
    ended = cli("plan", linear, "--json")
    assert ended.code == 70
    assert json.loads(ended.out)["errors"][0]["code"] == "SGK900"
    assert "[SGK900] ZeroDivisionError: unexpected" in ended.err
    assert "--debug" in ended.err
    assert "Traceback" in cli("plan", linear, "--debug").err


def test_an_interruption_has_its_own_exit_code(
    cli: Cli, linear: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("subgraphkit.cli.commands.plan.partition", interrupt)
    ended = cli("plan", linear)
    assert (ended.code, ended.out, ended.err) == (130, "", "error: interrupted\n")


def test_an_interruption_that_python_drops_strikes_again(
    cli: Cli, linear: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def drop(*_: object, **__: object) -> None:
        Interrupted()
        time.sleep(60)

    monkeypatch.setattr("subgraphkit.cli.commands.plan.partition", drop)
    with heard():
        ended = cli("plan", linear)
    assert (ended.code, ended.out, ended.err) == (130, "", "error: interrupted\n")


def test_an_interruption_waits_for_the_end_of_an_import(
    cli: Cli, linear: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "slow_to_import.py").write_text(
        "import _thread, time\n_thread.interrupt_main()\ntime.sleep(0.1)\nIS_WHOLE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def load(*_: object, **__: object) -> None:
        importlib.import_module("slow_to_import")
        time.sleep(60)

    monkeypatch.setattr("subgraphkit.cli.commands.plan.partition", load)
    with heard():
        ended = cli("plan", linear)
    assert (ended.code, ended.out, ended.err) == (130, "", "error: interrupted\n")
    assert sys.modules.pop("slow_to_import").__dict__["IS_WHOLE"]


def test_no_error_has_an_empty_message() -> None:
    with pytest.raises(SubgraphkitError) as told:
        sk.load(b"\x00\x01")
    assert told.value.message
