"""Nodes whose size is fed are for those who look first; what is measured is for everybody."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Traits
from subgraphkit.errors import ExecutionError
from tests.fakes import claiming
from tests.models import parsed

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


def _refused(text: str, limits: str = "", *, holds: bool = False) -> set[str]:
    backend = claiming(_ALL)
    backend.traits = Traits(holds_limits=holds)
    bound = sk.bind(sk.load(parsed(text)), backend=[backend], limits=limits or "default")
    found = sk.partition(bound, dry_run=True).refusals_by("fake")
    return {refusal.code for refusal in found.values()}


@pytest.mark.parametrize("text", _FED.values(), ids=_FED)
def test_a_size_that_is_fed_is_left_to_who_holds_it_to_the_limits(text: str) -> None:
    assert _refused(text) == {"fed_size"}
    assert not _refused(text, holds=True)
    assert not _refused(text, "max_value_bytes=0")


@pytest.mark.parametrize("text", _MEASURED.values(), ids=_MEASURED)
def test_a_size_of_what_is_there_is_for_everybody(text: str) -> None:
    assert not _refused(text)


def test_a_fed_size_beyond_the_limit_is_refused_at_the_step() -> None:
    model = parsed(_FED["a length"])
    with sk.InferenceSession(model, [claiming(_ALL), "numpy"], on_fallback="ok") as session:
        assert session.run(None, {"n": np.array(2)})[0].tolist() == [0, 1, 2]
        with pytest.raises(ExecutionError, match="SGK217"):
            session.run(None, {"n": np.array(2**40)})
