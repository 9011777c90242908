"""Ranges of shapes: derived for inputs inside a model, and refused before any builder sees them."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from backends.tensorrt.tests import tensorrt_models as models
from subgraphkit.errors import CompileError, OptionError, SubgraphkitError
from subgraphkit.ir import make_subgraph
from subgraphkit_tensorrt.building import build
from subgraphkit_tensorrt.building.profiles import InputRange, exact_ranges

RANGES = {"batch": (1, 8, 32), "seq": (16, 128, 512)}


SHAPES = ("min_shapes", "opt_shapes", "max_shapes")


def _shapes(low, usual, high, name="x"):
    given = zip(SHAPES, (low, usual, high), strict=True)
    return {word: {name: shape} for word, shape in given}


FIXED = ((2, 16, 64),) * 3
ASKED = {
    "dimensions": ({"dims": RANGES}, [((1, 16, 64), (8, 128, 64), (32, 512, 64))]),
    "several ranges of a dimension": (
        {"dims": {"batch": [(1, 1, 1), (2, 8, 32)], "seq": (16, 128, 512)}},
        [((1, 16, 64), (1, 128, 64), (1, 512, 64)), ((2, 16, 64), (8, 128, 64), (32, 512, 64))],
    ),
    "inputs of the model": (
        _shapes((1, 16, 64), (4, 32, 64), (8, 64, 64)),
        [((1, 16, 64), (4, 32, 64), (8, 64, 64))],
    ),
    "nothing": ({}, None),
    "one dimension of two": ({"dims": {"batch": (1, 2, 4)}}, None),
    "nothing, of fixed shapes": ({}, [FIXED]),
    "ranges between which fixed shapes make no difference": (
        {"dims": {"batch": ((1, 2, 4), 2)}},
        [FIXED],
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_ranges_of_an_input_inside_the_model_follow_from_what_is_said_of_the_model(what):
    given, expected = ASKED[what]
    graph = (
        models.bound(models.blocks(), batch=2, seq=16)
        if "fixed" in what
        else models.bound(models.blocks())
    )
    found = models.buckets_at_bind(models.cut(graph, 1), models.options(**given))
    assert found == (expected and [{"y0": InputRange(*one)} for one in expected])


def test_several_ranges_add_next_to_nothing_to_an_engine():
    weights = [
        numpy_helper.from_array(np.eye(512, dtype=np.float32) + k, f"w{k}") for k in range(3)
    ]
    nodes = [helper.make_node("MatMul", [f"y{k}", f"w{k}"], [f"y{k + 1}"]) for k in range(3)]
    model = models.typed_model(nodes, {"y0": ["n", 512]}, {"y3": ["n", 512]}, weights)
    subgraph = models.whole(model)
    sizes = []
    for dims in ((1, 8, 32), [(1, 8, 32), (32, 64, 128)], [(1, 8, 32), (32, 64, 128), (1, 8, 64)]):
        asked = models.options(dims={"n": dims})
        wanted = models.buckets_at_bind(subgraph, asked)
        plan = build.build_engine(
            subgraph, models.context_of(subgraph.graph, asked), models.rtx(), wanted
        )
        assert len(plan.profiles) == len(wanted)
        sizes.append(len(plan.data))
    assert sizes[0] <= sizes[1] <= sizes[2] < sizes[0] * 1.02


def test_a_size_that_is_computed_from_an_open_one_gets_its_own_range():
    nodes = [
        helper.make_node("Concat", ["x", "x", "x"], ["three"], axis=0),
        helper.make_node("Relu", ["three"], ["y"]),
    ]
    model = models.typed_model(nodes, {"x": ["n", 4]}, {"y": [None, 4]})
    second = make_subgraph(models.bound(model), [1], "tensorrt")
    found = models.ranges_at_bind(second, models.options(dims={"n": (1, 2, 5)}))
    assert found == {"three": InputRange((3, 4), (6, 4), (15, 4))}


def test_shapes_that_nobody_gave_are_known_at_the_first_run():
    found = exact_ranges(models.whole(models.blocks()), [np.zeros((3, 5, 64), np.float32)])
    assert found == {"x": InputRange((3, 5, 64), (3, 5, 64), (3, 5, 64))}


def test_a_range_grows_to_cover_another():
    small, large = InputRange((2, 4), (2, 4), (2, 4)), InputRange((1, 8), (1, 8), (1, 8))
    grown = small.cover(large)
    assert grown == InputRange((1, 4), (1, 8), (2, 8))
    assert grown.covers((2, 8))
    assert not grown.covers((3, 8))
    assert not grown.covers((2, 8, 1))


BAD = {
    "a dimension the model lacks": ({"dims": {"Batch": (1, 2, 3)}}, "no symbolic dimension"),
    "an input the model lacks": (
        _shapes((1, 1, 64), (1, 1, 64), (1, 1, 64), "z"),
        "no input of the model",
    ),
    "too few axes": (_shapes((1, 64), (1, 64), (2, 64)), "has 2 dimensions"),
    "a fixed size that varies": (
        _shapes((1, 1, 32), (1, 1, 64), (1, 1, 64)),
        "which is 64 in the model",
    ),
    "one name, two ranges": (
        {"dims": {"batch": (1, 2, 4)}, **_shapes((1, 1, 64), (2, 1, 64), (8, 1, 64))},
        "in one place",
    ),
    "a dimension left open": ({"dims": {"batch": (1, 2, 4)}}, "not known before it runs"),
    "too many elements": ({"dims": {"batch": (1, 8, 1 << 20), "seq": (1, 8, 1 << 20)}}, "31 bits"),
}


@models.needs_rtx
@pytest.mark.parametrize("what", BAD)
def test_a_range_that_cannot_be_is_refused_before_the_builder(what, monkeypatch):
    def no_builder(*_):
        raise AssertionError("the builder was asked")

    monkeypatch.setattr(build, "_build_plan", no_builder)
    given, said = BAD[what]
    with pytest.raises((OptionError, CompileError)) as caught:
        models.build_engine(models.whole(models.blocks()), models.options(**given), models.rtx())
    assert caught.value.code in {"SGK161", "SGK169"}
    assert said in str(caught.value)
    assert caught.value.hint


def _reshaped():
    nodes = [helper.make_node("Reshape", ["x", "target"], ["y"])]
    inputs, outputs = {"x": ["n", 8], "target": [2]}, {"y": [None, None]}
    return models.typed_model(nodes, inputs, outputs, types={"target": TensorProto.INT64})


@models.needs_rtx
def test_an_input_that_shapes_are_computed_from_is_given_by_its_elements():
    asked = models.options(
        min_shapes={"x": (1, 8), "target": (1, 8)},
        opt_shapes={"x": (4, 8), "target": (4, 8)},
        max_shapes={"x": (8, 8), "target": (64, 64)},
    )
    plan = models.build_engine(models.whole(_reshaped()), asked, models.rtx())
    assert plan.profiles[0][1].values == ((1, 8), (4, 8), (64, 64))
    assert plan.data[:4] == b"vtrt"


@models.needs_rtx
def test_an_input_that_shapes_are_computed_from_needs_its_elements():
    with pytest.raises(CompileError, match=r"SGK169.*the elements of input 'target'"):
        models.build_engine(
            models.whole(_reshaped()), models.options(dims={"n": (1, 4, 8)}), models.rtx()
        )


@models.needs_rtx
def test_elements_met_at_run_time_are_taken_from_the_arrays():
    subgraph = models.whole(_reshaped())
    inputs = [np.zeros((4, 8), np.float32), np.array([8, 4])]
    ranges = exact_ranges(subgraph, inputs)
    assert ranges["target"].values == ((8, 4),) * 3
    assert not ranges["target"].covers_values((4, 8))
    assert models.build_engine(subgraph, models.options(), models.rtx(), ranges).data


def test_sizes_that_contradict_each_other_inside_the_model_are_told():
    nodes = [
        helper.make_node("Concat", ["x", "w"], ["y"], axis=1),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    model = models.typed_model(nodes, {"x": ["n", 2], "w": ["m", 2]}, {"z": [None, 4]})
    asked = models.options(dims={"n": (1, 2, 4), "m": (1, 2, 3)})
    with pytest.raises(SubgraphkitError, match=r"SGK169.*largest shapes asked for"):
        models.ranges_at_bind(models.whole(model), asked)
