"""What can be loaded, and how what cannot be is refused."""

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import subgraphkit as sk
from subgraphkit.binding import bind
from subgraphkit.errors import (
    CallerError,
    InvalidModelError,
    ModelNotFoundError,
    UnsupportedModelError,
)
from subgraphkit.onnx_io.validation import MAX_DEPTH
from tests.models import CHAIN, LIGHT, parsed
from tests.scripts import run_child


def refusal(source, kind=InvalidModelError):
    with pytest.raises(kind) as caught:
        sk.load(source)  # type: ignore[arg-type]
    return str(caught.value)


def test_a_model_loads_from_path_bytes_and_proto(tmp_path):
    proto = parsed(CHAIN)
    path = tmp_path / "chain.onnx"
    onnx.save(proto, path)
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), proto):
        assert len(sk.load(source).graph.nodes) == 3
    assert sk.load(path).name == "chain.onnx"
    assert sk.load(proto).name == "chain"


def test_a_model_of_onnx_ir_is_loaded_with_its_data(tmp_path):
    ir = pytest.importorskip("onnx_ir")
    weight = np.arange(1500, dtype=np.float32)
    proto = parsed("g (float[1500] x) => (float[1500] y) { y = Add(x, w) }", w=weight)
    assert len(sk.load(ir.from_proto(proto)).graph.nodes) == 1
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    model = sk.load(ir.load(tmp_path / "m.onnx"))
    np.testing.assert_array_equal(model.graph.initializers["w"].array(), weight)


class MakesAProto:
    """As a function of onnxscript does."""

    def to_model_proto(self, **options):
        return parsed(CHAIN)


def test_what_can_be_made_into_a_model_is():
    assert len(sk.load(MakesAProto()).graph.nodes) == 3


class HoldsAProto:
    """As an ``ONNXProgram`` of ``torch.onnx`` does."""

    def __init__(self):
        self.model_proto = parsed(CHAIN)


def test_what_holds_a_model_is_loaded_and_left_whole():
    held = HoldsAProto()
    weight = np.zeros(8 << 20, np.float32)
    held.model_proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    assert len(sk.load(held).graph.nodes) == 3
    assert len(held.model_proto.graph.initializer[0].raw_data) == weight.nbytes


@pytest.mark.parametrize(
    "source",
    ["https://huggingface.co/m/model.onnx", Path("s3://bucket/m.onnx"), "file:///srv/m.onnx"],
)
def test_a_url_is_called_one(source):
    told = refusal(source, CallerError)
    assert "[SGK213]" in told
    assert "is a URL" in told
    assert "Download it first" in told


def ran(program):
    done = run_child([sys.executable, "-c", textwrap.dedent(program)])
    return done.stdout.strip()


def changed(change, text=CHAIN):
    proto = parsed(text)
    change(proto)
    return proto


def one_node(node, opset=18):
    return parsed(f"g (float[4] x) => (float[4] y) {{ y = {node} }}", opset)


RESNET = (LIGHT / "light_resnet50.onnx").read_bytes()
NEWEST = onnx.defs.onnx_opset_version()
REFUSED: dict[str, tuple[Any, type[Exception], str, str]] = {
    "a missing file": ("nowhere/m.onnx", ModelNotFoundError, "SGK201", "nowhere/m.onnx"),
    "no name": ("a\0b.onnx", ModelNotFoundError, "SGK201", ""),
    "no folder": ("a\0/b.onnx", ModelNotFoundError, "SGK201", ""),
    "half a character": ("\udfff.onnx", ModelNotFoundError, "SGK201", ""),
    "a folder": (LIGHT, ModelNotFoundError, "SGK201", ""),
    "half a file": (RESNET[: len(RESNET) // 2], InvalidModelError, "SGK202", ""),
    "text": (b"Dear reader, this is no model.", InvalidModelError, "SGK202", "looks like text"),
    "nothing": (b"", InvalidModelError, "SGK202", "The file is empty"),
    "an empty model": (onnx.ModelProto(), InvalidModelError, "SGK202", ""),
    "a number": (17, CallerError, "SGK213", ""),
    "a graph": (parsed(CHAIN).graph, CallerError, "SGK213", "from GraphProto"),
    "a future set": (parsed(CHAIN, 9999), UnsupportedModelError, "SGK206", f"9999.* 1 to {NEWEST}"),
    "a future version": (changed(lambda m: setattr(m, "ir_version", 9999)), UnsupportedModelError,
                         "SGK206", ""),
    "a set twice": (changed(lambda m: m.opset_import.add(domain="ai.onnx", version=7)),
                    InvalidModelError, "SGK214", ""),
    "a set not imported": (one_node("com.acme.Foo(x)"), InvalidModelError, "SGK207", "'com.acme'"),
    "a misspelt operator": (one_node("Reluu(x)"), InvalidModelError, "SGK207",
                            "Did you mean 'Relu'?"),
    "an operator too new": (one_node("Gelu(x)", 13), InvalidModelError, "SGK207",
                            "exists from version 20 on; the model imports version 13"),
    "an input twice": (changed(lambda m: m.graph.input.append(m.graph.input[0])),
                       InvalidModelError, "SGK204", ""),
    "too few inputs": (one_node("Add(x)"), InvalidModelError, "SGK215",
                       "node #0 Add has 1 input; Add of version 14 has 2"),
    "no inputs": (one_node("Relu()"), InvalidModelError, "SGK215",
                  "node #0 Relu has 0 inputs; Relu of version 14 has 1"),
    "too many inputs": (one_node("Clip(x, x, x, x)"), InvalidModelError, "SGK215",
                        "node #0 Clip has 4 inputs; Clip of version 13 has 1 to 3"),
    "too many outputs": (changed(lambda m: m.graph.node[0].output.append("z")), InvalidModelError,
                         "SGK215", "node #0 Relu has 2 outputs; Relu of version 14 has 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_model_that_can_be_run_is_refused(name):
    source, kind, code, words = REFUSED[name]
    assert re.search(rf"^\[{code}\][\s\S]*{words}", refusal(source, kind))


def test_operators_of_somebodys_own_set_are_left_to_the_backends():
    text = "g (float x) => (float y) { y = com.acme.Foo(x) }"
    model = sk.load(parsed(text, imports='"com.acme": 1'))
    assert model.graph.nodes[0].qualified_op_type == "com.acme::Foo"


def with_initializer(**fields):
    proto = parsed("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    proto.graph.initializer.append(TensorProto(name="w", **fields))
    return proto


@pytest.mark.parametrize("fields", [
    {"data_type": 1, "dims": [3], "raw_data": b"1234"},
    {"data_type": 1, "dims": [2], "float_data": [1.0]},
    {"data_type": 1, "dims": [-1], "raw_data": b"1234"},
    {"data_type": 1, "dims": [2**62, 8], "raw_data": b"1234"},
    {"data_type": 1, "dims": [2]},
    {"data_type": 0, "dims": [2], "raw_data": b"12345678"},
    {"data_type": 999, "dims": [2], "raw_data": b"12345678"},
    {"data_type": 22, "dims": [3], "raw_data": b"1"},
])  # fmt: skip
def test_a_tensor_whose_payload_does_not_fit_is_refused(fields):
    assert "[SGK208]" in refusal(with_initializer(**fields))


def test_an_initializer_given_twice_is_refused():
    proto = with_initializer(data_type=1, dims=[2], float_data=[1, 2])
    proto.graph.initializer.append(proto.graph.initializer[0])
    assert "[SGK204]" in refusal(proto)


def thread_of_bodies(depth):
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "leaf", [], [])
    for _ in range(depth):
        body.output.append(helper.make_tensor_value_info("y", 1, [2]))
        abs_, made = helper.make_node("Abs", ["x"], ["y"]), body.output[:1]
        other = helper.make_graph([abs_], "other", [], made)
        node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)
        body = helper.make_graph([node], "level", [], [])
    body.input.extend(
        [helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("x", 1, [2])]
    )
    body.output.append(helper.make_tensor_value_info("y", 1, [2]))
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_bodies_are_bound_as_deep_as_files_can_hold_them():
    for source in (proto := thread_of_bodies(MAX_DEPTH), proto.SerializeToString()):
        assert str(bind(sk.load(source)).types["y"]) == "float32[2]"
    proto = thread_of_bodies(MAX_DEPTH + 1)
    assert "[SGK209]" in refusal(proto)
    assert "[SGK202]" in refusal(proto.SerializeToString())


def test_initializers_of_old_models_are_weights_and_of_new_ones_defaults():
    text = "g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }"
    for ir_version, inputs, defaults in ((3, ("x",), []), (10, ("x",), ["w"])):
        proto = parsed(text)
        proto.ir_version = ir_version
        proto.graph.initializer.append(helper.make_tensor("w", 1, [2], [1.0, 2.0]))
        graph = sk.load(proto).graph
        assert graph.inputs == inputs
        assert list(graph.defaults) == defaults
        assert ("w" in graph.initializers) is (not defaults)
