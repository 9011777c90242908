"""``subgraphkit run``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.models import parsed
from tests.unit.cli.conftest import Cli, Install

X = np.array([[1, 0, 0], [0, 1, 0]], np.float32)
Y = np.array([[11, 22], [13, 24]], np.float32)


def _run(cli: Cli, *words: object) -> dict[str, Any]:
    ended = cli("run", *words, "--json")
    assert ended.code == 0, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    assert document["schema"] == "subgraphkit.run/1"
    assert document["errors"] == []
    data: dict[str, Any] = document["data"]
    return data


def test_given_inputs_are_run(cli: Cli, linear: Path, array_file: Callable[[Any], Path]) -> None:
    data = _run(cli, linear, "--backend", "numpy", "--input", f"x={array_file(X)}")
    assert data["model"] == "linear.onnx"
    assert data["backends"] == ["numpy"]
    (output,) = data["outputs"]
    assert (output["name"], output["type"]) == ("y", "float32[2,2]")
    assert (output["min"], output["max"], output["mean"]) == (11.0, 24.0, float(Y.mean()))
    assert set(data["seconds"]) == {"load", "bind", "partition", "compile", "run"}


def test_operators_tell_of_themselves_after_the_run(cli: Cli, linear: Path) -> None:
    data = _run(cli, linear, "--backend", "numpy")
    assert [(one["subgraph"], one["backend"]) for one in data["operators"]] == [
        ("numpy_0", "numpy")
    ]
    assert isinstance(data["operators"][0]["info"], dict)


def test_outputs_are_stored(cli: Cli, linear: Path, array_file: Callable[[Any], Path]) -> None:
    _run(cli, linear, "--input", f"x={array_file(X)}", "-o", "results.npz")
    with np.load("results.npz") as stored:
        assert stored.files == ["y"]
        np.testing.assert_array_equal(stored["y"], Y)


def test_an_output_may_have_any_name(cli: Cli, tmp_path: Path) -> None:
    model = parsed("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    model.graph.output[0].name = model.graph.node[0].output[0] = "scope/file"
    onnx.save(model, tmp_path / "named.onnx")
    _run(cli, tmp_path / "named.onnx", "-o", "results.npz")
    with np.load("results.npz") as stored:
        assert stored.files == ["scope/file"]


def test_strings_and_sequences_are_stored(cli: Cli, tmp_path: Path) -> None:
    onnx.save(
        parsed("""
        g (float[2] x) => (seq(float[2]) s, string[1] t) {
          s = SequenceConstruct(x, x)
          t = Constant <value_strings = ["word"]> ()
        }
        """),
        tmp_path / "mixed.onnx",
    )
    data = _run(cli, tmp_path / "mixed.onnx", "-o", "results.npz")
    assert [output["type"] for output in data["outputs"]] == ["sequence of 2", "string[1]"]
    with np.load("results.npz") as stored:
        assert stored.files == ["s[0]", "s[1]", "t"]
        assert stored["t"].tolist() == ["word"]


def test_random_inputs_repeat_with_the_seed(cli: Cli, linear: Path) -> None:
    def outputs(seed: int) -> Any:
        return _run(cli, linear, "--symbol", "N=4", "--seed", seed)["outputs"]

    assert outputs(1) == outputs(1)
    assert outputs(1) != outputs(2)


def test_what_is_made_up_is_said(cli: Cli, linear: Path) -> None:
    ended = cli("run", linear, "--seed", 3)
    assert ended.code == 0
    assert "random values, seed 3: x" in ended.err
    assert "taken to be 1: N" in ended.err
    assert "float32[1,2]" in ended.out
    assert "taken" not in cli("run", linear, "--shape", "x=5,3").err


WINDOWS = """
g (float[?, 1, ?, ?] x) => (y) {
    w = ConstantOfShape <value = float[1] {1}> (shape)
    a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
    b = MaxPool <kernel_shape = [2, 2], strides = [4, 4]> (a)
    y = GlobalAveragePool(b)
}
"""


def test_sizes_that_nobody_gave_leave_windows_something_to_slide_over(cli: Cli) -> None:
    proto = parsed(WINDOWS.replace("[?", "[A").replace("?", "A"))
    proto.graph.initializer.append(
        onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [4], [1, 1, 3, 3])
    )
    for dim in (proto.graph.input[0].type.tensor_type.shape.dim[at] for at in (0, 2, 3)):
        dim.ClearField("dim_param")
    onnx.save(proto, "windows.onnx")
    ended = cli("run", "windows.onnx", "--backend", "numpy")
    assert ended.code == 0
    assert "taken to be 1: x[0]; taken to be 8: x[2], x[3]" in ended.err
    assert "taken to be 1: x[0] (" in cli("run", "windows.onnx", "--shape", "x=?,1,9,8").err
    given = ("--symbol", "x[0]=2", "--symbol", "x[2]=9", "--symbol", "x[3]=8")
    assert "taken" not in cli("run", "windows.onnx", *given).err


def test_sizes_that_nobody_gave_are_said_in_an_error(cli: Cli) -> None:
    onnx.save(
        parsed("g (float[N] x) => (y) <int64[2] s = {3, 5}> { y = Reshape(x, s) }"), "odd.onnx"
    )
    ended = cli("run", "odd.onnx", "--backend", "numpy")
    assert ended.code != 0
    assert "Sizes: taken to be" in ended.err.partition("error:")[2]
    told = cli("verify", "odd.onnx", "--backend", "onnxruntime")
    assert "Sizes: taken to be" in told.out + told.err.partition("error:")[2]


def test_a_file_fixes_the_named_dimensions_of_other_inputs(
    cli: Cli, tmp_path: Path, array_file: Callable[[Any], Path]
) -> None:
    onnx.save(
        parsed("g (float[N] a, float[N] b) => (float[N] y) { y = Add(a, b) }"),
        tmp_path / "two.onnx",
    )
    data = _run(cli, tmp_path / "two.onnx", "--input", f"a={array_file(np.ones(7, np.float32))}")
    assert [(i["type"], i["source"] == "random") for i in data["inputs"]] == [
        ("float32[7]", False),
        ("float32[7]", True),
    ]


@pytest.mark.parametrize("dtype", ["float", "double", "int64", "uint8", "bool", "float16"])
def test_every_kind_of_number_can_be_made_up(cli: Cli, dtype: str) -> None:
    onnx.save(parsed(f"g ({dtype}[3] x) => ({dtype}[3] y) {{ y = Identity(x) }}"), "typed.onnx")
    (output,) = _run(cli, "typed.onnx")["outputs"]
    assert output["not_finite"] == 0


def test_numbers_that_are_not_finite_are_counted_and_json_stays_json(
    cli: Cli, array_file: Callable[[Any], Path]
) -> None:
    onnx.save(parsed("g (float[3] x) => (float[3] y) { y = Identity(x) }"), "identity.onnx")
    file = array_file(np.array([np.nan, np.inf, 2], np.float32))
    (output,) = _run(cli, "identity.onnx", "--input", f"x={file}")["outputs"]
    assert (output["min"], output["max"], output["not_finite"]) == (2.0, 2.0, 2)


@pytest.mark.parametrize("size", [10**15, 2**62, 2**63 - 1, 2**63])
def test_an_input_larger_than_memory_is_not_called_a_bug(
    cli: Cli, tmp_path: Path, size: int
) -> None:
    onnx.save(parsed("g (float[N, 3] x) => (y) { y = Relu(x) }"), tmp_path / "n.onnx")
    ended = cli("run", tmp_path / "n.onnx", "--backend", "numpy", "--symbol", f"N={size}")
    assert ended.code in {2, 4}
    assert "SGK900" not in ended.err


@pytest.mark.parametrize("content", [b"", b"not an array", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_array_is_refused(cli: Cli, linear: Path, content: bytes) -> None:
    Path("bad.npy").write_bytes(content)
    ended = cli("run", linear, "--input", "x=bad.npy")
    assert ended.code == 2
    assert "the file 'bad.npy' for input 'x' cannot be read" in ended.err


def test_pickled_objects_are_never_read(cli: Cli, linear: Path) -> None:
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    ended = cli("run", linear, "--input", "x=objects.npy")
    assert ended.code == 2
    assert "cannot be read" in ended.err


def test_a_setting_of_the_command_line_wins(
    cli: Cli, linear: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_BACKEND", "no_such_backend")
    assert cli("run", linear).code == 3
    assert cli("run", linear, "--backend", "numpy").code == 0


PRINTS = """
import os
import subgraphkit as sk

print("printed at import")

class Property(sk.SubgraphProperty):
    def create_selector(self, graph):
        os.write(1, b"written to the descriptor")
        return sk.OpSelector(graph, ["MatMul"])

    def create_operator(self, subgraph, context):
        if os.environ.get("FAIL"):
            raise RuntimeError("out of luck")
        return context.fallback(subgraph)

class Plugin(sk.Backend):
    name = "loud"
    def properties(self):
        return [Property()]
"""


def test_what_a_plugin_prints_stays_out_of_the_data(
    new_process: Cli, install: Install, linear: Path
) -> None:
    install("loud", PRINTS)
    ended = new_process("run", linear, "--backend", "loud", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["data"]["backends"] == ["loud", "numpy"]
    assert "printed at import" in ended.err
    assert "written to the descriptor" in ended.err


def test_a_backend_that_fails_to_compile_is_a_failure(
    new_process: Cli, install: Install, linear: Path
) -> None:
    install("loud", PRINTS)
    ended = new_process("run", linear, "--backend", "loud", FAIL="1")
    assert (ended.code, ended.out) == (6, "")
    assert "[SGK130]" in ended.err
    assert "Traceback" not in ended.err
    shown = new_process("run", linear, "--backend", "loud", "--debug", FAIL="1")
    assert "RuntimeError: out of luck" in shown.err
    assert "Traceback" in shown.err
