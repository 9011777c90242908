"""An If whose condition is known at bind is the nodes of its branch."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import subgraphkit as sk
from subgraphkit.comparing import verify
from subgraphkit.errors import InvalidModelError, WeightUpdateError
from subgraphkit.running.tapping import tapped_session
from tests.models import parsed

SIZES = """
g (float[N, 2] x) => (float[m, k] y, float[m, k] z) <int64 two = {2}> {
  s = Shape(x)
  zero = Constant<value_int=0>()
  n = Gather(s, zero)
  c = Equal(n, two)
  a = Abs(x)
  r = If (c) <
    then_branch = t () => (float[p, q] b) { a2 = Neg(a) b = Concat<axis=0>(a2, x) },
    else_branch = e () => (float[v, w] b) { a2 = Exp(x) b = Relu(a2) }>
  y = Identity(r)
  z = Sigmoid(r)
}
"""
THEN, ELSE = (f"the {one} branch is taken, known at bind" for one in ("then", "else"))


def folded(model, backend="numpy", **shapes):
    return sk.bind(sk.load(model), shapes, backend=backend)


def operators(graph):
    return [graph.nodes[node].op_type for node in graph.order]


@pytest.mark.parametrize("size", [2, 3])
def test_the_branch_that_is_taken_is_in_the_place_of_an_if(size):
    model = parsed(SIZES)
    graph = folded(model, N=size)
    assert graph.left_out[5] == (THEN if size == 2 else ELSE)
    expected = ["Abs", "Neg", "Concat"] if size == 2 else ["Exp", "Relu"]
    assert sorted(operators(graph)) == sorted([*expected, "Identity", "Sigmoid"])
    assert graph.shape("y") == ((4, 2) if size == 2 else (3, 2))
    x = np.linspace(-1, 1, 2 * size, dtype=np.float32).reshape(size, 2)
    session = sk.InferenceSession(model, "numpy", shapes={"N": size})
    for found, wanted in zip(
        session.run(None, {"x": x}), ReferenceEvaluator(model).run(None, {"x": x}), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_an_if_stays_where_its_condition_is_open_or_nothing_is_folded():
    assert "If" in operators(folded(parsed(SIZES)))
    unfolded = sk.bind(sk.load(parsed(SIZES)), {"N": 2}, fold=False)
    assert "If" in operators(unfolded)
    assert unfolded.inlined is unfolded.model


def test_other_sizes_do_not_lead_into_the_other_branch():
    graph = folded(parsed(SIZES), N=2)
    assert graph.reshape({"N": 2}, {})["y"] == graph.types["y"]
    with pytest.raises(InvalidModelError, match=r"If #5 .* condition that is True; 'c' is that no"):
        graph.reshape({"N": 3}, {})


def test_a_constant_that_decides_a_branch_cannot_be_replaced_by_one_that_decides_otherwise():
    x = np.ones((2, 2), np.float32)
    with sk.InferenceSession(parsed(SIZES), "numpy", shapes={"N": 2}) as session:
        with pytest.raises(WeightUpdateError, match="decided at bind: If #5"):
            session.update_weights({"two": np.array(7)})
        session.update_weights({"two": np.array(2)})
        assert session.run(None, {"x": x})[0].shape == (4, 2)


def test_a_subgraph_a_tap_and_a_bundle_have_the_nodes_of_the_branch(tmp_path):
    graph = folded(parsed(SIZES), N=2)
    x = np.array([[1, -2], [3, -4]], np.float32)
    wanted = np.concatenate([-abs(x), x])
    (subgraph,) = sk.partition(graph).subgraphs
    written = subgraph.to_model()
    onnx.checker.check_model(written, full_check=True)
    (y,) = ReferenceEvaluator(written).run(["y"], {"x": x})
    np.testing.assert_array_equal(y, wanted)
    with tapped_session(graph, ["a2", "r", "c"]) as session:
        a2, r, c = session.run(None, {"x": x})
    assert (a2.tolist(), r.tolist(), c.item()) == ((-abs(x)).tolist(), wanted.tolist(), True)
    with sk.InferenceSession(parsed(SIZES), "numpy", shapes={"N": 2}) as session:
        session.export(tmp_path / "bundle")
    with sk.InferenceSession(tmp_path / "bundle") as session:
        assert session.run(["y"], {"x": x})[0].tolist() == wanted.tolist()


def test_a_branch_may_hand_out_captures_initializers_and_one_value_twice():
    text = """
    g (float[2] x) => (float[2] p, float[2] q, float[2] r, float[2] s) <bool c = {1}> {
      p, q, r, s = If (c) <
        then_branch = t () => (float[2] x, float[2] w, float[2] n, float[2] n)
          <float[2] w = {3, 4}> { n = Neg(x) },
        else_branch = e () => (float[2] i, float[2] j, float[2] k, float[2] l) {
          i = Abs(x) j = Abs(x) k = Abs(x) l = Abs(x) }>
    }
    """
    graph = folded(parsed(text))
    assert "If" not in operators(graph)
    assert graph.constants["q"].array().tolist() == [3, 4]
    with sk.InferenceSession(parsed(text), "numpy") as session:
        found = session.run(None, {"x": np.array([1, 2], np.float32)})
    assert [one.tolist() for one in found] == [[1, 2], [3, 4], [-1, -2], [-1, -2]]


def test_large_weights_of_a_model_and_of_a_branch_are_shared(tmp_path):
    model = parsed(
        """
        g (float[5000] x) => (float[5000] y) <bool c = {1}> {
          r = If (c) <
            then_branch = t () => (float[5000] o) { v = Add(w, k) o = Mul(v, f) },
            else_branch = e () => (float[5000] o) { o = Identity(x) }>
          y = Add(r, x)
        }
        """,
        f=np.full(5000, 2, np.float32),
    )
    (then,) = (one.g for one in model.graph.node[0].attribute if one.name == "then_branch")
    stated = numpy_helper.from_array(np.ones(5000, np.float32), "k")
    then.node.insert(0, helper.make_node("Constant", [], ["k"], value=stated))
    then.initializer.append(numpy_helper.from_array(np.arange(5000, dtype=np.float32), "w"))
    loaded = sk.load(model)
    graph = sk.bind(loaded, backend="numpy")
    assert graph.inlined.taken_out == {"w", "k", "f"}
    assert len(graph.inlined.proto.SerializeToString()) < 4096
    inner = loaded.graph.table.bodies[0]["then_branch"].initializers["w"]
    assert np.shares_memory(graph.constants["w"].array(), inner.array())
    x = np.ones(5000, np.float32)
    wanted = (np.arange(5000, dtype=np.float32) + 1) * 2 + 1
    with sk.InferenceSession(model, "numpy") as session:
        assert session.run(None, {"x": x})[0].tolist() == wanted.tolist()
        session.export(tmp_path / "bundle")
        session.update_weights({"w": np.zeros(5000, np.float32)})
        assert session.run(None, {"x": x})[0].tolist() == [3.0] * 5000
    with sk.InferenceSession(tmp_path / "bundle") as session:
        assert session.run(None, {"x": x})[0].tolist() == wanted.tolist()


SILERO = Path(onnx.__file__).parents[1] / "silero_vad" / "data"


@pytest.mark.parametrize("backend", ["numpy", "openvino", "onednn"])
@pytest.mark.parametrize("name", ["silero_vad_half.onnx", "silero_vad_16k_op15.onnx"])
def test_a_network_of_nested_branches_goes_to_backends_whole(name, backend):
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip(f"subgraphkit_{backend}")
    if not (SILERO / name).exists():
        pytest.skip("silero-vad is not installed")
    random = np.random.default_rng(3)
    feeds = {
        "input": random.standard_normal((1, 576)).astype(np.float32),
        "state": random.standard_normal((2, 1, 128)).astype(np.float32),
    }
    shapes = {one: array.shape for one, array in feeds.items()}
    model = sk.load(SILERO / name)
    if "sr" in model.graph.inputs:
        feeds["sr"] = np.array(16000)
    with sk.InferenceSession(model, backend, shapes=shapes) as session:
        found = session.run(None, feeds)
        assert "If" not in operators(session.graph)
        regions = [one for one in session.partitioning.subgraphs if one.backend == backend]
    wanted = ort.InferenceSession(str(SILERO / name)).run(None, feeds)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert len(regions) == {"onednn": 5}.get(backend, 1)


CLASHES = """
g (float[2] x) => (float[2] y, float[2] z) <bool c = {1}, bool d = {0}> {
  t = Neg(x)
  r = If (c) <
    then_branch = a () => (float[2] o) { u = Abs(x) v = Add(u, t) o = Add(v, u) },
    else_branch = b () => (float[2] o) { u = Exp(x) o = Add(u, t) }>
  s = If (d) <
    then_branch = a () => (float[2] o) { o = Exp(x) },
    else_branch = b () => (float[2] o) {
      u = Relu(x)
      k = Constant<value = float[2] {5, 6}>()
      i = If (e) <
        then_branch = a () => (float[2] w) { w = Add(u, k) },
        else_branch = b () => (float[2] w) { v = Neg(u) w = Add(v, t) }>
      o = Add(i, u) }>
  m = ReduceMin<keepdims = 0>(x)
  zero = Constant<value_float = 0.0>()
  e = Greater(m, zero)
  y = Add(r, s)
  z = Neg(s)
}
"""


@pytest.mark.parametrize("x", [[1, 2], [-1, 2]])
def test_names_that_clash_get_that_of_the_if_before_them_in_bodies_too(x):
    graph = folded(parsed(CLASHES))
    assert operators(graph).count("If") == 1
    names = {one for row in graph.table.outputs for one in row}
    assert {"u", "s/u"} <= names
    assert "r/v" in names, "v is a name in a body that stays"
    fed = np.array(x, np.float32)
    with sk.InferenceSession(parsed(CLASHES), "numpy") as session:
        found = session.run(None, {"x": fed})
        (subgraph,) = session.partitioning.subgraphs
        onnx.checker.check_model(subgraph.to_model(), full_check=True)
    with sk.InferenceSession(parsed(CLASHES), "numpy", fold=False) as session:
        np.testing.assert_equal(found, session.run(None, {"x": fed}))


def test_what_contradicts_itself_in_a_branch_is_left_to_run():
    text = """
    g (float[2] x) => (float[n] y) <bool c = {1}, float[3] w = {1, 2, 3}> {
      y = If (c) <then_branch = a () => (float[n] o) { s = Add(x, w) o = Neg(s) },
                  else_branch = b () => (float[n] o) { o = Abs(x) }>
    }
    """
    assert operators(folded(parsed(text))) == ["If"]


def test_every_value_between_subgraphs_of_a_branch_is_verified():
    x = np.array([[1, -2], [3, -4]], np.float32)
    found = verify(parsed(SIZES), {"x": x}, "numpy", per_subgraph=True, shapes={"N": 2})
    assert found.agrees
