"""Bundles that are written and opened, with backends and without."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import subgraphkit as sk
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.errors import BackendUnavailableError, InvalidModelError, WeightUpdateError
from tests.models import CHAIN, DIAMOND, LINEAR, parsed
from tests.storing import ProgramOperator, Storing
from tests.unit.bundling.conftest import X, wide

BRANCH = """
branch (bool c, float[N, 3] x) => (float[N, 3] y)
<float[3] w = {1, 2, 3}>
{
  outer = Mul(x, w)
  t = If (c) <
    then_branch = g1 () => (float[N, 3] r) { r = Add(outer, x) },
    else_branch = g2 () => (float[N, 3] r) <float[1] k = {7}> { r = Sub(outer, k) }
  >
  y = Neg(t)
}
"""
OVERRIDABLE = """
overridable (float[2] x, float[2] bias) => (float[2] y)
<float[2] bias = {10, 20}>
{
  y = Add(x, bias)
}
"""
TEXTS = """
texts (string[N] x) => (string[N] y, string[2] k)
<string[2] k = {"a", "ü"}>
{
  y = Identity(x)
}
"""
LISTS = """
lists (float[2, 3] x) => (seq(float[2, 3]) s, float[2, 3] y)
{
  a = Relu(x)
  s = SequenceConstruct(a, x)
  i = Constant<value = int64 {1}>()
  y = SequenceAt(s, i)
}
"""
STATED = """
stated (float[2] x) => (float[2] y, float[2] k) <float[0] none = {}>
{
  k = Constant<value = float[2] {3, 4}>()
  a = Add(x, k) n = Selu(none) y = Concat<axis = 0>(a, n)
}
"""
COUNTED = """
counted (int64 n, bool c, float[2, 3] x) => (float[2, 3] y, float[k, 2, 3] s)
<float[3] w = {1, 2, 3}>
{
  o = Mul(x, w)
  y, s = Loop(n, c, x) <body = b (int64 i, bool cc, float[2, 3] v)
    => (bool co, float[2, 3] vo, float[2, 3] so) <float[1] q = {2}>
    { co = Identity(cc) t = Add(v, o) vo = Mul(t, q) so = Identity(vo) }>
}
"""
SCANNED = """
scanned (float[2] s, float[5, 2] x) => (float[2] z, float[5, 2] r)
<float[2] w = {1, 2}>
{
  o = Neg(w)
  z, r = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] ao, float[2] eo)
    { t = Add(a, e) ao = Add(t, o) eo = Identity(ao) }>(s, x)
}
"""
COMPUTED = """
computed (float[2] x) => (int64[1, N] i, float[2] y) <float[2] w = {-1, 2}>
{ s = Selu(w) i = NonZero(s) y = Add(x, s) }
"""
NAMED_TWICE = """
twice (float[2, 3] x) => (float[2, 3] y, float[2, 3] x)
{
  [n] a = Relu(x)
  [n] y = Neg(a)
}
"""
F = np.float32
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "chain": (CHAIN, {"x": np.arange(8, dtype=F).reshape(2, 4) - 3}),
    "diamond": (DIAMOND, {"x": np.arange(6, dtype=F).reshape(2, 3) - 3}),
    "linear": (LINEAR, {"x": np.arange(6, dtype=F).reshape(2, 3)}),
    "a body that captures": (BRANCH, {"c": np.array(1, bool), "x": np.ones((2, 3), F)}),
    "the other body": (BRANCH, {"c": np.array(0, bool), "x": np.ones((2, 3), F)}),
    "a default": (OVERRIDABLE, {"x": np.ones(2, F)}),
    "a default that is fed": (OVERRIDABLE, {"x": np.ones(2, F), "bias": np.ones(2, F)}),
    "strings": (TEXTS, {"x": np.array(["p", "q"], object)}),
    "a loop that captures": (
        COUNTED,
        {"n": np.array(3), "c": np.array(1, bool), "x": np.ones((2, 3), F)},
    ),
    "a scan that captures": (SCANNED, {"s": np.ones(2, F), "x": np.ones((5, 2), F)}),
    "names that repeat": (NAMED_TWICE, {"x": np.ones((2, 3), F)}),
    "sequences": (LISTS, {"x": np.ones((2, 3), F)}),
    "places in what is computed": (COMPUTED, {"x": np.ones(2, F)}),
    "a constant that is an output": (STATED, {"x": np.ones(2, F)}),
}


def same(have, want):
    """Compare outputs, lists element by element."""
    assert len(have) == len(want)
    for one, other in zip(have, want, strict=True):
        if isinstance(other, list):
            same(one, other)
        else:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("case", CASES)
def test_a_model_on_numpy_computes_the_same_from_its_bundle(case):
    text, feeds = CASES[case]
    with sk.InferenceSession(parsed(text)) as session:
        want = session.run(None, feeds)
        session.export("bundle")
        inputs, outputs = session.get_inputs(), session.get_outputs()
        defaults, types = session.get_overridable_initializers(), session.graph.types
    with sk.InferenceSession("bundle") as opened:
        same(opened.run(None, feeds), want)
        assert (opened.get_inputs(), opened.get_outputs()) == (inputs, outputs)
        assert (opened.get_overridable_initializers(), opened.graph.types) == (defaults, types)
        opened.export("again")
    with sk.InferenceSession("again") as opened:
        same(opened.run(None, feeds), want)


def test_weights_that_only_a_body_reads_or_nobody_come_back():
    unread = {"unread": np.ones((64, 64), F), "empty": np.ones((0, 64), F)}
    model = parsed(
        "m (bool c, float[2, 64] x) => (float[2, 64] y) { y = If(c) <"
        "then_branch = a () => (float[2, 64] r) { r = MatMul(x, w) }, "
        "else_branch = b () => (float[2, 64] r) { r = Add(x, v) }> }",
        w=np.eye(64, dtype=F) * 3,
        v=np.zeros((1, 64), F),
        **unread,
    )
    with sk.InferenceSession(model) as session:
        session.export("bundle")
    with sk.InferenceSession("bundle") as opened:
        for which, want in ((True, 3 * X), (False, X)):
            np.testing.assert_array_equal(opened.run(None, {"c": np.array(which), "x": X})[0], want)


@pytest.mark.parametrize("threshold", [0, 1024])
def test_a_model_with_weights_in_files_needs_them_no_more(threshold):
    body = "a = MatMul(x, w) unread = Slice(x, zero, one, zero, one) y = Reshape(a, shape)"
    weight = np.arange(4096, dtype=F).reshape(64, 64)
    text = f"m (float[4, 64] x) => (float[n, 64] y) {{ {body} }}"
    model = parsed(text, w=weight, zero=[0], one=[1])
    shape = numpy_helper.from_array(np.array([4, 64]))
    model.graph.node.insert(0, helper.make_node("Constant", [], ["shape"], value=shape))
    Path("model").mkdir()
    outside = {"save_as_external_data": True, "size_threshold": threshold, "location": "w.bin"}
    onnx.save(model, "model/m.onnx", **outside, convert_attribute=True)
    x = np.ones((4, 64), F)
    with sk.InferenceSession("model/m.onnx") as session:
        want = session.run(None, {"x": x})
        types = session.get_outputs()
        session.export("bundle")
    shutil.rmtree("model")
    with sk.InferenceSession("bundle") as opened:
        same(opened.run(None, {"x": x}), want)
        assert opened.get_outputs() == types


def test_shapes_of_the_bind_and_open_dimensions_are_those_of_the_bundle():
    for shapes, batches in (({"N": 3}, [3]), ({"x": (3, 4)}, [3]), (None, [1, 5])):
        with sk.InferenceSession(parsed(CHAIN), shapes=shapes) as session:
            session.export("bundle", overwrite=True)
            inputs = session.get_inputs()
        with sk.InferenceSession("bundle") as opened:
            assert opened.get_inputs() == inputs
            for batch in batches:
                x = np.ones((batch, 4), F)
                np.testing.assert_array_equal(opened.run(None, {"x": x})[0], np.zeros_like(x))


def test_engines_are_restored_and_nothing_is_compiled(bundle, backend, expected):
    with sk.InferenceSession(bundle, backend=[backend]) as opened:
        np.testing.assert_allclose(opened.run(None, {"x": X})[0], expected, rtol=1e-5)
        backends = [one.backend for one in opened.partitioning.subgraphs]
        assert backends == ["storing", "numpy", "storing"]
        assert opened.partitioning.quality.backends[0].lower_bound is None
        assert "storing_0" in opened.partitioning.report(details=True)
    assert (backend.compilations, backend.restorations) == (0, 2)


def test_weights_that_engines_have_are_left_out_and_said_to_be(bundle, backend):
    assert {path.name for path in bundle.iterdir()} == {
        "manifest.json",
        "model.onnx",
        "storing_0.engine",
        "storing_2.engine",
        next(bundle.glob("weights.*.bin")).name,
    }
    assert next(bundle.glob("weights.*.bin")).stat().st_size == 64 * 64 * 4
    assert (bundle / "model.onnx").stat().st_size < 2000
    graph = sk.load(bundle / "model.onnx").graph
    with pytest.raises(InvalidModelError, match=r"(?s)SGK184.*Open the bundle"):
        graph.constants["w1"].array()


def test_new_weights_for_an_engine_that_is_restored_take_all_that_it_is_compiled_from(backend):
    text = "m (float[2, 64] x) => (float[2, 64] y) { a = MatMul(x, w) y = MatMul(a, v) }"
    model = parsed(text, w=np.eye(64, dtype=F), v=np.eye(64, dtype=F))
    with sk.InferenceSession(model, backend=[backend]) as session:
        session.export("bundle")
    twice = 2 * np.eye(64, dtype=F)
    with sk.InferenceSession("bundle", backend=[backend]) as opened:
        with pytest.raises(WeightUpdateError, match="SGK184"):
            opened.update_weights({"w": twice})
        np.testing.assert_array_equal(opened.run(None, {"x": X})[0], X)
        assert opened.update_weights({"w": twice, "v": twice}) == {"storing_0": "recompiled"}
        np.testing.assert_array_equal(opened.run(None, {"x": X})[0], 4 * X)
        opened.export("again")
    with sk.InferenceSession("again", backend=[backend]) as opened:
        np.testing.assert_array_equal(opened.run(None, {"x": X})[0], 4 * X)


def test_weights_that_a_bundle_was_computed_from_are_not_replaced_in_it():
    text = "m (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Neg(w) y = Mul(x, a) }"
    with sk.InferenceSession(parsed(text)) as session:
        session.export("bundle")
    with pytest.raises(WeightUpdateError, match="was in part computed from 'w'"):
        sk.InferenceSession("bundle").update_weights({"w": np.ones(2, F)})


def test_what_restores_an_engine_may_compile_on_the_fallback(monkeypatch, backend):
    monkeypatch.setattr(backend, "deserialize", lambda *given: given[3].compile(given[2]))
    with sk.InferenceSession(parsed(LINEAR), backend=[backend]) as session:
        session.export("bundle")
    opened = sk.InferenceSession("bundle", backend=[backend])
    same(opened.run(None, {"x": np.ones((1, 3), F)}), [np.array([[19, 32]], F)])


def test_an_engine_whose_old_weights_are_gone_is_not_refitted_in_place(
    monkeypatch, backend, bundle, expected
):
    # Were another subgraph to fail afterwards, the old weights could not be put back.
    asked: list[str] = []

    def update(self, changed):
        asked.extend(changed)
        return True

    monkeypatch.setattr(ProgramOperator, "update_weights", update)
    with sk.InferenceSession(bundle, backend=[backend]) as opened:
        with pytest.raises(WeightUpdateError, match="SGK184"):
            opened.update_weights({"w1": np.zeros((64, 64), F)})
        np.testing.assert_allclose(opened.run(None, {"x": X})[0], expected, rtol=1e-5)
    assert asked == []


@pytest.mark.parametrize(("text", "fresh", "shape"), [
    (None, {"w1": np.eye(64, dtype=F)}, (2, 64)),
    (LINEAR, {"bias": np.array([1, 2], F)}, (2, 3)),
    (STATED, {"k": np.array([8, 9], F)}, (2,)),
], ids=["large", "small", "stated"])  # fmt: skip
def test_weights_that_were_replaced_are_exported_as_they_are_now(text, fresh, shape):
    feeds = {"x": np.ones(shape, F)}
    with sk.InferenceSession(wide() if text is None else parsed(text), backend="numpy") as session:
        session.export("bundle")
    with sk.InferenceSession("bundle") as opened:
        assert set(opened.update_weights(fresh).values()) == {"recompiled"}
        want = opened.run(None, feeds)
        opened.export("bundle", overwrite=True)
    with sk.InferenceSession("bundle") as opened:
        same(opened.run(None, feeds), want)


def test_what_a_subgraph_moved_to_the_fallback_computes_is_exported_without_an_engine(
    backend, monkeypatch, expected
):
    def broken(*_):
        raise RuntimeError("out of order")

    with monkeypatch.context() as patched:
        patched.setattr(ProgramOperator, "run", broken)
        session = sk.InferenceSession(
            wide(), backend=[backend], shapes={"N": 2}, on_run_error="fallback"
        )
        with pytest.warns(sk.errors.SubgraphkitWarning, match="out of order"):
            session.run(None, {"x": X})
        session.export("bundle")
    assert list(Path("bundle").glob("*.engine")) == []
    backend.compilations = backend.restorations = 0
    with sk.InferenceSession("bundle", backend=[backend]) as opened:
        np.testing.assert_allclose(opened.run(None, {"x": X})[0], expected, rtol=1e-5)
    assert (backend.compilations, backend.restorations) == (2, 0)


class Gone(Storing):
    """The backend of the bundle, on a machine without its device."""

    @classmethod
    def probe(cls, *, deep=False):
        return sk.ProbeResult(available=False, problems=("there is no device",), hint="Plug it in.")


@pytest.mark.parametrize(("chosen", "settings"), [
    ([Gone], {}),
    ([Gone], {"on_missing": "warn"}),
    ([BackendChoice("storing", optional=True, target=Gone)], {}),
])  # fmt: skip
def test_a_bundle_says_which_backend_it_cannot_run_without(bundle, chosen, settings):
    with pytest.raises(
        BackendUnavailableError, match=r"2 of its 3 .*'storing'.*no device"
    ) as caught:
        sk.InferenceSession(bundle, backend=chosen, **settings)
    assert (caught.value.code, caught.value.backend) == ("SGK104", "storing")
    assert caught.value.hint.startswith("Plug it in.\nA bundle runs on its own backends alone")
    assert "SUBGRAPH_ON_MISSING" not in caught.value.hint
