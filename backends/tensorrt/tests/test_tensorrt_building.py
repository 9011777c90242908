"""Plans by the real builder: what is parsed, what is refused, and what is said of it."""

import json
import struct
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from backends.tensorrt.tests import tensorrt_models as models
from subgraphkit.errors import CompileError
from subgraphkit.testing.light_models import seeded_model
from subgraphkit_tensorrt.building.configuration import configure
from subgraphkit_tensorrt.building.model import prepare_model
from subgraphkit_tensorrt.building.network import parse_model
from subgraphkit_tensorrt.building.plan import read_plans, write_plans

pytestmark = models.needs_rtx
RANGES = {"batch": (1, 8, 32), "seq": (16, 128, 512)}


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_real_network_with_real_weights_builds(name):
    subgraph = models.whole(seeded_model(name, 1))
    plan = models.build_engine(subgraph, models.options(), models.rtx())
    assert (plan.inputs, plan.outputs) == (subgraph.inputs, subgraph.outputs)
    weights = sum(one.type.nbytes or 0 for one in subgraph.constants.values())
    assert len(plan.data) > weights / 2


def test_weights_are_read_where_they_lie():
    subgraph = models.cut(models.bound(models.blocks()), 0)
    model = prepare_model(subgraph, models.options())
    arrays = [one.array() for name, one in subgraph.constants.items()]
    assert len(model.weights) == len(arrays) == 2
    assert all(map(np.shares_memory, model.weights.values(), arrays))
    assert len(model.proto.SerializeToString()) < 2000


def test_a_library_that_cannot_be_handed_weights_gets_them_in_the_model():
    old = replace(
        models.rtx(), capabilities=replace(models.rtx().capabilities, load_initializer=False)
    )
    subgraph = models.whole(models.blocks((3,)), batch=1, seq=16)
    new_plan = models.build_engine(subgraph, models.options(), models.rtx())
    assert len(models.build_engine(subgraph, models.options(), old).data) == len(new_plan.data)


def test_names_of_the_model_do_not_reach_the_plan_beside_inputs_and_outputs():
    plan = models.build_engine(
        models.cut(models.bound(models.blocks()), 1), models.options(dims=RANGES), models.rtx()
    )
    assert b"block1" not in plan.data
    assert b"y0" in plan.data


def test_a_body_may_read_values_from_outside_that_were_renamed():
    def branch(op):
        body = [helper.make_node(op, ["h", "w"], [f"{op}.out"], name="inside")]
        out = helper.make_tensor_value_info(f"{op}.out", TensorProto.FLOAT, [2])
        return helper.make_graph(body, op, [], [out])

    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("If", ["c"], ["r"], then_branch=branch("Add"), else_branch=branch("Mul")),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    model = models.typed_model(
        nodes, {"x": [2], "c": []}, {"y": [2]}, [weight], types={"c": TensorProto.BOOL}
    )
    plan = models.build_engine(models.whole(model), models.options(), models.rtx())
    assert plan.report["precisions"]["float32"] >= 2


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_another_precision_is_what_the_layers_compute_in(precision):
    asked = models.options(dims=RANGES, precision=precision)
    plan = models.build_engine(models.cut(models.bound(models.blocks()), 0), asked, models.rtx())
    word = {"fp16": "float16", "bf16": "bfloat16"}[precision]
    assert plan.report["products"] == {word: 2}
    assert plan.report["rewriting"]["lowered"] == 4


def test_what_the_parser_does_not_take_is_told_in_its_words_with_the_node():
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("Det", ["h"], ["y"], name="d"),
    ]
    subgraph = models.whole(models.typed_model(nodes, {"x": [2, 2]}, {"y": []}))
    with pytest.raises(CompileError, match=r"SGK170.*#1 Det 'd'") as caught:
        models.build_engine(subgraph, models.options(), models.rtx())
    assert caught.value.context["nodes"] == (1,)


def test_a_network_that_is_not_what_the_model_says_is_refused():
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    model = models.typed_model(
        nodes, {"x": [4]}, {"y": [4]}, types={"x": TensorProto.DOUBLE, "y": TensorProto.DOUBLE}
    )
    with pytest.raises(CompileError, match=r"SGK171.*is float32\[4\], expected float64\[4\]"):
        models.build_engine(models.whole(model), models.options(), models.rtx())


def test_a_workspace_that_is_too_small_fails_with_a_word_on_the_option():
    asked = models.options(dims=RANGES, workspace_limit=1 << 20)
    with pytest.raises(CompileError, match=r"(?s)SGK172.*workspace_limit"):
        models.build_engine(models.cut(models.bound(models.blocks()), 0), asked, models.rtx())


@pytest.mark.parametrize("given", [
    {"optimization_level": 1},
    {"builder": {"avg_timing_iterations": 2, "max_aux_streams": 0}},
    {"tf32": False},
    {"weight_streaming": True},
    {"builder": {"tiling_optimization_level": "FAST", "TACTIC_DRAM": 1 << 30}},
    {"workspace_limit": 1 << 30},
], ids=str)  # fmt: skip
def test_an_option_reaches_the_builder(given):
    assert models.build_engine(
        models.cut(models.bound(models.blocks()), 0),
        models.options(dims=RANGES, **given),
        models.rtx(),
    ).data


@pytest.mark.parametrize("given", [
    {"hardware_compatibility_level": "AMPERE_PLUS"},
    {"max_num_tactics": -5},
    {"max_num_tactics": "many"},
], ids=str)  # fmt: skip
def test_an_option_the_library_would_ignore_is_an_error(given):
    with pytest.raises(CompileError, match=f"SGK173.*{next(iter(given))}"):
        models.build_engine(
            models.cut(models.bound(models.blocks()), 0),
            models.options(dims=RANGES, builder=given),
            models.rtx(),
        )


def test_flags_are_set_as_options_say():
    subgraph = models.cut(models.bound(models.blocks()), 0)
    trt, model = models.rtx().trt, prepare_model(subgraph, models.options())
    asked = models.options(
        refittable=True,
        tf32=False,
        builder={
            "EDITABLE_TIMING_CACHE": True,
            "SPARSE_WEIGHTS": 1,
            "STRICT_NANS": True,
            "profiling_verbosity": "DETAILED",
            "max_num_tactics": 5,
        },
    )
    with closing(parse_model(model, subgraph, models.rtx(), asked)) as parsed:
        default = configure(parsed, models.rtx(), models.options())
        assert not default.get_flag(trt.BuilderFlag.REFIT)
        assert default.get_flag(trt.BuilderFlag.TF32)
        workspace = trt.MemoryPoolType.WORKSPACE
        plain = parsed.builder.create_builder_config()
        assert default.get_memory_pool_limit(workspace) == plain.get_memory_pool_limit(workspace)
        config = configure(parsed, models.rtx(), asked)
        for flag in ("REFIT", "EDITABLE_TIMING_CACHE", "SPARSE_WEIGHTS", "STRICT_NANS"):
            assert config.get_flag(trt.BuilderFlag.__members__[flag])
        assert config.profiling_verbosity == trt.ProfilingVerbosity.DETAILED
        assert config.max_num_tactics == 5
        assert not config.get_flag(trt.BuilderFlag.TF32)
        del default, plain, config


def test_plans_are_read_as_they_were_written():
    plan = models.build_engine(
        models.cut(models.bound(models.blocks()), 0), models.options(dims=RANGES), models.rtx()
    )
    (again,) = read_plans(write_plans([plan]))
    assert again.data == plan.data
    assert (again.inputs, again.outputs) == (plan.inputs, plan.outputs)
    assert again.profiles == plan.profiles
    assert json.dumps(again.report) == json.dumps(plan.report)
    assert again.covers([(2, 16, 64)])
    assert not again.covers([(64, 16, 64)])


def test_int8_by_ranges_from_a_calibration_cache(tmp_path):
    names = ("x", "block0.q", "block0.r", "block0.s", "y0")
    lines = [f"{name}: {struct.pack('>f', 4 / 127).hex()}" for name in names]
    table = tmp_path / "calibration.cache"
    table.write_text("\n".join(["TRT-8601-EntropyCalibration2", *lines]) + "\n")
    asked = models.options(dims=RANGES, precision="int8", calibration=table)
    subgraph = models.cut(models.bound(models.blocks((0,), width=128)), 0)
    model = prepare_model(subgraph, asked)
    assert {node.op_type for node in model.proto.graph.node} >= {
        "QuantizeLinear",
        "DequantizeLinear",
    }
    assert model.rewriting is not None
    assert set(model.rewriting.quantized) >= {"block0/first"}
