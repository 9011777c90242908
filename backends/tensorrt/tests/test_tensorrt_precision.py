"""Plans in another precision by the real builder: what the rest computes in, and what survives."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk
from backends.tensorrt.tests import tensorrt_models as models
from subgraphkit.errors import CallerError, SubgraphkitWarning
from subgraphkit.precision import Range, Ranges
from subgraphkit_tensorrt.building.model import prepare_model

pytestmark = models.needs_rtx
RANGES = {"batch": (1, 8, 32), "seq": (16, 128, 512)}


def _calibrated(folder, names):
    """Store ranges for some values, all of them up to 4."""
    table = folder / "ranges.json"
    Ranges({name: Range(4.0, "minmax", 1, -4.0, 4.0) for name in names}).save(table)
    return table


@pytest.mark.parametrize(("kind", "short"), [("int8", "int8"), ("fp8", "float8_e4m3fn")])
@pytest.mark.parametrize(
    ("asked", "rest"), [({}, "float16"), ({"high_precision": "fp32"}, "float32")]
)
def test_beside_short_numbers_the_rest_is_fp16_unless_float32_is_asked_for(
    asked, rest, kind, short, tmp_path
):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "w"], ["y"], name="kept"),
    ]
    weight = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    model = models.typed_model(
        nodes, {"x": [32, 128]}, {"y": [32, 128]}, [numpy_helper.from_array(weight, "w")]
    )
    table = _calibrated(tmp_path, ("x", "a"))
    plan = models.build_engine(
        models.whole(model),
        models.options(precision=kind, calibration=table, **asked),
        models.rtx(),
    )
    assert plan.report["rewriting"]["quantized"] == 1
    assert plan.report["products"] == {short: 1, rest: 1}
    assert plan.report["precisions"].keys() >= {short, rest}


def test_a_subgraph_in_which_nothing_can_be_quantized_is_fp16_as_a_whole(tmp_path):
    table = _calibrated(tmp_path, ("another",))
    asked = models.options(dims=RANGES, precision="int8", calibration=table)
    subgraph = models.cut(models.bound(models.blocks((0,), width=128)), 0)
    with pytest.warns(SubgraphkitWarning, match="no node of a subgraph reads int8: no node can be"):
        plan = models.build_engine(subgraph, asked, models.rtx())
    assert plan.report["products"] == {"float16": 2}
    with pytest.warns(SubgraphkitWarning, match="no range for"):
        rewriting = prepare_model(subgraph, asked).rewriting
    assert rewriting is not None
    assert "no node can be quantized" in rewriting.notes[0]


def test_a_subgraph_whose_products_are_all_too_small_for_int8_says_so(tmp_path):
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    model = models.typed_model(nodes, {"x": [32, 8]}, {"y": [32, 8]}, [weight])
    asked = models.options(precision="int8", calibration=_calibrated(tmp_path, ("x",)))
    with pytest.warns(SubgraphkitWarning, match=r"reads int8: 1 kept, all because: .*\(small\)"):
        prepare_model(models.whole(model), asked)


def test_a_calibration_that_does_not_exist_is_said_not_to(tmp_path):
    asked = models.options(dims=RANGES, precision="int8", calibration=tmp_path / "nope.json")
    with pytest.raises(CallerError, match=r"SGK233.*nope\.json' do not exist"):
        prepare_model(models.cut(models.bound(models.blocks((0,), width=128)), 0), asked)


def test_what_a_search_found_is_named_by_outputs_and_stays_float32():
    asked = models.options(dims=RANGES, precision="fp16", keep_fp32=("block0\\.q",))
    plan = models.build_engine(models.cut(models.bound(models.blocks()), 0), asked, models.rtx())
    assert plan.report["products"] == {"float32": 1, "float16": 1}
    assert plan.report["rewriting"]["kept"] == {"user": 1}


@pytest.mark.parametrize("precision", ["fp16", "int8"])
@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.DOUBLE])
def test_inputs_of_other_floats_are_kept_in_every_precision(kind, precision, tmp_path):
    weight = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "w"], ["a"], name="product"),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=kind),
    ]
    model = models.typed_model(
        nodes,
        {"x": [32, 128]},
        {"y": [32, 128]},
        [numpy_helper.from_array(weight, "w")],
        types={"x": kind, "y": kind},
    )
    table = _calibrated(tmp_path, ("f", "a", "r"))
    more = {"calibration": table} if precision == "int8" else {}
    chosen = {"flavour": "tensorrt_rtx", "build_only": True, "min_subgraph_nodes": 1, **more}
    with sk.InferenceSession(
        model, backend="tensorrt,numpy", options={"tensorrt": {**chosen, "precision": precision}}
    ) as session:
        taken = [one for one in session.partitioning.subgraphs if one.backend == "tensorrt"]
        op_types = session.graph.table.op_types
        operators = {op_types[node] for one in taken for node in one.nodes}
        assert operators >= {"MatMul", "Relu"}
        types = {one.name: one.type for one in (*session.get_inputs(), *session.get_outputs())}
    label = {TensorProto.BFLOAT16: "tensor(bfloat16)", TensorProto.DOUBLE: "tensor(double)"}[kind]
    assert types == {"x": label, "y": label}


@pytest.mark.parametrize("precision", ["keep", "fp16"])
def test_inputs_and_outputs_are_float16_if_that_is_asked_for(precision):
    subgraph = models.whole(models.blocks((0,)))
    asked = models.options(dims=RANGES, precision=precision, io_precision="fp16")
    graph = prepare_model(subgraph, asked).proto.graph
    types = {one.type.tensor_type.elem_type for one in (*graph.input, *graph.output)}
    assert types == {TensorProto.FLOAT16}
    assert models.build_engine(subgraph, asked, models.rtx()).data
