"""Memory that a partitioning needs, and sizes that are fed."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Footprint, Traits, attention_scores, peak_of_values, scaled_weights
from subgraphkit.backend.footprint import ValuesPeak
from subgraphkit.errors import ExecutionError, MemoryLimitError, SelectorContractError
from tests.fakes import claiming
from tests.models import CHAIN, DIAMOND, bound, parsed

_CELL = 4  # bytes of a float32


def _whole(body, **symbols):
    backend = claiming({node.op_type for node in parsed(body).graph.node})
    (subgraph,) = sk.partition(bound(body, backend, **symbols)).subgraphs
    return subgraph


def _any(node):
    del node
    return True


def test_values_live_from_the_node_that_makes_them_to_the_last_that_reads_them():
    peak = peak_of_values(_whole(DIAMOND))
    assert peak.bytes == 3 * 6 * _CELL  # Abs reads a while b waits; so does Add with its result
    assert (peak.node, set(peak.living)) == (2, {"a", "b", "c"})


def test_a_result_may_be_written_over_a_value_that_nobody_reads_any_more():
    chain = _whole(CHAIN, N=2)
    assert peak_of_values(chain).bytes == 2 * 8 * _CELL
    assert peak_of_values(chain, overwrites=_any).bytes == 8 * _CELL


def test_a_view_has_the_memory_of_what_it_shows_as_long_as_it_is_read():
    subgraph = _whole(
        """views (float[2, 3] x) => (float[6] y) <int64[1] flat = {6}> {
          a = Relu(x)
          b = Reshape(a, flat)
          c = Neg(x)
          d = Reshape(c, flat)
          y = Add(b, d)
        }"""
    )
    assert peak_of_values(subgraph).bytes == 3 * 6 * _CELL  # a, c and y: no more for b and d
    assert peak_of_values(subgraph, hidden={"a"}).bytes == 2 * 6 * _CELL


def test_the_scores_of_attention_are_those_between_its_two_products():
    subgraph = _whole(
        """attention (float[4, 8] q, float[8, 4] k, float[4, 8] v, float[4, 4] m) => (float[4, 8] y)
        <float half = {0.5}> {
          s = MatMul(q, k)
          t = Mul(s, half)
          u = Add(t, m)
          p = Softmax(u)
          y = MatMul(p, v)
        }"""
    )
    assert attention_scores(subgraph) == {"s", "t", "u", "p"}
    plain = _whole("plain (float[4, 4] x) => (float[4, 4] y) { p = Softmax(x)  y = Neg(p) }")
    assert attention_scores(plain) == frozenset()


def test_a_scale_after_a_product_is_folded_into_its_factor():
    subgraph = _whole(
        """scaled (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] w = {1, 2, 3, 4}, float[2, 2] v = {1, 2, 3, 4}, float[2] b = {1, 2}> {
          a = MatMul(x, w)
          c = Add(a, b)
          d = Mul(c, b)
          y = MatMul(d, v)
        }"""
    )
    assert scaled_weights(subgraph) == {"w"}


SHARED = """
shared (float[2, 4] x) => (float[2, 4] y)
<float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}> {
  a = MatMul(x, w)
  b = Neg(a)
  y = MatMul(b, w)
}
"""


def _footprinted(operators, name, found):
    backend = claiming(operators, name)
    backend.footprint = lambda self, subgraph: found(subgraph)  # type: ignore[assignment, method-assign, return-value]
    return backend


def _shared(**settings):
    keeps = Footprint(100, 70, ValuesPeak(64), 200, keeps_work=True, library=1000)
    passes = Footprint(10, 500, ValuesPeak(32), 300)
    backends = [
        _footprinted(["MatMul"], "first", lambda _: keeps),
        _footprinted(["Neg"], "second", lambda _: passes),
    ]
    return sk.partition(sk.bind(sk.load(parsed(SHARED)), backend=backends, **settings))


def test_a_shared_weight_and_a_library_count_once_and_what_stays_adds_up():
    partitioning = _shared()
    memory = partitioning.memory()
    proto = partitioning.graph.model.data_bytes
    assert [step.backend for step in memory.steps] == ["first", "second", "first"]
    assert memory.model == proto + 16 * _CELL  # read once out of the message, for both
    assert memory.libraries == {"first": 1000, "second": 0}
    shared = memory.model + memory.base + 1000
    assert memory.held == shared + 100 + 10 + 100
    assert memory.opening == shared + 100 + 10 + 500  # while the second is compiled
    # both arenas stay; the second step passes 300 on while what the first made waits
    assert memory.running == memory.held + 2 * 200 + 300 + 2 * 4 * _CELL
    assert memory.busiest is memory.steps[1]
    assert memory.to_dict()["running"] == memory.running
    assert sk.plan(partitioning, sk.compile_subgraphs(partitioning)).memory() == memory


def test_too_little_memory_is_refused_before_anything_is_compiled():
    def never(subgraph):
        raise AssertionError(f"{subgraph} was compiled")

    backend = claiming(["Relu", "Neg", "Add", "Abs"], make=never)
    with pytest.raises(MemoryLimitError, match="SGK134") as refused:
        sk.InferenceSession(parsed(DIAMOND), backend=backend, max_memory="1KiB")
    assert refused.value.context["limit"] == 1024 < refused.value.context["needed"]
    assert isinstance(refused.value, MemoryError)


@pytest.mark.parametrize("found", [lambda _: 5, lambda _: 1 / 0], ids=["a number", "an error"])
def test_a_backend_that_says_nothing_of_use_is_at_fault(found):
    backend = _footprinted(["Relu", "Neg", "Add", "Abs"], "wrong", found)
    with pytest.raises(SelectorContractError, match=r"SGK122.*footprint"):
        sk.partition(bound(DIAMOND, backend)).memory()


_RANGE = "<int64 z = {0}, int64 o = {1}, int64 at = {0}>"
_FED = {
    "a length": f"g (int64 n) => (int64[K] y) {_RANGE} {{ m = Add(n, o) y = Range(z, m, o) }}",
    "a shape": "g (int64[1] n) => (float[K] y) { y = ConstantOfShape(n) }",
    "one that may be fed": "g (int64[1] n) => (float[K] y) <int64[1] n = {2}> "
    "{ y = ConstantOfShape(n) }",
    "in a branch": "g (bool c, int64[1] n) => (float[K] y) { y = If(c) <"
    "then_branch = t () => (float[L] a) { a = ConstantOfShape(n) }, "
    "else_branch = e () => (float[1] b) { b = Constant<value_floats=[1.0]>() }> }",
    "in a loop": "g (int64[1] n) => (float[K] y) <int64 m = {2}, bool c = {1}> "
    "{ s, y = Loop(m, c, n) <body = b (int64 i, bool d, int64[1] t) => "
    "(bool e, int64[1] u, float v) "
    "{ e = Identity(d) u = Add(t, t) w = ConstantOfShape(t) v = ReduceSum<keepdims=0>(w) }> }",
}
_MEASURED = {
    "a size": f"g (float[N] x) => (int64[N] y) {_RANGE} "
    "{ s = Shape(x) n = Gather(s, at) y = Range(z, n, o) }",
    "a size where something is": "g (bool c, float[N] x) => (float[N] y) <int64[1] m = {2}> "
    "{ s = Shape(x) n = Where(c, s, m) y = ConstantOfShape(n) }",
    "a stated one": "g (float[1] x) => (float[4] y) <int64[1] n = {4}> { y = Expand(x, n) }",
    "how often a loop was run": "g (float[1] x) => (float[1] y) <int64 m = {2}, bool c = {1}> "
    "{ y = Loop(m, c, x) <body = b (int64 i, bool d, float[1] t) => (bool e, float[1] u) "
    "<int64[1] k = {1}> "
    "{ e = Identity(d) n = Reshape(i, k) w = ConstantOfShape(n) v = ReduceSum(w) "
    "u = Add(t, v) }> }",
}
_ALL = {"Add", "ConstantOfShape", "Expand", "Gather", "If", "Loop", "Range", "Shape", "Where"}


def _refused(text, limits="", *, holds=False):
    backend = claiming(_ALL)
    backend.traits = Traits(holds_limits=holds)
    bound = sk.bind(sk.load(parsed(text)), backend=[backend], limits=limits or "default")
    found = sk.partition(bound, dry_run=True).refusals_by("fake")
    return {refusal.code for refusal in found.values()}


@pytest.mark.parametrize("text", _FED.values(), ids=_FED)
def test_a_size_that_is_fed_is_left_to_who_holds_it_to_the_limits(text):
    assert _refused(text) == {"fed_size"}
    assert not _refused(text, holds=True)
    assert not _refused(text, "max_value_bytes=0")


@pytest.mark.parametrize("text", _MEASURED.values(), ids=_MEASURED)
def test_a_size_of_what_is_there_is_for_everybody(text):
    assert not _refused(text)


def test_a_fed_size_beyond_the_limit_is_refused_at_the_step():
    model = parsed(_FED["a length"])
    with sk.InferenceSession(model, [claiming(_ALL), "numpy"], on_fallback="ok") as session:
        assert session.run(None, {"n": np.array(2)})[0].tolist() == [0, 1, 2]
        with pytest.raises(ExecutionError, match="SGK217"):
            session.run(None, {"n": np.array(2**40)})
