"""Operators of oneDNN: models, casts, errors, threads."""

import sys
import warnings
from collections import defaultdict, deque
from math import inf
from threading import Event, Thread, Timer

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.backend.test.runner import Runner

import subgraphkit as sk
from backends.onednn.tests.onednn_road import compile_model, conv_net, refusals
from subgraphkit import InferenceSession
from subgraphkit.testing.light_models import LIGHT_MODELS, seeded_feeds, seeded_model
from subgraphkit.testing.official_cases import OfficialCase, official_cases
from subgraphkit_onednn import threads
from subgraphkit_onednn.lowering import LOWERINGS
from tests.models import parsed, skip_if_large
from tests.scripts import run_child

NET_PARTITIONS = ["convolution + relu", "convolution + add + relu", "avg_pool", "matmul"]


def picture(seed=0, *dims):
    return np.random.default_rng(seed).standard_normal(dims or (1, 3, 12, 12)).astype(np.float32)


def expected(model, **feeds):
    return list(InferenceSession(model, backend="numpy").run(None, feeds))


def test_a_small_net_is_partitioned_as_it_always_was():
    assert compile_model(conv_net()).info()["partitions"] == NET_PARTITIONS


def test_a_value_read_inside_and_handed_out_is_not_hidden_by_fusion():
    model = conv_net()
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("c1", "r2", "f"))
    operator, x = compile_model(model), picture()
    names = [value.name for value in model.graph.output]
    wanted = dict(zip(names, expected(model, x=x), strict=True))
    order = ("c1", "r2", "f", "y")
    for name, value in zip(order, operator.run([x]), strict=True):
        np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=1e-5)


def test_weights_are_laid_out_once():
    """The library reports what it executes; reorders of weights are marked as constant."""
    code = (
        "from backends.onednn.tests.onednn_road import compile_model, conv_net\n"
        "from backends.onednn.tests.test_onednn_operator import picture\n"
        "operator = compile_model(conv_net())\n"
        "for run in range(3):\n"
        "    print('run', run, flush=True)\n"
        "    operator.run([picture()])\n"
    )
    found = run_child(
        [sys.executable, "-c", code], env={"ONEDNN_VERBOSE": "1", "PYTHONPATH": ".", "PATH": ""}
    )
    _, *runs = found.stdout.split("run ")
    weights = ("16x3x3x3", "16x16x3x3")
    counts = [
        sum("reorder" in line and line.split(",")[-2] in weights for line in run.splitlines())
        for run in runs
    ]
    assert counts == [2, 0, 0]


def test_an_array_of_another_type_or_shape_never_reaches_the_library():
    operator = compile_model(conv_net())
    with pytest.raises(ValueError, match=r"input 'x' is float64.*expected float32"):
        operator.run([picture().astype(np.float64)])
    with pytest.raises(ValueError, match=r"expected float32\[1, 3, 12, 12\]"):
        operator.run([picture()[:, :, 1:]])


def test_a_region_is_released_when_the_threads_that_ran_it_have_ended(monkeypatch):
    operator, goes_on, ended = compile_model(conv_net()), Event(), deque()
    monkeypatch.setattr(threads, "_ENDED", ended)
    lasting = Thread(target=goes_on.wait, daemon=True)
    lasting.start()
    (caller := Thread(target=operator.run, args=[[picture()]])).start()
    caller.join()
    assert caller.native_id in {thread for thread, _ in ended}
    ended.append((lasting.native_id, inf))
    Timer(0.1, goes_on.set).start()
    operator.close()
    assert not lasting.is_alive()


def test_two_operators_alike_but_for_their_weights_do_not_mix_them():
    x = picture()
    first, second = compile_model(conv_net(0)), compile_model(conv_net(1))
    for _ in range(2):
        for seed, operator in enumerate((first, second)):
            (y,) = operator.run([x])
            wanted = expected(conv_net(seed), x=x)[0]
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


def test_what_onednn_has_no_operation_for_runs_on_numpy():
    text = "g (float[1,3,8,8] x) => (y) { c = Conv(x, w) e = Erf(c) y = Relu(e) }"
    model = parsed(text, w=picture(1, 4, 3, 3, 3))
    session, x = InferenceSession(model, backend="onednn,numpy"), picture(0, 1, 3, 8, 8)
    backends = [subgraph.backend for subgraph in session.partitioning.subgraphs]
    assert backends == ["onednn", "numpy", "onednn"]
    (y,) = session.run(None, {"x": x})
    np.testing.assert_allclose(y, expected(model, x=x)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("text", "reason"), [
    ("(double[4] x) => (y) { y = Relu(x) }", "dtype: value 'x' is float64"),
    ("(float[n] x) => (y) { y = Relu(x) }", "dynamic_shape"),
    ("(float[0,3] x) => (y) { y = Relu(x) }", "shape: value 'x' is empty"),
    ("(float[4] x) => (y) { y = Erf(x) }", "op_unsupported: oneDNN has no Erf"),
    ("(float[1,1,4] x) => (y) { y, i = MaxPool<kernel_shape=[2]>(x) }", "attribute: MaxPool makes"),
    ("(float[2,3] x) => (y) { y = ReduceL2(x) }", "op_unsupported: oneDNN has no Reduce"),
    ("(float[2,3] x) => (y) { y = ReduceMean<axes=[0]>(x) }", "attribute: for axes that"),
    ("(float[2,3] x) => (y) { y = Softmax<axis=0>(x) }", "attribute: for another axis"),
    ("(float[1,1,1,1,2,3] x, float[3] s) => (y) { y = PRelu(x, s) }",
     "rank: oneDNN has no PRelu of 6 axes"),
])  # fmt: skip
def test_a_node_onednn_cannot_take_is_refused_with_the_reason(text, reason):
    (refusal,) = refusals(parsed(f"g {text}", 17))
    assert refusal.startswith(reason)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_a_pool_and_a_sum_are_right_together(kind):
    pool = f"{kind}<kernel_shape=[2,2], strides=[2,2]>(x)"
    model = parsed(
        f"g (float[2,16,8,9] x, float[2,16,4,4] z) => (y) {{ p = {pool} y = Add(p, z) }}"
    )
    x, z = picture(0, 2, 16, 8, 9), picture(1, 2, 16, 4, 4)
    (y,) = compile_model(model).run([x, z])
    np.testing.assert_allclose(y, expected(model, x=x, z=z)[0], rtol=1e-5, atol=1e-6)


def test_a_depthwise_convolution_after_a_pointwise_one_does_not_end_the_process():
    layers = "c = Conv(x, w) y = Conv<group=7, pads=[1,1,1,1]>(c, k)"
    weights = {"w": picture(1, 7, 16, 1, 1), "k": picture(2, 7, 1, 3, 3)}
    model = parsed(f"g (float[2,16,9,6] x) => (y) {{ {layers} }}", **weights)
    x = picture(0, 2, 16, 9, 6)
    (y,) = compile_model(model).run([x])
    np.testing.assert_allclose(y, expected(model, x=x)[0], rtol=1e-4, atol=1e-4)


def test_reducing_axes_of_length_one_does_not_end_the_process():
    model = parsed("g (float[5,6,1] x) => (y) { y = ReduceMean<axes=[2], keepdims=0>(x) }", 17)
    (y,) = compile_model(model).run([picture(0, 5, 6, 1)])
    np.testing.assert_array_equal(y, picture(0, 5, 6, 1)[..., 0])


JOINED = [
    # a layer with a bias and a residual, two sums of whole tensors, and a normalization
    """p = MatMul(x, m) q = Add(k, p) layer = Add(q, x) r = MatMul(layer, m) s = Add(r, x)
    sums = Add(s, z) rows = ReduceMean<axes=[3]>(x) u = Div(sums, rows) v = Mul(u, k)
    n = Add(v, k) y = Reciprocal(n)""",
    "a = Conv<pads=[1,1,1,1]>(x, w) y = Sub(a, z)",
    "a = Conv<pads=[1,1,1,1]>(x, w) b = Add(a, z) y = Add(b, x)",
    "a = Conv<pads=[1,1,1,1]>(x, w) b = Sigmoid(a) c = Mul(a, b) y = Mul(c, z)",
    "a = Relu(x) y = Add(a, z)",
    "a = Sigmoid(x) b = Mul(x, a) y = Add(b, z)",
    "a = ReduceMean<axes=[3]>(x) b = Div(x, a) y = Add(b, z)",
    "a = ReduceMean<axes=[2,3]>(x) b = Sub(a, z) y = Max(a, b)",
    "a = ReduceMean<axes=[2,3]>(x) y = Sum(a, x, z)",
]


def joined_net(body):
    text = f"g (float[2,8,6,5] x, float[2,8,6,5] z) => (float[2,8,6,5] y) {{ {body} }}"
    stored = {"w": picture(1, 8, 8, 3, 3), "m": picture(2, 5, 5), "k": np.abs(picture(3, 5)) + 30}
    return parsed(text, 17, **stored)


@pytest.mark.parametrize("body", JOINED)
def test_what_is_joined_or_broadcast_is_right(body):
    x, z = np.abs(picture(3, 2, 8, 6, 5)), picture(4, 2, 8, 6, 5)
    (y,) = compile_model(joined_net(body)).run([x, z])
    np.testing.assert_allclose(y, expected(joined_net(body), x=x, z=z)[0], rtol=1e-4, atol=1e-5)


def test_what_is_fused_has_more_than_the_reference_kernel():
    code = (
        "from backends.onednn.tests.onednn_road import compile_model\n"
        "from backends.onednn.tests.test_onednn_operator import JOINED, joined_net\n"
        "for net in map(joined_net, JOINED):\n"
        "    print(*compile_model(net).info()['partitions'], sep='\\n')\n"
    )
    found = run_child(
        [sys.executable, "-c", code], env={"ONEDNN_VERBOSE": "2", "PYTHONPATH": ".", "PATH": ""}
    )
    made, partitions = [line for line in found.stdout.splitlines() if "create" in line], []
    partitions = [line for line in found.stdout.splitlines() if "," not in line]
    assert made
    assert [line for line in made if ",ref:any," in line] == []
    assert partitions[0] == "matmul + add"


@pytest.mark.parametrize("op", ["Add", "Mul", "Max", "Sum"])
@pytest.mark.parametrize("shape", [(3, 4, 1), (3, 4, 1, 1), (2, 3, 4, 1)])
def test_an_operand_per_channel_is_applied_to_channels_before_axes_of_length_one(op, shape):
    channels = (1, *shape[1:2], *(1,) * (len(shape) - 2))
    dims, per = (",".join(map(str, one)) for one in (shape, channels))
    model = parsed(
        f"g (float[{dims}] x, float[{dims}] w, float[{per}] c) => (y) "
        f"{{ a = Mul(x, w) y = {op}(a, c) }}"
    )
    feeds = {"x": picture(1, *shape), "w": picture(2, *shape), "c": picture(3, *channels)}
    (y,) = compile_model(model).run(list(feeds.values()))
    np.testing.assert_allclose(y, expected(model, **feeds)[0], rtol=1e-5, atol=1e-6)


FLOAT, BFLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16


def _model(*steps):
    """Make a chain of operators; the second of each pair is the element type it makes."""
    nodes, value = "", "x"
    for place, (operator, made) in enumerate(steps):
        to = f"<to={made}>" if operator == "Cast" else ""
        nodes += f" y{place} = {operator}{to}({value})"
        value = f"y{place}"
    first = "bfloat16" if steps[0] == ("Cast", FLOAT) else "float"
    return parsed(f"casts ({first}[6,4096] x) => ({value}) {{{nodes} }}", 21)


def _numbers():
    """Return bits of all kinds: numbers large and tiny, ties, infinities, NaN."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, (6, 4096), np.uint64).astype(np.uint32)
    bits[0] = bits[0] & 0xFFFF0000 | 0x8000  # half-way between two of bfloat16
    bits[1, :4] = 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF
    x = bits.view(np.float32)
    x[(np.abs(x) < np.finfo(np.float32).tiny)] = 0
    return x


@pytest.mark.parametrize("steps", [
    [("Cast", BFLOAT16)],
    [("Cast", FLOAT)],
    [("Cast", BFLOAT16), ("Cast", FLOAT)],
    [("Abs", FLOAT), ("Cast", BFLOAT16), ("Cast", FLOAT), ("Abs", FLOAT)],
], ids=["down", "up", "down and up", "between others"])  # fmt: skip
def test_casts_round_as_bfloat16_does(steps, monkeypatch):
    monkeypatch.setattr("subgraphkit_onednn.library.DnnlLibrary.has_bfloat16", True)
    model = _model(*steps)
    with np.errstate(all="ignore"), sk.InferenceSession(model, backend="onednn") as session:
        given = _numbers()
        if steps[0] == ("Cast", FLOAT):
            given = given.astype(ml_dtypes.bfloat16)
        (found,) = session.run(None, {"x": given})
        expected = given
        for operator, made in steps:
            dtype = ml_dtypes.bfloat16 if made == BFLOAT16 else np.float32
            is_cast = operator == "Cast"
            expected = expected.astype(dtype) if is_cast else np.abs(expected)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_nothing_is_made_of_bfloat16_where_it_is_not_computed_with(monkeypatch):
    monkeypatch.setattr("subgraphkit_onednn.library.DnnlLibrary.has_bfloat16", False)
    model = _model(("Cast", BFLOAT16), ("Relu", BFLOAT16), ("Cast", FLOAT))
    for refusal in refusals(model):
        assert "is bfloat16; oneDNN takes float32 here" in refusal


def test_bfloat16_is_not_normalized_right_behind_a_product(monkeypatch):
    monkeypatch.setattr("subgraphkit_onednn.library.DnnlLibrary.has_bfloat16", True)
    text = """g (bfloat16[5,4] x, bfloat16[4,5] w, bfloat16[5] s) => (y) {
        m = MatMul(x, w) y = BatchNormalization(m, s, s, s, s) }"""
    assert refusals(parsed(text, 17)) == [
        "dtype: statistics of few bits behind a product, which oneDNN reads as float32"
    ]


FED = {"Pow", "ReduceMean", "ReduceSum", "Reshape", "Resize", "Squeeze", "Unsqueeze", "Upsample"}
FED |= {"Cast"}
"""Operators whose official cases feed what must be constant here, or ask for bfloat16."""
CASES: dict[str, list[OfficialCase]] = defaultdict(list)
for _case in official_cases("node"):
    if _case.operator in LOWERINGS or _case.operator in {"Attention", "GroupNormalization"}:
        CASES[_case.operator].append(_case)

MODELS = ("squeezenet", "shufflenet", "resnet50")
MODELS = (*MODELS, *sorted({*LIGHT_MODELS} - {*MODELS}))
"""One of each kind first: concatenations, groups, and branches that are added up."""


@pytest.mark.parametrize("operator", sorted(CASES))
def test_whatever_is_claimed_of_the_official_cases_is_right(operator):
    claimed = 0
    for case in CASES[operator]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # onnx's own generators warn
            session = InferenceSession(case.model, backend="onednn,numpy")
            backends = [subgraph.backend for subgraph in session.partitioning.subgraphs]
            if "onednn" not in backends:
                continue
            claimed += 1
            for inputs, outputs in case.data_sets():
                found = list(session.run(None, case.feeds(inputs)))
                Runner.assert_similar_outputs(outputs, found, rtol=case.rtol, atol=case.atol)
    assert claimed or operator in FED, (
        f"none of {len(CASES[operator])} cases of {operator} was claimed"
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_agrees_with_onnxruntime(name, pytestconfig):
    skip_if_large(name, pytestconfig)
    if MODELS.index(name) > pytestconfig.getoption("--mixed-models"):
        pytest.skip("a long check: --mixed-models 9")
    model = seeded_model(name)
    feeds = seeded_feeds(model, seed=1)
    runtime = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = runtime.run(None, feeds)
    session = InferenceSession(model, backend="onednn,numpy")
    taken = sum(len(g.members) for g in session.partitioning.subgraphs if g.backend == "onednn")
    assert taken > 0.8 * sum(len(g.members) for g in session.partitioning.subgraphs)
    for _ in range(2):
        (actual,) = session.run(None, feeds)
        scale = float(np.abs(expected).max())
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=2e-5 * scale)
    session.close()
