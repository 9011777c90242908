"""TensorRT 8 is told by flags which types a model holds; its enumerations stand in for it here."""

import enum
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from backends.tensorrt.tests.tensorrt_models import blocks, typed_model
from subgraphkit.precision import rewrite
from subgraphkit_tensorrt.building.weak_types import allow_types_of

# Members of 8.5; the newer one lacks nothing that matters here.
BuilderFlag = enum.Enum("BuilderFlag", ["FP16", "INT8", "TF32", "OBEY_PRECISION_CONSTRAINTS"])


class Config:
    def __init__(self) -> None:
        self.flags: set[str] = set()

    def set_flag(self, flag: enum.Enum) -> None:
        self.flags.add(flag.name)


def _flags(model: ModelProto) -> set[str]:
    config = Config()
    allow_types_of(model, config, SimpleNamespace(BuilderFlag=BuilderFlag))
    return config.flags


def _quantized() -> ModelProto:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.float32(0.1), "s"),
        numpy_helper.from_array(np.int8(0), "z"),
    ]
    return typed_model(nodes, {"x": [4]}, {"y": [4]}, weights)


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        (blocks(), set()),
        (rewrite(blocks(), "fp16").model, {"FP16", "OBEY_PRECISION_CONSTRAINTS"}),
        (_quantized(), {"INT8", "OBEY_PRECISION_CONSTRAINTS"}),
        (
            typed_model(
                [helper.make_node("Relu", ["x"], ["y"])],
                {"x": [4]},
                {"y": [4]},
                types={"x": TensorProto.FLOAT16, "y": TensorProto.FLOAT16},
            ),
            {"FP16", "OBEY_PRECISION_CONSTRAINTS"},
        ),
    ],
    ids=["float32", "rewritten", "quantized", "float16"],
)
def test_the_types_a_model_holds_are_allowed_and_no_others(
    model: ModelProto, flags: set[str]
) -> None:
    assert _flags(model) == flags
