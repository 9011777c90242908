"""Attributes read, and graphs written."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_model
from onnx.reference import ReferenceEvaluator

import subgraphkit as sk
from subgraphkit.ir import Initializer, make_subgraph
from subgraphkit.onnx_io import outside_weights
from subgraphkit.onnx_io.attribute_rules import LazyAttributes, constant_of
from subgraphkit.types import DataType, TensorType
from tests.models import parsed

DENSE = "dense (float[64] x) => (float[64] y) { s = MatMul(x, w) y = Reshape(s, shape) }"


def whole(model):
    bound = sk.bind(sk.load(model), backend="none", fold=False)
    return make_subgraph(bound, tuple(bound.order), "fake")


def dense(dtype=np.float32):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    text = DENSE.replace("float", TensorProto.DataType.Name(kind).lower())
    return parsed(text, w=np.arange(64 * 64).reshape(64, 64).astype(dtype), shape=[64])


def stored_outside(model):
    return [t.name for t in model.graph.initializer if t.data_location == TensorProto.EXTERNAL]


def with_weights(model, subgraph):
    """Put the weights back, as a library that is handed both would."""
    arrays = outside_weights(model, subgraph)
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    return model


def test_only_large_weights_stay_outside():
    subgraph = whole(dense())
    model = subgraph.to_model(weights="outside")
    assert stored_outside(model) == ["w"]
    assert len(model.SerializeToString()) < 1024
    assert stored_outside(subgraph.to_model()) == []


def test_notes_of_nodes_are_written_unless_nobody_wants_them():
    proto = dense()
    for node in proto.graph.node:
        node.doc_string = "what it is for"
        node.metadata_props.add(key="stack_trace", value="where it was written")
    subgraph = whole(proto)
    assert [*subgraph.to_model().graph.node] == [*proto.graph.node]
    bare = subgraph.to_model(weights="outside", notes=False).graph.node
    assert [*bare] == [*dense().graph.node]
    assert [*subgraph.to_model(weights="outside").graph.node] == [*proto.graph.node]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_what_is_left_outside_has_the_dtype_and_shape_the_initializer_states(dtype):
    subgraph = whole(dense(dtype))
    model = subgraph.to_model(weights="outside")
    (array,) = outside_weights(model, subgraph).values()
    stated = next(t for t in model.graph.initializer if t.name == "w")
    assert tuple(stated.dims) == array.shape == (64, 64)
    assert helper.tensor_dtype_to_np_dtype(stated.data_type) == array.dtype
    (length,) = (int(e.value) for e in stated.external_data if e.key == "length")
    assert length == array.nbytes


def test_a_model_computes_the_same_with_its_weights_put_back():
    subgraph = whole(dense())
    put_back = with_weights(subgraph.to_model(weights="outside"), subgraph)
    onnx.checker.check_model(put_back, full_check=True)
    x = np.ones(64, np.float32)
    for model in (put_back, subgraph.to_model()):
        (y,) = ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_array_equal(y, x @ subgraph.constants["w"].array())


def test_a_large_constant_node_becomes_an_initializer_outside():
    model = parsed("g (float[600] x) => (float[600] y) { y = Add(x, c) }")
    values = numpy_helper.from_array(np.arange(600, dtype=np.float32))
    model.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=values))
    subgraph = whole(model)
    written = subgraph.to_model(weights="outside")
    assert [node.op_type for node in written.graph.node] == ["Add"]
    assert stored_outside(written) == ["c"]
    onnx.checker.check_model(with_weights(written, subgraph), full_check=True)
    assert [node.op_type for node in subgraph.to_model().graph.node] == ["Constant", "Add"]


def test_strings_and_elements_of_less_than_a_byte_stay_inside():
    model = parsed(
        "g (float[2000] x, string[500] t) => (float[2000] y, bool[500] same) "
        "{ u = Cast<to=1>(q) y = Add(x, u) same = Equal(t, texts) }"
    )
    nibbles = np.zeros(4000, np.uint8).tobytes()[:1000]
    model.graph.initializer.extend(
        [
            helper.make_tensor("q", TensorProto.UINT4, [2000], nibbles, raw=True),
            helper.make_tensor("texts", TensorProto.STRING, [500], [b"four"] * 500),
        ]
    )
    assert stored_outside(whole(model).to_model(weights="outside")) == []


def replaced(subgraph, name, array):
    """Return the subgraph as a session compiles it after ``update_weights``."""
    stored = subgraph.constants[name]
    renewed = Initializer(name, stored.type, lambda: array, stored.version + 1)
    return replace(subgraph, constants={**subgraph.constants, name: renewed})


def test_weights_that_were_replaced_are_outside_as_they_are_now():
    subgraph = replaced(whole(dense()), "w", np.full((64, 64), 2, np.float32))
    arrays = outside_weights(subgraph.to_model(weights="outside"), subgraph)
    assert np.unique(arrays["w"]).tolist() == [2]


def test_a_weight_that_is_not_contiguous_is_handed_over_contiguous():
    turned = np.arange(64 * 64, dtype=np.float32).reshape(64, 64).T
    subgraph = replaced(whole(dense()), "w", turned)
    (array,) = outside_weights(subgraph.to_model(weights="outside"), subgraph).values()
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array, turned)


BRANCHES = """
g (bool c, float[600] x) => (float[600] y) {
  y = If (c) <then_branch = t () => (float[600] p) { p = Add(x, w) },
              else_branch = e () => (float[600] q) { k = Constant<value_ints=[600]>()
                                                     q = Neg(x) }>
}
"""


def test_tensors_of_bodies_in_files_are_taken_in(tmp_path):
    model = parsed(BRANCHES)
    (then,) = (a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
    values = np.arange(600, dtype=np.float32)
    then.initializer.append(numpy_helper.from_array(values, "w"))
    path = tmp_path / "m.onnx"
    _save_with_files(model, path)
    written = whole(path).to_model()
    x = np.ones(600, np.float32)
    (y,) = ReferenceEvaluator(written).run(None, {"c": np.ones((), bool), "x": x})
    np.testing.assert_array_equal(y, values + 1)


def test_inputs_that_are_left_out_at_the_end_of_a_node_are_not_written():
    clip = 'Clip(x, low, "")'
    model = parsed(
        f"""g (bool c, float[3] x, float low) => (float[3] z) {{
          y = If (c) <then_branch = t () => (float[3] p) {{ p = {clip} }},
                      else_branch = e () => (float[3] q) {{ q = Neg(x) }}>
          w = {clip}
          z = Add(y, w)
        }}"""
    )
    written = whole(model).to_model().graph.node
    (inner,) = written[0].attribute[0].g.node
    assert [*inner.input] == [*written[1].input] == ["x", "low"]
    assert [*model.graph.node[1].input] == ["x", "low", ""]


def test_a_constant_node_in_a_file_is_taken_in(tmp_path):
    model = parsed("g (float[100] x) => (float[100] y) { y = Add(x, c) }")
    values = numpy_helper.from_array(np.arange(100, dtype=np.float32), "k")
    model.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=values))
    path = tmp_path / "m.onnx"
    _save_with_files(model, path)
    written = whole(path).to_model()
    (y,) = ReferenceEvaluator(written).run(None, {"x": np.ones(100, np.float32)})
    np.testing.assert_array_equal(y, np.arange(100) + 1)


def _save_with_files(model, path):
    """Save every tensor of the model, those of attributes and bodies too, in one data file."""
    outside = {"save_as_external_data": True, "location": "m.data", "size_threshold": 0}
    onnx.save(model, path, **outside, convert_attribute=True)
    _move_out_bodies(path)


def _move_out_bodies(path):
    model = onnx.load(path, load_external_data=False)
    folder = path.parent
    for node in model.graph.node:
        for attribute in node.attribute:
            for tensor in attribute.g.initializer:
                if tensor.data_location == TensorProto.EXTERNAL:
                    continue
                (folder / tensor.name).write_bytes(tensor.raw_data)
                tensor.ClearField("raw_data")
                tensor.data_location = TensorProto.EXTERNAL
                tensor.external_data.add(key="location", value=tensor.name)
    path.write_bytes(model.SerializeToString())
    load_external_data_for_model(model, str(folder))


def test_every_kind_of_attribute_is_decoded():
    tensor = helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0])
    node = helper.make_node(
        "Any", [], ["y"], i=3, f=0.5, s="text", ints=[1, 2], floats=[0.5], strings=["a"], t=tensor
    )
    attributes = LazyAttributes(node, None)
    assert {name: attributes[name] for name in ("i", "f", "s", "ints", "floats", "strings")} == {
        "i": 3,
        "f": 0.5,
        "s": "text",
        "ints": (1, 2),
        "floats": (0.5,),
        "strings": ("a",),
    }
    np.testing.assert_array_equal(attributes["t"], [1, 2])
    assert len(attributes) == 7


def test_text_that_is_not_utf8_stays_bytes():
    node = helper.make_node("Any", [], ["y"], s=b"\xff\xfe")
    assert LazyAttributes(node, None)["s"] == b"\xff\xfe"


@pytest.mark.parametrize(("attribute", "dtype", "expected"), [
    ({"value_float": 1.5}, DataType.FLOAT, 1.5),
    ({"value_floats": [1.5, 2.5]}, DataType.FLOAT, [1.5, 2.5]),
    ({"value_int": 7}, DataType.INT64, 7),
    ({"value_ints": [7, 8]}, DataType.INT64, [7, 8]),
    ({"value_string": "a"}, DataType.STRING, "a"),
    ({"value_strings": ["a", "b"]}, DataType.STRING, ["a", "b"]),
])  # fmt: skip
def test_every_form_of_constant_is_read(attribute, dtype, expected):
    constant = constant_of(helper.make_node("Constant", [], ["c"], **attribute), None)
    assert constant is not None
    assert constant.type == TensorType(dtype, np.shape(expected))
    assert constant.array().tolist() == expected


def test_a_sparse_constant_is_read_as_a_dense_array():
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", TensorProto.FLOAT, [2], [5.0, 6.0]),
        helper.make_tensor("i", TensorProto.INT64, [2], [1, 3]),
        [2, 2],
    )
    constant = constant_of(helper.make_node("Constant", [], ["c"], sparse_value=sparse), None)
    assert constant is not None
    np.testing.assert_array_equal(constant.array(), [[0, 5], [0, 6]])
