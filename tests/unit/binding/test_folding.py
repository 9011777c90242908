"""What is computed at bind, within limits."""

import json
import sys
from math import prod

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import subgraphkit as sk
from subgraphkit import errors
from subgraphkit.types import TensorType
from tests.house.tree import ROOT
from tests.models import bound, parsed
from tests.scripts import run_child
from tests.unit.binding.hostile_models import AT_BIND, AT_THE_STEP, model

WEIGHTS = """
g (float[4, 3] x) => (float[4, 2] y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}> {
  t = Transpose(w)
  s = Add(b, b)
  p = MatMul(x, t)
  q = Identity(p)
  d = Cast<to=1>(q)
  y = Add(d, s)
  u = Exp(x)
}
"""
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_nodes_of_constants_are_constants_by_the_names_they_had():
    graph = sk.bind(sk.load(parsed(WEIGHTS)), backend="numpy")
    assert dict(graph.left_out) == {
        0: "computed at bind",
        1: "computed at bind",
        3: "a copy of 'p'",
        4: "a copy of 'q'",
        6: "nothing reads it",
    }
    assert list(graph.order) == [2, 5]
    assert graph.constants["t"].array().tolist() == [[1, 4], [2, 5], [3, 6]]
    assert graph.nodes[5].inputs == ("p", "s")
    assert [node.id for node in graph.nodes[2].consumers()] == [5]


def test_unless_told_so_a_graph_is_left_as_it_is(monkeypatch):
    assert not sk.bind(sk.load(parsed(WEIGHTS)), fold=False).left_out
    monkeypatch.setenv("SUBGRAPH_FOLD", "off")
    assert not sk.bind(sk.load(parsed(WEIGHTS))).left_out
    assert sk.bind(sk.load(parsed(WEIGHTS)), fold=True).left_out


def test_nothing_but_sizes_is_computed_where_no_backend_could():
    text = """g (float[2, 3] x) => (float[2, 3] y, float[2] z) <float[3] w = {1, 2, 3}> {
      a = Sigmoid(w) s = Shape(x) c = Cast<to=1>(s) y = Add(x, a) z = Neg(c) }"""
    assert sorted(bound(text, "numpy").left_out) == [0, 1, 2, 4]
    alone = sk.bind(sk.load(parsed(text)), backend="none", fallback="none")
    assert sorted(alone.left_out) == [1, 2, 4]


def test_a_report_counts_what_left_and_each_node_is_explained():
    found = sk.partition(sk.bind(sk.load(parsed(WEIGHTS)), backend="numpy"))
    head, *rest = found.report(details=True).splitlines()
    assert head.endswith("2 nodes in 1 subgraph, backends numpy (declared)")
    assert rest[-1] == (
        "2 nodes computed at bind; 3 nodes left out, as a copy, as computed before, "
        "or because nothing reads it."
    )
    assert str(found.explain(0)) == "#0 Transpose: in no subgraph\n  left out: computed at bind"
    assert found.explain(3).left_out == "a copy of 'p'"
    assert found.to_dict()["left_out"] == {str(k): v for k, v in found.graph.left_out.items()}
    assert json.loads(found.to_json())["node_count"] == 2
    with pytest.raises(errors.ConfigError, match="node 0 is in no subgraph: computed at bind"):
        found.home_of(0)


def test_a_subgraph_is_written_with_what_was_computed():
    found = sk.partition(sk.bind(sk.load(parsed(WEIGHTS)), backend="numpy"))
    model = found.subgraphs[0].to_model()
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Add"]
    assert {one.name for one in model.graph.initializer} == {"t", "s"}


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_what_was_computed_from_a_weight_follows_it(backend):
    text = WEIGHTS.replace("2] y)", "2] y, bool[0] z)").replace(
        "1, 2}>", "1, 2}, int64[2] k = {2, 0}>"
    )
    text = text.replace("u = Exp(x)", "n, e = Split<axis=0>(b, k) z = Equal(e, e)")
    session, plain = (sk.InferenceSession(parsed(text), backend, fold=x) for x in (True, False))
    for one in (session, plain):
        assert one.update_weights({"w": np.full((2, 3), 7, np.float32)})
        assert one.update_weights({"b": np.array([3, 4], np.float32)})
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], plain.run(None, {"x": X})[0])
    assert session.run(None, {"x": X})[0][0].tolist() == [27, 29]
    assert session.run(["z"], {"x": X})[0].shape == (0,)


def test_what_was_computed_is_not_to_be_replaced():
    session = sk.InferenceSession(parsed(WEIGHTS), "numpy")
    with pytest.raises(errors.WeightUpdateError, match="computed at bind from 'w'"):
        session.update_weights({"t": np.zeros((3, 2), np.float32)})


def test_an_output_that_is_computed_is_handed_out():
    text = """
    g (float[2, 3] x) => (int64[1] n, float[1] y) {
      s = Shape(x) p = ReduceProd(s) n = Identity(p) z = Cast<to=1>(n) y = Add(z, z)
    }
    """
    with sk.InferenceSession(parsed(text, opset=17), "numpy") as session:
        n, y = session.run(None, {"x": np.ones((2, 3), np.float32)})
        assert (n.tolist(), y.tolist()) == ([6], [12])
        n[:] = 0
        assert session.run(["n"], {"x": np.ones((2, 3), np.float32)})[0].tolist() == [6]


def test_a_copy_that_is_an_output_or_seen_by_a_body_stays():
    text = """
    g (float[2] x, bool c) => (float[2] y, float[2] r) {
      y = Identity(x)
      a = Identity(x)
      r = If (c) <then_branch = t () => (float[2] p) { p = Neg(a) },
                  else_branch = e () => (float[2] q) { q = Abs(a) }>
    }
    """
    assert bound(text, "numpy").left_out == {}


def test_dropout_that_may_train_and_random_numbers_and_quantization_stay():
    text = """
    g (float[2] x, bool t) => (a, b, c, d) <float r = {0.5}, float[2] w = {1, 2}, float s = {1},
       int8 z = {0}> {
      a = Dropout(x, r, t)
      b = RandomNormalLike(w)
      c = QuantizeLinear(w, s, z)
      e = Dropout(x, r)
      d = Neg(e)
    }
    """
    assert bound(text, "numpy").left_out == {3: "a copy of 'x'"}


@pytest.mark.parametrize("nodes", [
    "h = ConstantOfShape(huge) y = ReduceMean<keepdims=0>(h)",
    "h = Expand(w, huge) y = ReduceMean<keepdims=0>(h)",
    "h = Tile(w, many) y = ReduceMean<keepdims=0>(h)",
    "a = Tile(w, some) b = Tile(a, some) c = Tile(b, some) y = ReduceMean<keepdims=0>(c)",
])  # fmt: skip
def test_what_is_far_larger_than_what_it_is_made_of_is_left_to_run(nodes):
    text = (
        "g () => (y) <int64[2] huge = {1048576, 1048576}, int64[1] many = {1073741824}, "
        f"int64[1] some = {{8192}}, float[1] w = {{1}}> {{ {nodes} }}"
    )
    with pytest.raises(errors.UnsupportedModelError, match="the limit is"):
        bound(text, "none")
    with sk.config(limits="unlimited"):
        graph = bound(text, "none")
    sizes = [stored.type.nbytes or 0 for stored in graph.constants.values()]
    assert max(sizes) <= 64 << 10


def test_all_that_is_computed_for_a_graph_is_bounded():
    weights = " ".join(f"w{i} = ConstantOfShape<value=float[1] {{{i}}}>(large)" for i in range(9))
    products = " ".join(f"y{i} = MatMul(x, w{i})" for i in range(9))
    outputs = ", ".join(f"y{i}" for i in range(9))
    large = "<int64[2] large = {67108864, 1}>"
    text = f"g (float[1, 67108864] x) => ({outputs}) {large} {{ {weights} {products} }}"
    graph = bound(text, "none")
    assert sum(became == "computed at bind" for became in graph.left_out.values()) == 4


def test_a_product_that_takes_long_is_left_to_run():
    proto = parsed("g () => (float[1] y) { p = MatMul(a, a) y = ReduceMax(p) }")
    large = numpy_helper.from_array(np.ones((1024, 1024), np.float32), "a")
    proto.graph.initializer.append(large)
    assert not sk.bind(sk.load(proto), backend="none").left_out
    small = numpy_helper.from_array(np.ones((64, 64), np.float32), "a")
    proto.graph.initializer[0].CopyFrom(small)
    assert sk.bind(sk.load(proto), backend="none").left_out


LONG = " ".join(f"a{i + 1} = Exp(a{i})" for i in range(40))
BODY = "b (int64 i, bool c, float v) => (bool d, float w) { d = Identity(c) w = Sin(v) }"


@pytest.mark.parametrize("nodes", [
    "r = ConstantOfShape(rows) y = MaxPool<kernel_shape=[3000000]>(r)",
    'r = ConstantOfShape(grid) y = Einsum<equation="ab,bc,cd,da,ac,bd->">(r, r, r, r, r, r)',
    f"a0 = ConstantOfShape(flat) {LONG} y = ReduceMax(a40)",
    "r = ConstantOfShape(flat) t = Cast<to=8>(r) y = Cast<to=1>(t)",
    f"y = Loop<body = {BODY}>(trips, yes, one)",
])  # fmt: skip
def test_what_takes_long_is_left_to_run_where_it_can_be_stopped(nodes):
    text = (
        "g () => (y) <int64[3] rows = {1, 1, 8000000}, int64[2] grid = {300, 300}, "
        "int64[1] flat = {8000000}, int64 trips = {1099511627776}, "
        f"bool yes = {{1}}, float one = {{1}}> {{ {nodes} }}"
    )
    session = sk.InferenceSession(parsed(text), "numpy")
    with pytest.raises(errors.RunTimeoutError):
        session.run(None, {}, timeout_s=0.01)


_OTHERWISE = {
    "a long input": "SGK214",
    "a weighted window of channels": "SGK218",
    "many random numbers": "SGK218",
    "parts beyond count": "SGK218",
}
"""What breaks a rule of ONNX besides, by the code of that."""

_MOST_MIB = 200
_MOST_BYTES = 1 << 20


def _ones(*shape):
    return np.ones(shape, np.float32)


@pytest.fixture(scope="module")
def outcomes():
    """Open and run all hostile models in one process: the code of each, and its memory."""
    done = run_child([sys.executable, "-m", "tests.unit.binding.hostile_models"], cwd=ROOT)
    return {name: (code, mebibytes) for name, code, mebibytes in json.loads(done.stdout)}


@pytest.mark.parametrize("name", AT_BIND)
def test_a_model_that_asks_for_too_much_is_refused_before_it_gets_it(outcomes, name):
    code, mebibytes = outcomes[name]
    assert code == _OTHERWISE.get(name, "SGK216")
    assert mebibytes < _MOST_MIB


@pytest.mark.parametrize("name", AT_THE_STEP)
def test_a_step_that_would_make_too_much_is_refused_before_it_does(outcomes, name):
    code, mebibytes = outcomes[f"{name}, at the step"]
    assert code == "SGK217"
    assert mebibytes < _MOST_MIB


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime", "openvino", "onednn"])
def test_a_value_that_feeds_make_too_large_is_refused_whoever_computes_it(backend):
    model = parsed("g (float[N, 1] a, float[1, M] b) => (float[N, M] y) { y = Add(a, b) }")
    s = sk.InferenceSession(model, backend, limits={"max_value_bytes": 40_000}, on_fallback="ok")
    assert s.run(None, {"a": _ones(100, 1), "b": _ones(1, 100)})[0].shape == (100, 100)
    told = r"value 'y' of node #0 Add would be float32\[100,101\]"
    with pytest.raises(errors.InputError, match=f"SGK217.*{told}"):
        s.run(None, {"a": _ones(100, 1), "b": _ones(1, 101)})
    assert s.run(None, {"a": _ones(0, 1), "b": _ones(1, 101)})[0].shape == (0, 101)
    unlimited = sk.InferenceSession(model, backend, limits="unlimited", on_fallback="ok")
    assert unlimited.run(None, {"a": _ones(100, 1), "b": _ones(1, 101)})[0].size == 10_100


_SIZES = st.lists(st.sampled_from([1, 2, 3, 40, 1000, 10**6, 2**31]), min_size=1, max_size=3)
_STEPS = st.lists(
    st.tuples(st.sampled_from(["Expand", "Tile", "Add", "Concat", "Pad", "Gather"]), _SIZES),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(steps=_STEPS)
def test_no_value_larger_than_the_limit_gets_past_bind(steps):
    nodes, stored = [], []
    for index, (op_type, sizes) in enumerate(steps):
        read, made = f"v{index}", "y" if index == len(steps) - 1 else f"v{index + 1}"
        second = read if op_type in {"Add", "Concat"} else f"s{index}"
        call = "Concat<axis = 0>" if op_type == "Concat" else op_type
        nodes.append(f"{made} = {call}({read}, {second})")
        given = [min(size, 2) for size in sizes] if op_type == "Gather" else sizes
        given = given * 2 if op_type == "Pad" else given
        stored.append(f"int64[{len(given)}] s{index} = {{{', '.join(map(str, given))}}}")
    shape = steps[0][1]
    first = f"float[{', '.join(map(str, shape))}] v0"
    made = model(" ".join(nodes), first, ", ".join(stored))
    try:
        bound = sk.bind(sk.load(made), backend="none", limits={"max_value_bytes": _MOST_BYTES})
    except errors.ModelError:
        return
    types = [one for one in bound.types.values() if isinstance(one, TensorType)]
    assert types[0].shape is not None
    sizes = [one.nbytes for one in types if one.nbytes is not None]
    assert max(sizes) <= _MOST_BYTES
    assert prod(shape) * 4 <= _MOST_BYTES


def test_limits_are_given_like_other_settings_and_nothing_is_refused_without():
    diamond = parsed("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(x) y = Add(a, b) }")
    few = sk.LoadLimits(max_nodes=2)
    for call in (
        lambda: sk.load(diamond, limits="max_nodes=2"),
        lambda: sk.bind(sk.load(diamond), backend="none", limits=few),
        lambda: sk.InferenceSession(diamond, "numpy", limits={"max_nodes": 2}),
    ):
        with pytest.raises(
            errors.UnsupportedModelError, match=r"has 3 nodes; the limit is 2 \(max"
        ):
            call()
    with sk.config(limits=few):
        with pytest.raises(errors.UnsupportedModelError):
            sk.bind(sk.load(diamond), backend="none")
        assert sk.bind(sk.load(diamond), backend="none", limits="unlimited").settings.limits == (
            sk.LoadLimits.unlimited()
        )
    with pytest.raises(errors.ConfigError, match="limit max_nodes=-1 is not a whole number"):
        sk.LoadLimits(max_nodes=-1)
    with pytest.raises(errors.ConfigError, match="'max_node=3' is not 'unlimited', or limits with"):
        sk.config.resolve(limits="max_node=3")


def test_weights_that_a_model_really_holds_are_not_computed():
    text = (
        "g (float[300] x) => (y) <float[300, 300] w = {"
        + ", ".join(["1.0"] * 90_000)
        + "}> { t = Transpose(w) c = Concat<axis=0>(t, t) y = MatMul(c, x) }"
    )
    few = {"max_elements": 1000}
    assert sk.bind(sk.load(parsed(text)), backend="numpy", limits=few).order
    text = text.replace("Concat<axis=0>(t, t)", "Concat<axis=0>(t, t, t)")
    with pytest.raises(errors.UnsupportedModelError, match="'c', known at bind, has 270,000 elem"):
        sk.bind(sk.load(parsed(text)), backend="numpy", limits=few)
