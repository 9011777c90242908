"""What may differ between subgraphs that share an engine: weights the parser hands on, no more."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk
from backends.tensorrt.tests.double_road import compiled
from backends.tensorrt.tests.tensorrt_double import Double
from backends.tensorrt.tests.tensorrt_models import (
    build_engine,
    needs_rtx,
    options,
    ranges_at_bind,
    rtx,
    typed_model,
    whole,
)
from subgraphkit.errors import CompileError, SubgraphkitError
from subgraphkit.ir import Subgraph, make_subgraph
from subgraphkit.testing.official_cases import OfficialCase, official_cases
from subgraphkit_tensorrt.building import build, shared_plans
from subgraphkit_tensorrt.building.model import prepare_model
from subgraphkit_tensorrt.building.network import parse_model
from subgraphkit_tensorrt.building.shared_plans import WEIGHTS, plan_key, separate_weights
from subgraphkit_tensorrt.lowering import Replacement, Sample, converter, unregister

pytestmark = needs_rtx

SHARED = options(share_identical=True)
BATCH, WIDTH = 2, 300
_Array = npt.NDArray[Any]

# By operator: the shapes of its inputs, the shape of its output, its attributes.
WEIGHED: Mapping[str, tuple[Sequence[Sequence[int]], Sequence[int], Mapping[str, Any]]] = {
    "Add": ([(BATCH, WIDTH), (BATCH, WIDTH)], (BATCH, WIDTH), {}),
    "Conv": ([(1, 4, 6, 6), (WIDTH, 4, 3, 3), (WIDTH,)], (1, WIDTH, 4, 4), {}),
    "ConvTranspose": ([(1, 4, 4, 4), (4, WIDTH, 3, 3), (WIDTH,)], (1, WIDTH, 6, 6), {}),
    "Div": ([(BATCH, WIDTH), (BATCH, WIDTH)], (BATCH, WIDTH), {}),
    "Gather": ([(WIDTH, 4), (3,)], (3, 4), {}),
    "Gemm": ([(32, 16), (400, 16), (400,)], (32, 400), {"transB": 1, "alpha": 2.0, "beta": 0.5}),
    "LayerNormalization": ([(BATCH, WIDTH), (WIDTH,), (WIDTH,)], (BATCH, WIDTH), {}),
    "MatMul": ([(32, 20), (20, 32)], (32, 32), {}),
    "Mul": ([(BATCH, WIDTH), (BATCH, WIDTH)], (BATCH, WIDTH), {}),
    "PRelu": ([(BATCH, WIDTH), (WIDTH,)], (BATCH, WIDTH), {}),
    "RMSNormalization": ([(BATCH, WIDTH), (WIDTH,)], (BATCH, WIDTH), {}),
    "Sub": ([(BATCH, WIDTH), (BATCH, WIDTH)], (BATCH, WIDTH), {}),
}


def _drawn(shape: Sequence[int], seed: int) -> _Array:
    return np.random.default_rng(seed % 1000).uniform(0.5, 1.5, shape).astype(np.float32)


def _weighed(op_type: str, place: int, seed: int) -> onnx.ModelProto:
    """Return a model of one operator with one input a constant, drawn from a seed."""
    shapes, made, attributes = WEIGHED[op_type]
    names = [f"v{number}" for number in range(len(shapes))]
    fed = {name: shape for name, shape in zip(names, shapes, strict=True) if name != names[place]}
    types = {"v1": TensorProto.INT64} if op_type == "Gather" else {}
    weight = numpy_helper.from_array(_drawn(shapes[place], seed), names[place])
    node = helper.make_node(op_type, names, ["y"], **attributes)
    return typed_model([node], fed, {"y": made}, [weight], types=types, opset=23)


def _key(subgraph: Subgraph) -> str:
    ranges = ranges_at_bind(subgraph, SHARED)
    assert ranges is not None
    return plan_key(prepare_model(subgraph, SHARED), subgraph, [ranges], rtx(), SHARED)


def _anatomy(subgraph: Subgraph) -> list[tuple[str, list[_Array]]]:
    """Return the layers that TensorRT's parser makes: kind, and copies of the weights they hold."""
    library = rtx()
    with parse_model(prepare_model(subgraph, SHARED), subgraph, library, SHARED) as parsed:
        network = parsed.network
        layers = [network.get_layer(place) for place in range(network.num_layers)]
        return [(layer.type.name, list(_held(layer, library.trt))) for layer in layers]


def _held(layer: Any, trt: Any) -> Iterator[_Array]:
    known = {
        "CONSTANT": (trt.IConstantLayer, ["weights"]),
        "CONVOLUTION": (trt.IConvolutionLayer, ["kernel", "bias"]),
        "DECONVOLUTION": (trt.IDeconvolutionLayer, ["kernel", "bias"]),
        "SCALE": (trt.IScaleLayer, ["shift", "scale", "power"]),
    }
    kind, names = known.get(layer.type.name, (None, []))
    if kind is not None:
        layer.__class__ = kind
    for name in names:
        yield np.array(getattr(layer, name), copy=True).reshape(-1)


def _changed(one: Subgraph, other: Subgraph) -> list[tuple[_Array, _Array]]:
    """Return the weights in which the networks of two subgraphs differ; nothing else may."""
    first, second = _anatomy(one), _anatomy(other)
    assert [kind for kind, _ in first] == [kind for kind, _ in second]
    pairs = [
        pair
        for (_, held), (_, held_too) in zip(first, second, strict=True)
        for pair in zip(held, held_too, strict=True)
    ]
    return [(a, b) for a, b in pairs if not np.array_equal(a, b)]


def test_every_weight_that_may_differ_is_tried() -> None:
    assert set(WEIGHED) == set(WEIGHTS)


@pytest.mark.parametrize(
    ("op_type", "place"), [(name, place) for name, places in WEIGHTS.items() for place in places]
)
def test_a_weight_that_may_differ_reaches_the_network_as_it_is(op_type: str, place: int) -> None:
    one, other = (whole(_weighed(op_type, place, seed)) for seed in (1, 2))
    names = separate_weights(one, SHARED)
    assert names == (f"v{place}",)
    assert _key(one) == _key(other)
    shape = WEIGHED[op_type][0][place]
    ((before, after),) = _changed(one, other)
    np.testing.assert_array_equal(before, _drawn(shape, 1).reshape(-1))
    np.testing.assert_array_equal(after, _drawn(shape, 2).reshape(-1))
    with parse_model(prepare_model(one, SHARED), one, rtx(), SHARED) as parsed:
        shared_plans.check_separate(parsed, names, one)


# Models that differ in one constant alone, "{c}", and what it is at first and then.
FOLDED = {
    "limits of Clip": ("float[2,300] y", "y = Clip(x, {c})", "float c", 0.25, 0.5),
    "shape of Reshape": ("float[a,b] y", "y = Reshape(x, {c})", "int64[2] c", [300, 2], [4, 150]),
    "width of Pad": ("float[a,b] y", "y = Pad(x, {c})", "int64[4] c", [0, 1, 0, 1], [0, 2, 0, 2]),
    "value of Pad": ("float[2,302] y", "y = Pad(x, p, {c})", "float c", 0.0, 1.0),
    "number of TopK": ("float[a,b] y, int64[a,b] i", "y, i = TopK(x, {c})", "int64[1] c", 3, 5),
    "scale of Q": ("float[2,300] y", "q = QuantizeLinear(x, {c}, z) y = DequantizeLinear(q, s, z)",
                   "float c", 0.1, 0.2),
    "scale of DQ": ("float[2,300] y", "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, {c}, z)",
                    "float c", 0.1, 0.2),
    "scales of DQ": (
        "float[2,300] y",
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear<axis = 1>(q, {c}, zs)",
        "float[300] c", 0.1, 0.2),
    "bias of BatchNormalization": (
        "float[2,300] y", "y = BatchNormalization(x, ones, {c}, ones, ones)", "float[300] c", 1, 2),
    "scale of BatchNormalization": (
        "float[2,300] y", "y = BatchNormalization(x, {c}, ones, ones, ones)", "float[300] c", 1, 2),
    "exponent": ("float[2,300] y", "y = Pow(x, {c})", "float[300] c", 2.0, 3.0),
    "a weight through Flatten": (
        "float[2,300] y", "w = Flatten({c}) y = Add(x, w)", "float[1,300] c", 1, 2),
    "a weight through Dropout": (
        "float[2,300] y", "w = Dropout({c}) y = Add(x, w)", "float[300] c", 1, 2),
    "a weight through Cast": (
        "float[3,300] y", "w = Cast<to = 7>({c}) y = Gather(x, w)", "float[3] c", [0, 1, 0],
        [1, 0, 1]),
    "a weight read twice": (
        "float[2,300] y", "a = Add(x, {c}) y = Pow(a, {c})", "float[300] c", 2.0, 3.0),
    "a weight in a body": (
        "float[2,300] y",
        ("y = If(t) <then_branch = one () => (float[2,300] o) {{ o = Add(x, {c}) }},"
         " else_branch = two () => (float[2,300] p) {{ p = Sub(x, {c}) }}>"),
        "float[300] c", 1.0, 2.0),
}  # fmt: skip


def _folded(name: str, which: int) -> Subgraph:
    outputs, body, declared, *values = FOLDED[name]
    word, _, dims = declared.removesuffix(" c").partition("[")
    shape = [int(dim) for dim in dims.removesuffix("]").split(",") if dim]
    dtype = np.float32 if word == "float" else np.int64
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 19]> g (float[2,300] x, bool t) => ({outputs})'
        "<int64[4] p = {0, 1, 0, 1}, float s = {0.5}, int8 z = {0}>"
        f"{{ {body.format(c='c')} }}"
    )
    stored = {
        "c": np.array(np.broadcast_to(np.asarray(values[which], dtype), shape)),
        "ones": np.ones(300, np.float32),
        "zs": np.zeros(300, np.int8),
    }
    model.graph.initializer.extend(
        numpy_helper.from_array(array, key) for key, array in stored.items()
    )
    return whole(model)


@pytest.mark.parametrize("name", FOLDED)
def test_subgraphs_that_differ_where_an_engine_depends_on_it_do_not_share_one(name: str) -> None:
    one, other = (_folded(name, which) for which in (0, 1))
    assert "c" not in separate_weights(one, SHARED)
    assert _key(one) == _key(_folded(name, 0))
    assert _key(one) != _key(other)


def test_what_a_converter_reads_is_not_put_in_later() -> None:
    sample = Sample([_drawn((2, 300), 0), _drawn((300,), 1)])
    before = separate_weights(whole(_weighed("PRelu", 1, 0)), SHARED)

    def sloped(node: Any, fresh: Any) -> Replacement:
        return Replacement([helper.make_node("PRelu", list(node.inputs), list(node.outputs))])

    try:
        converter("PRelu", since=16, samples=[sample])(sloped)
        assert separate_weights(whole(_weighed("PRelu", 1, 0)), SHARED) == ()
    finally:
        unregister("PRelu")
    assert before == ("v1",)


def test_a_weight_that_a_parser_folds_is_not_put_in_later_but_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_plans, "WEIGHTS", {"Flatten": (0,), "Add": (0, 1)})
    flat = _folded("a weight through Flatten", 0)
    assert separate_weights(flat, SHARED) == ("c",)
    with pytest.raises(CompileError, match="folds weights of subgraph") as caught:
        build_engine(flat, SHARED, rtx())
    assert caught.value.code == "SGK173"
    assert caught.value.context["weights"] == ("c",)


def _with_constants(case: OfficialCase, others: Sequence[str] = ()) -> onnx.ModelProto:
    """Return the model of a case with constants for all float inputs but the first.

    Args:
        case: The case.
        others: Names of constants that are to be others than without this argument.
    """
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    floats = [one for one in model.graph.input if _is_open_float(one)]
    for place, one in enumerate(floats[1:]):
        shape = [dim.dim_value for dim in one.type.tensor_type.shape.dim]
        drawn = _drawn(shape, -1 - place if one.name in others else place)
        model.graph.initializer.append(numpy_helper.from_array(drawn, one.name))
        model.graph.input.remove(one)
    return model


def _is_open_float(value: onnx.ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    known = all(dim.HasField("dim_value") for dim in tensor.shape.dim)
    return tensor.elem_type == TensorProto.FLOAT and known


def test_in_no_official_case_a_weight_that_may_differ_changes_anything_else(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_plans, "_SMALL", 0)
    every = [
        case
        for case in official_cases("node")
        if any(node.op_type in WEIGHTS for node in case.model.graph.node)
    ]
    wanted = min(pytestconfig.getoption("--claimed-cases"), len(every))
    tried = 0
    for case in random.Random(6).sample(every, wanted):
        try:
            one = whole(_with_constants(case))
            names = separate_weights(one, SHARED)
            other = whole(_with_constants(case, names))
            changed = _changed(one, other) if names else []
        except SubgraphkitError:  # not a model, or not one for TensorRT
            continue
        kept = [subgraph.constants for subgraph in (one, other)]
        pairs = [tuple(held[name].array().reshape(-1) for held in kept) for name in names]
        for before, after in changed:
            assert any(np.array_equal(before, a) and np.array_equal(after, b) for a, b in pairs), (
                case.name
            )
        tried += bool(names)
    assert tried > wanted // 4


TRANSFORMER_NODES = 16


def _transformer(seeds: Sequence[int], width: int = 32) -> onnx.ModelProto:
    """Return transformer blocks one after the other, each with weights drawn from its seed."""
    nodes, weights, x = [], [], "x"
    for place, seed in enumerate(seeds):
        k, y = f"block{place}", f"y{place}"
        draw = np.random.default_rng(seed)

        def weight(name: str, *shape: int, k: str = k, draw: Any = draw) -> str:
            array = (draw.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"{k}.{name}"))
            return f"{k}.{name}"

        def add(
            op_type: str, inputs: Sequence[str], made: str, k: str = k, **attributes: Any
        ) -> str:
            nodes.append(helper.make_node(op_type, inputs, [made], **attributes))
            return made

        scale = numpy_helper.from_array(np.float32(width**-0.5), f"{k}.scale")
        weights.append(scale)
        q, key, v = (
            add("MatMul", [x, weight(one, width, width)], f"{k}/{one}") for one in ("q", "k", "v")
        )
        turned = add("Transpose", [key], f"{k}/turned", perm=[0, 2, 1])
        scores = add("MatMul", [q, turned], f"{k}/scores")
        scaled = add("Mul", [scores, scale.name], f"{k}/scaled")
        seen = add("MatMul", [add("Softmax", [scaled], f"{k}/p"), v], f"{k}/seen")
        out = add("MatMul", [seen, weight("out", width, width)], f"{k}/out")
        norm = add("LayerNormalization", [add("Add", [out, x], f"{k}/sum"),
                   weight("gain", width), weight("shift", width)], f"{k}/norm")  # fmt: skip
        inner = add("MatMul", [norm, weight("up", width, 4 * width)], f"{k}/inner")
        outer = add("MatMul", [add("Gelu", [inner], f"{k}/gelu"),
                    weight("down", 4 * width, width)], f"{k}/outer")  # fmt: skip
        x = add("Relu", [add("Add", [outer, norm], f"{k}/end")], y)
    shape = [2, 8, width]
    return typed_model(nodes, {"x": shape}, {x: shape}, weights, opset=20)


@pytest.mark.parametrize("share", [True, False], ids=["shared", "not_shared"])
def test_twelve_transformer_blocks_of_other_weights_are_built_once_and_compute_their_own(
    double: Double, monkeypatch: pytest.MonkeyPatch, *, share: bool
) -> None:
    built: list[str] = []
    build_one = build._build

    def counted(subgraph: Subgraph, *rest: Any) -> Any:
        built.append(subgraph.id)
        return build_one(subgraph, *rest)

    monkeypatch.setattr(build, "_build", counted)
    # The norms are too small to be taken out of the plan, and equal in all blocks.
    model = _transformer(range(12))
    for tensor in model.graph.initializer:
        if tensor.name.endswith((".gain", ".shift")):
            tensor.CopyFrom(numpy_helper.from_array(_drawn((32,), 0), tensor.name))
    graph = whole(model).graph
    given = options(share_identical=share, timing_cache=False)
    blocks = [
        make_subgraph(graph, range(at, at + TRANSFORMER_NODES), "tensorrt")
        for at in range(0, len(graph.nodes), TRANSFORMER_NODES)
    ]
    operators = [compiled(block, double, given) for block in blocks]
    x = _drawn((2, 8, 32), 99)
    (expected,) = sk.InferenceSession(model, "numpy").run(None, {"x": x})
    for operator in operators:
        (x,) = operator.run([x])
    np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-5)
    assert len(built) == (1 if share else 12)
    for operator in operators:
        operator.close()


def test_names_that_sort_otherwise_do_not_tell_equal_subgraphs_apart() -> None:
    names = (["first", "second", "third"], ["z9", "z10", "a1"])
    keys = set()
    for one, two, three in names:
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y)'
            f"<float[3] {two}w = {{1, 2, 3}}, float[3] {one}w = {{4, 5, 6}}>"
            f"{{ {one} = Add(x, {one}w) {two} = Mul({one}, {two}w) {three} = Exp({two}) "
            f"y = Neg({three}) }}"
        )
        keys.add(_key(whole(model)))
    assert len(keys) == 1
