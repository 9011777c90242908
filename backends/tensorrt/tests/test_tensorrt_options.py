"""The table of options: checked against the library, against one another, and against the code."""

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

import subgraphkit_tensorrt
from backends.tensorrt.tests.tensorrt_api import Api, releases
from backends.tensorrt.tests.tensorrt_models import needs_rtx, rtx
from subgraphkit.backend import validate_options
from subgraphkit.errors import OptionError
from subgraphkit_tensorrt import TensorRTBackend
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.builder_settings import read_settings
from subgraphkit_tensorrt.option_rules import check_agreement, read_ranges

OPTIONS = TensorRTBackend.options
TABLE = {option.name: option for option in OPTIONS}
PACKAGE = Path(subgraphkit_tensorrt.__file__).parent


def _with(**given):
    named = {name: (value, "a test") for name, value in given.items()}
    return Options(**validate_options("tensorrt", OPTIONS, named))


@pytest.mark.parametrize(("given", "said"), [
    ({"dims": {"batch": (8, 4, 2)}}, "the range (8, 4, 2)"),
    ({"dims": {"batch": (1, 2)}}, "the range (1, 2)"),
    ({"dims": {"batch": (-1, 4, 8)}}, "the range (-1, 4, 8)"),
    ({"dims": {"batch": ("n",)}}, "the range ('n',)"),
    ({"min_shapes": "x=1x3"}, "no shape in opt_shapes and max_shapes"),
    ({f"{word}_shapes": f"x={word}" for word in ("min", "opt", "max")}, "whole numbers"),
    ({"min_shapes": "x=1x3", "opt_shapes": "x=4x3", "max_shapes": "x=2x3"},
     "none larger than the next"),
    ({"min_shapes": "x=1", "opt_shapes": "x=1x1", "max_shapes": "x=1"}, "equally many"),
    ({"precision": "int8"}, "needs calibration"),
    ({"precision": "fp8"}, "needs calibration"),
])  # fmt: skip
def test_options_that_contradict_one_another_are_refused(given, said):
    with pytest.raises(OptionError, match="SGK161") as caught:
        check_agreement(_with(**given))
    assert said in caught.value.message
    assert caught.value.hint


def test_ranges_are_read_from_numbers_and_from_text():
    (ranges,) = read_ranges(
        _with(
            dims="batch=1x8x32;seq=128",
            min_shapes={"x": (1, 3)},
            opt_shapes={"x": (4, 3)},
            max_shapes={"x": (8, 3)},
        )
    )
    assert ranges.dims == {"batch": (1, 8, 32), "seq": (128, 128, 128)}
    assert ranges.inputs == {"x": ((1, 3), (4, 3), (8, 3))}


@pytest.mark.parametrize("given", [
    {"batch": [(1, 1, 1), (1, 8, 32)], "seq": 128},
    {"batch": [[1], [1, 8, 32]], "seq": [128]},
    {"batch": [1, (1, 8, 32)], "seq": ("128",)},
    "batch=1|1x8x32;seq=128",
    "batch=1x1x1|1x8x32;seq=128|128",
])  # fmt: skip
def test_a_dimension_may_have_several_ranges(given):
    if isinstance(given, dict):
        given = {name: one if isinstance(one, Sequence) else [one] for name, one in given.items()}
    asked = _with(dims=given)
    assert [dict(one.dims) for one in read_ranges(asked)] == [
        {"batch": (1, 1, 1), "seq": (128, 128, 128)},
        {"batch": (1, 8, 32), "seq": (128, 128, 128)},
    ]


@pytest.mark.parametrize("text", ["batch=1|8x1x2", "batch=1|x", "batch=|", "batch=a", "batch=1x2"])
def test_ranges_that_are_none_are_refused_with_an_example(text):
    with pytest.raises(OptionError, match=r"(?s)SGK161.*'batch'.*batch=1\|1x8x32"):
        read_ranges(_with(dims=text))


def _settings(release, given):
    return read_settings(Api(release).module(), _with(builder=given).builder)


@pytest.mark.parametrize("release", releases())
def test_settings_of_the_builder_are_those_of_the_library_at_hand(release):
    given = {"avg_timing_iterations": 2, "TACTIC_DRAM": 1 << 30, "DEBUG": False}
    owners = [owner for owner, _, _ in _settings(release, given)]
    assert owners == ["IBuilderConfig", "MemoryPoolType", "BuilderFlag"]
    if Api(release).has("IBuilderConfig.max_num_tactics"):
        assert len(_settings(release, {"max_num_tactics": 8})) == 1
        return
    with pytest.raises(OptionError, match=r"SGK160.*'max_num_tactics', which this library"):
        _settings(release, {"max_num_tactics": 8})


@pytest.mark.parametrize(("name", "value", "code", "said", "hint"), [
    ("max_tactics", 8, "SGK160", "did you mean 'max_num_tactics'?", "SPARSE_WEIGHTS, "),
    ("progress_monitor", 1, "SGK160", "which the backend decides", "It has: "),
    ("STRIP_PLAN", True, "SGK160", "which the backend decides", "It has: "),
    ("TF32", False, "SGK161", "which an option sets", "Use the option tf32."),
    ("SPARSE_WEIGHTS", "often", "SGK111", "SPARSE_WEIGHTS the value 'often'", ""),
    ("TACTIC_DRAM", 1.5, "SGK111", "expected a number of bytes", ""),
    ("tiling_optimization_level", "EXTREME", "SGK111", "one of NONE, FAST, MODERATE", ""),
])  # fmt: skip
@needs_rtx
def test_a_setting_that_the_library_does_not_have_or_take_is_refused(name, value, code, said, hint):
    with pytest.raises(OptionError, match=code) as caught:
        read_settings(rtx().trt, _with(builder={name: value}).builder)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_no_option_is_without_effect():
    named = set()
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "options" and path.name != "backend_options.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert TABLE.keys() - named == set()


@pytest.mark.parametrize(("name", "value", "said"), [
    ("trt_fp16_enable", "true", "trt_fp16_enable is precision=fp16 here"),
    ("trt_bf16_enable", 1, "precision=bf16"),
    ("trt_int8_enable", "True", "precision=int8"),
    ("trt_cuda_graph_enable", True, "cuda_graphs=auto"),
    ("trt_engine_hw_compatible", True, "builder=hardware_compatibility_level=AMPERE_PLUS"),
    ("trt_min_subgraph_size", 5, "trt_min_subgraph_size is min_subgraph_nodes=5"),
    ("device_id", "1", "device=1"),
    ("trt_engine_cache_enable", True, "the setting cache of the session"),
    ("trt_engine_cache_path", "engines", "the setting cache_dir of the session"),
    ("trt_dump_subgraphs", True, "No option here does what"),
    ("trt_dla_enable", 1, "No option here does what"),
    ("trt_fp16_enabel", True, "did you mean 'trt_fp16_enable'"),
    ("precision_mode", "FP16", "TF-TRT's precision_mode is precision=fp16 here"),
    ("minimum_segment_size", 5, "min_subgraph_nodes=5"),
    ("max_workspace_size_bytes", 1 << 30, "workspace_limit=1073741824"),
    ("enabled_precisions", "{torch.float32, torch.float16}", "precision=fp16"),
    ("enabled_precisions", {"torch.bfloat16"}, "Torch-TensorRT's enabled_precisions is prec"),
    ("min_block_size", 1, "min_subgraph_nodes=1"),
    ("disable_tf32", True, "tf32=false"),
    ("immutable_weights", False, "refittable=true"),
    ("tiling_optimization_level", "fast", "builder=tiling_optimization_level=FAST"),
    ("require_full_compilation", True, "the setting require={'tensorrt': 1.0} of the session"),
    ("torch_executed_ops", {"aten.softmax"}, "the setting keep_off of the session"),
])  # fmt: skip
def test_an_option_of_another_integration_is_answered_with_ours(name, value, said):
    given = {name: (value, "a test")}
    with pytest.raises(OptionError, match=f"SGK110.*{name}") as caught:
        validate_options("tensorrt", OPTIONS, given, TensorRTBackend.foreign_option)
    assert said in caught.value.hint
    assert len(caught.value.hint) < 400
    assert TensorRTBackend.foreign_option("precison", value) == ""  # nobody has that


def test_a_range_that_cannot_be_read_is_answered_with_the_forms_of_one():
    with pytest.raises(OptionError, match=r"SGK111.*smallest, usual and largest.*'batch=1x8x32'"):
        _with(dims={"batch": "1-8"})
