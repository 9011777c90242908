"""A backend that was named and has little of a model: one warning with shares, cause, remedy."""

import logging
from typing import Any

import pytest

import subgraphkit as sk
from subgraphkit.backend import FallbackEvent, Refusal, hookimpl
from subgraphkit.errors import SubgraphkitWarning, UnclaimedNodesError
from subgraphkit.finding.registry import registered
from tests.fakes import claiming, extended
from tests.models import DIAMOND, parsed

OPEN = """
open (float[batch, 64] x, float[64, 64] w) => (float[batch, 64] y, int64[2] s) {
  a = MatMul(x, w)
  b = Relu(a)
  c = Neg(b)
  y = Abs(c)
  s = Shape(y)
}
"""

FOUND = """
found (float[4, 64] x) => (float[m, 2] y) {
  i = NonZero(x)
  f = Cast<to = 1>(i)
  y = Transpose(f)
}
"""

HEAVY = """
heavy (float[64, 64] x, float[64, 64] w) => (float[64, 64] y, float[64, 64] z) {
  a = MatMul(x, w)
  b = MatMul(a, w)
  y = Relu(b)
  z = Neg(y)
}
"""


class Closed(sk.SubgraphSelector):
    """Takes what has no open dimension, and refuses each value by its name."""

    def select(self, node):
        for name in (*node.inputs, *node.outputs):
            if any(not isinstance(dim, int) for dim in node.graph.shape(name) or (None,)):
                return Refusal("dynamic_shape", f"the shape of {name!r} is known only at a run")
        return True


closed = claiming(lambda _: Closed(), "closed")


def warned(caplog, model, backend, **settings):
    """Open a session; return what was written to the log at WARNING or above."""
    caplog.clear()
    sk.InferenceSession(parsed(model), backend, **settings).close()
    found = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert {one.name for one in found} <= {"subgraphkit.placement"}
    assert all(len(one.getMessage()) <= 300 for one in found)
    return [one.getMessage() for one in found]


def test_one_warning_says_who_has_what_why_and_what_to_do(caplog):
    (said,) = warned(caplog, OPEN, closed)
    assert said == (
        "closed has 0 of 5 nodes (0% of FLOPs), numpy 5 (100%). Main reason: dimension 'batch' is "
        'open (5 nodes, closed). Give shapes={"batch": 1} (--symbol batch=1); on_fallback="ok" '
        "accepts it."
    )
    assert warned(caplog, OPEN, closed, shapes={"batch": 2}) == []
    # A list says who is to have the rest, and not that everything is to be rest.
    (said,) = warned(caplog, OPEN, [closed, "numpy"])
    assert said.startswith("closed has 0 of 5 nodes (0% of FLOPs), numpy 5 (100%)")
    (said,) = warned(caplog, FOUND, closed)
    assert "the shape of what #0 NonZero makes is known only at a run (3 nodes, closed)" in said
    assert "shapes=" not in said


def test_a_fallback_that_nobody_named_is_named_in_the_warning(caplog):
    most = claiming(["MatMul"], "most")
    assert warned(caplog, HEAVY, most) == [], "a hundredth of the work is not worth a word"
    one = claiming(["Relu", "Neg"], "little")
    (said,) = warned(caplog, HEAVY, one)
    assert said == (
        "little has 2 of 4 nodes (0.8% of FLOPs), numpy 2 (99.2%). Main reason: operator MatMul is "
        "not in the list (2 nodes, little). partitioning.report() or 'subgraphkit plan' says more; "
        'on_fallback="ok" accepts it.'
    )
    half = claiming(["Relu", "Neg", "Abs"], "half")
    (said,) = warned(caplog, DIAMOND, half)
    assert said.startswith("half has 3 of 4 nodes (75.0% of FLOPs), numpy 1 (25.0%). Main reason")
    assert warned(caplog, DIAMOND, half, fallback="numpy") == []
    assert warned(caplog, DIAMOND, [half, "numpy"]) == []


def test_who_was_named_first_is_counted_on_for_half_and_others_for_a_tenth(caplog):
    chain = "sum (float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) c = Abs(b) y = Exp(c) }"
    quarter, rest = claiming(["Relu"], "quarter"), claiming(["Neg", "Abs", "Exp"], "rest")
    (said,) = warned(caplog, chain, [quarter, rest])
    assert said.startswith("quarter has 1 of 4 nodes (25.0% of FLOPs), rest 3 (75.0%)")
    assert warned(caplog, chain, [rest, quarter]) == []
    assert warned(caplog, chain, [claiming(["Relu", "Neg"], "half"), rest]) == []
    assert warned(caplog, chain, [claiming(["Neg", "Abs"], "half"), quarter, "numpy"]) == []


def test_a_backend_left_out_is_told_once_with_the_reason(caplog):
    with pytest.warns(SubgraphkitWarning, match="SGK102"):
        (said,) = warned(caplog, DIAMOND, "zzz,numpy", on_missing="warn")
    assert said.startswith("zzz was left out: ")
    assert said.endswith('; numpy has 4 of 4 nodes (100% of FLOPs). on_fallback="ok" accepts it.')


def test_an_optional_backend_that_is_absent_is_no_warning(caplog):
    assert warned(caplog, DIAMOND, "zzz?,numpy") == []
    (said,) = warned(caplog, OPEN, ["zzz?", closed])
    assert "zzz" not in said
    assert "dimension 'batch' is open" in said


def test_names_reach_no_terminal_as_control_characters_and_the_remedy_is_never_cut(caplog):
    model = parsed(OPEN.replace("batch", "past_length"))
    renamed = model.SerializeToString().replace(b"past_length", b"past \x1b[2J + 1"[:11])
    caplog.clear()
    with sk.InferenceSession(renamed, ["zzz?", "tensorrt?", closed]) as session:
        report = session.partitioning.report(details=True)
    (said,) = caplog.messages
    assert len(said) <= 300
    assert said.endswith("""(--symbol 'past \\x1b[2J +=1'); on_fallback="ok" accepts it.""")
    assert "x: float32[past \\x1b[2J +,64]" in report
    assert "\x1b" not in said + report


def test_it_can_be_an_error_before_anything_is_compiled():
    def never(subgraph):
        raise AssertionError(f"{subgraph} was compiled")

    one = claiming(["Relu", "Neg"], "little", make=never)
    with pytest.raises(UnclaimedNodesError, match=r"SGK125.*little has 2 of 4 nodes"):
        sk.InferenceSession(parsed(HEAVY), one, on_fallback="error")
    with pytest.raises(UnclaimedNodesError, match="90% of the work is required of 'little'"):
        sk.InferenceSession(parsed(HEAVY), one, require={"little": 0.9}, on_fallback="ok")
    with pytest.raises(UnclaimedNodesError, match="'other', and other has 0 of 4 nodes"):
        sk.InferenceSession(parsed(HEAVY), "numpy", require="numpy=1, other=0.01")


def test_what_is_given_back_while_compiling_counts(caplog):
    def refused(subgraph):
        raise sk.Unsupported("the library has no MatMul of this size")

    one = claiming(["MatMul"], "giver", make=refused)
    settings: dict[str, Any] = {"cache": False}
    with sk.InferenceSession(parsed(HEAVY), one, **settings) as session:
        assert {step.subgraph.backend for step in session.plan.steps} == {"numpy"}
    (said,) = [one.getMessage() for one in caplog.records if "placement" in one.name]
    assert said.startswith("giver has 0 of 4 nodes (0% of FLOPs), numpy 4 (100%). Main reason: the")
    with pytest.raises(UnclaimedNodesError, match="and giver has 0 of 4 nodes"):
        sk.InferenceSession(parsed(HEAVY), one, require={"giver": 0.5}, **settings)


def test_a_bundle_is_held_against_what_is_required(tmp_path, caplog):
    with sk.InferenceSession(parsed(HEAVY), "numpy") as session:
        session.export(tmp_path / "bundle")
    sk.InferenceSession(tmp_path / "bundle", require={"numpy": 1.0}).close()
    with pytest.raises(UnclaimedNodesError, match="and other has 0 of 4 nodes"):
        sk.InferenceSession(tmp_path / "bundle", require={"other": 0.5})
    assert caplog.records == []


def test_a_session_that_is_built_in_the_background_says_it_when_it_is_built(caplog):
    one = claiming(["Relu", "Neg", "Abs"], "half")
    with sk.InferenceSession(parsed(DIAMOND), ["numpy", one], build="background") as session:
        assert session.wait(60)
    assert caplog.records == []
    with sk.InferenceSession(parsed(DIAMOND), [one], build="background") as session:
        assert session.wait(60)
        assert "half" in {step.subgraph.backend for step in session.plan.steps}
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith("half has 3 of 4 nodes (75.0% of FLOPs), numpy 1 (25.0%). Main reason")
    with pytest.raises(UnclaimedNodesError, match="required of 'half'"):
        sk.InferenceSession(parsed(DIAMOND), [one], build="background", require={"half": 0.9})


class Listener:
    """Keeps the events of level ``partition``."""

    def __init__(self):
        self.events: list[FallbackEvent] = []

    @hookimpl
    def subgraphkit_fallback(self, event):
        if event.level == "partition":
            self.events.append(event)


def test_extensions_are_told_and_a_road_of_steps_tells_once(caplog):
    with extended(Listener()) as listener, registered(closed):
        partitioning = sk.partition(sk.bind(sk.load(parsed(OPEN)), backend="closed,numpy"))
        assert (listener.events, caplog.records) == ([], [])
        sk.compile_subgraphs(partitioning).close()
    (event,) = listener.events
    assert (event.backend, event.target, event.code) == ("closed", "numpy", "dynamic_shape")
    assert (event.reason, event.node_count) == ("dimension 'batch' is open", 5)
    assert len(caplog.records) == 1


def rows(report):
    return [" ".join(line.split()) for line in report.splitlines()]


def test_a_report_groups_refusals_by_root_cause():
    partitioning = sk.partition(sk.bind(sk.load(parsed(OPEN)), backend=closed))
    report = rows(partitioning.report(details=True))
    said = "closed 5 100 Abs, MatMul and 3 more dynamic_shape dimension 'batch' is open"
    assert said in report
    assert "give the sizes, such as --symbol batch=1" in partitioning.report()


def test_shapes_that_are_computed_from_open_ones_have_the_same_root():
    model = """
    computed (float[batch, length, 8] x) => (float[n, m] y) {
      s = Shape(x)
      i = Constant<value_ints = [0]>()
      j = Constant<value_ints = [-1]>()
      b = Gather(s, i)
      t = Concat<axis = 0>(b, j)
      y = Reshape(x, t)
    }
    """

    class Fixed(Closed):
        def select(self, node):
            if node.op_type == "Reshape" and node.constant(1) is None:
                return Refusal("not_constant", f"input {node.inputs[1]!r} is not constant")
            return super().select(node)

    bound = sk.bind(sk.load(parsed(model)), backend=claiming(lambda _: Fixed(), "fixed"))
    report = rows(sk.partition(bound).report(details=True))
    (row,) = [one for one in report if "dynamic_shape" in one]
    assert "dimensions 'batch', 'length' are open" in row


def test_what_nobody_reads_is_not_listed_as_work():
    model = parsed(HEAVY)
    del model.graph.output[1]
    one = claiming(["MatMul", "Relu"], "most")
    partitioning = sk.partition(sk.bind(sk.load(model), backend=one, fold=False))
    report = partitioning.report(details=True)
    assert "Not run, because nothing reads it: 1 node." in report
    assert "numpy_3" not in report
    assert "Neg" not in report
    assert partitioning.shortfall() is None
    assert partitioning.quality.nodes == 3
