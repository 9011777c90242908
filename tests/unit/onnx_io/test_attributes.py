"""Attributes and constants as Python values."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from subgraphkit.onnx_io.attribute_rules import LazyAttributes, constant_of
from subgraphkit.types import DataType, TensorType


def test_every_kind_of_attribute_is_decoded() -> None:
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


def test_text_that_is_not_utf8_stays_bytes() -> None:
    node = helper.make_node("Any", [], ["y"], s=b"\xff\xfe")
    assert LazyAttributes(node, None)["s"] == b"\xff\xfe"


@pytest.mark.parametrize(
    ("attribute", "dtype", "expected"),
    [
        ({"value_float": 1.5}, DataType.FLOAT, 1.5),
        ({"value_floats": [1.5, 2.5]}, DataType.FLOAT, [1.5, 2.5]),
        ({"value_int": 7}, DataType.INT64, 7),
        ({"value_ints": [7, 8]}, DataType.INT64, [7, 8]),
        ({"value_string": "a"}, DataType.STRING, "a"),
        ({"value_strings": ["a", "b"]}, DataType.STRING, ["a", "b"]),
    ],
)
def test_every_form_of_constant_is_read(
    attribute: dict[str, object], dtype: DataType, expected: object
) -> None:
    constant = constant_of(helper.make_node("Constant", [], ["c"], **attribute), None)
    assert constant is not None
    assert constant.type == TensorType(dtype, np.shape(expected))
    assert constant.array().tolist() == expected


def test_a_sparse_constant_is_read_as_a_dense_array() -> None:
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", TensorProto.FLOAT, [2], [5.0, 6.0]),
        helper.make_tensor("i", TensorProto.INT64, [2], [1, 3]),
        [2, 2],
    )
    constant = constant_of(helper.make_node("Constant", [], ["c"], sparse_value=sparse), None)
    assert constant is not None
    np.testing.assert_array_equal(constant.array(), [[0, 5], [0, 6]])
