"""A backend held against a reference, whole and subgraph by subgraph."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.comparing import verify
from subgraphkit.errors import BackendNotFoundError
from subgraphkit.viewing import Drawing, Table, Text
from tests.fakes import ReferenceOperator, changing, claiming, failing
from tests.models import CHAIN as SILENT
from tests.models import DIAMOND, parsed

X = np.array([[1, -2, 3, -4], [-5, 6, -7, 8]], np.float32)

CHAIN = SILENT.replace("Relu", "Abs")
LATE_SILENCE = "g (float[N, 4] x) => (float[N, 4] y) { a = Exp(x)  b = Neg(a)  y = Relu(b) }"

TWICE = """
twice (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {
  a = Exp(x)
  b = Abs(a)
  c = Exp(b)
  d = Abs(c)
  y = Exp(d)
  z = Neg(b)
}
"""


class _OffByOne(ReferenceOperator):
    """Adds one to what the second of the subgraphs with Exp hands out."""

    def run(self, inputs, outputs=None):
        added = "c" in self.subgraph.outputs
        return [result + np.float32(added) for result in super().run(inputs)]


class _Writing(ReferenceOperator):
    """Writes to its inputs, which no operator may."""

    def run(self, inputs, outputs=None):
        inputs[0][:] = 0
        return super().run(inputs)


_Failing = failing(ValueError, "out of luck")
_Doubling = changing(lambda result: result.astype(np.float64))
"""Returns another dtype than declared."""


def _verified(text, backend, feeds=None, **settings):
    return verify(parsed(text), feeds or {"x": X / 8}, [backend, "numpy"], **settings)


def test_inputs_are_made_up_where_none_are_given():
    assert sk.verify(parsed("g (float[2] x) => (float[2] y) {y = Neg(x)}"), backend="numpy").agrees


def test_a_right_backend_agrees():
    found = _verified(CHAIN, claiming(["Abs"], "right"), per_subgraph=True)
    assert found.agrees
    assert (found.backend, found.reference) == ("right,numpy", "numpy")
    assert found.nodes == {"right": 2, "numpy": 1}
    assert [one.name for one in found.outputs] == ["y"]
    assert found.subgraphs is not None
    assert [(one.subgraph, one.agrees) for one in found.subgraphs] == [
        ("right_0", True),
        ("numpy_1", True),
        ("right_2", True),
    ]


def test_a_wrong_backend_is_found_by_its_outputs_alone():
    found = _verified(TWICE, claiming(["Exp"], "wrong", make=_OffByOne))
    assert not found.agrees
    assert found.subgraphs is None
    assert {one.name: one.agrees for one in found.outputs} == {"y": False, "z": True}


def test_only_the_subgraph_at_fault_is_named_and_not_those_it_fed():
    found = _verified(TWICE, claiming(["Exp"], "wrong", make=_OffByOne), per_subgraph=True)
    assert [one.subgraph for one in found.at_fault] == ["wrong_2"]
    (fault,) = found.at_fault
    assert (fault.backend, fault.nodes, fault.first) == ("wrong", 1, "#2 Exp")
    assert [one.name for one in fault.differences] == ["c"]
    assert fault.differences[0].max_abs == pytest.approx(1)


def test_a_subgraph_that_fails_is_a_finding_and_the_others_are_still_checked():
    found = _verified(CHAIN, claiming(["Neg"], "failing", make=_Failing), per_subgraph=True)
    assert not found.agrees
    assert "[SGK131]" in found.error
    assert found.outputs == ()
    assert [(one.subgraph, one.error) for one in found.at_fault] == [
        ("failing_1", "ValueError: out of luck")
    ]


def test_an_operator_that_writes_to_its_inputs_is_at_fault_and_spoils_nothing():
    found = _verified(
        DIAMOND, claiming(["Neg"], "writing", make=_Writing), {"x": X[:, :3]}, per_subgraph=True
    )
    assert [one.subgraph for one in found.at_fault] == ["writing_1"]
    assert "read-only" in found.at_fault[0].error


def test_another_dtype_than_declared_is_told_and_does_not_end_the_comparison():
    found = _verified(CHAIN, claiming(["Abs"], "double", make=_Doubling), per_subgraph=True)
    assert [one.problem for one in found.outputs] == ["dtype float64, expected float32"]
    assert [one.subgraph for one in found.at_fault] == ["double_0", "double_2"]


def test_a_failure_is_not_hidden_by_moving_to_the_fallback():
    backend = claiming(["Neg"], "failing", make=_Failing)
    with sk.config(on_run_error="fallback"):
        assert not _verified(CHAIN, backend).agrees


def test_a_backend_that_took_nothing_is_called_idle():
    found = _verified(CHAIN, claiming(["Conv"], "lazy"))
    assert found.agrees
    assert found.idle == ("lazy",)
    assert verify(parsed(CHAIN), {"x": X}, "numpy").idle == ()


def test_a_backend_that_does_not_exist_raises():
    with pytest.raises(BackendNotFoundError, match="SGK102"):
        verify(parsed(CHAIN), {"x": X}, "no_such_backend")


def test_strings_sequences_optionals_and_integers_cross_between_subgraphs():
    text = """
    kinds (float[4] x, int64[4] n, string[2] s) =>
      (float[8] y, int64[4] m, string[2] t, optional(float[4]) o, seq(float[4]) q)
    {
      q = SequenceConstruct(x, x)
      y = ConcatFromSequence <axis = 0> (q)
      m = Neg(n)
      u = Identity(s)
      t = Identity(u)
      o = Optional(x)
    }
    """
    feeds = {"x": X[0], "n": np.arange(4), "s": np.array(["a", "b"], object)}
    backend = claiming(["ConcatFromSequence", "Neg"], "part")
    found = _verified(text, backend, feeds, per_subgraph=True)
    assert found.agrees, found
    assert [one.name for one in found.outputs] == ["y", "m", "t", "o", "q[0]", "q[1]"]
    assert found.nodes["part"] == 2


def test_inputs_with_a_default_and_values_that_are_in_and_out_are_known_to_the_subgraphs():
    model = parsed(
        "g (float[4] x, float[4] w) => (float[4] y, float[4] x2, float[4] a) {"
        " a = Add(x, w)  y = Neg(a)  x2 = Relu(x) }"
    )
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[4])
    tensor.float_data.extend([1, 2, 3, 4])
    backend = claiming(["Neg", "Add"], "part")
    for feeds in ({"x": X[0]}, {"x": X[0], "w": X[1]}):
        found = verify(model, feeds, [backend, "numpy"], per_subgraph=True)
        assert found.agrees, found


def test_a_subgraph_that_hands_out_too_little_is_at_fault():
    class Short(ReferenceOperator):
        def run(self, inputs, outputs=None):
            return list(super().run(inputs))[:1]

    text = "g (float[4] x) => (float[4] y, float[4] z) { y = Neg(x)  z = Neg(y) }"
    found = _verified(text, claiming(["Neg"], "short", make=Short), {"x": X[0]}, per_subgraph=True)
    assert "[SGK132]" in found.error
    assert found.at_fault[0].error == "returned 1 values, expected 2"


def test_the_page_shows_who_is_at_fault_and_who_only_inherits():
    found = _verified(TWICE, claiming(["Exp"], "wrong", make=_OffByOne), per_subgraph=True)
    text, facts, outputs, drawing, subgraphs = found.sections()
    assert isinstance(text, Text)
    assert text.text.startswith("\N{BALLOT X} At fault, on right inputs: wrong_2")
    assert isinstance(facts, Table)
    assert ("under test", "wrong,numpy") in facts.rows
    assert isinstance(outputs, Table)
    assert [row[:2] for row in outputs.rows] == [("y", "FAIL"), ("z", "ok")]
    assert isinstance(drawing, Drawing)
    assert {box.key: (box.marked, box.note) for box in drawing.boxes}["wrong_2"] == (
        True,
        "at fault",
    )
    inherits = [box.key for box in drawing.boxes if box.note == "right, but fed wrong values"]
    assert inherits == ["numpy_3", "wrong_4"]
    assert isinstance(subgraphs, Table)
    assert subgraphs.title == drawing.opens
    assert {len(row) for row in subgraphs.rows} == {len(subgraphs.columns)}
    assert "wrong_2" in found.to_html()
    assert repr(found).startswith("Verification('")
    assert "At fault, on right inputs: wrong_2" in repr(found)
    notebook = found._repr_html_()
    assert "wrong_2" in notebook
    assert "<script" not in notebook
    failing = _verified(CHAIN, claiming(["Neg"], "failing", make=_Failing), per_subgraph=True)
    assert "out of luck" in failing.to_html()


def test_agreeing_on_what_any_backend_would_get_right_means_nothing_and_is_no_agreement():
    with pytest.warns(sk.errors.SubgraphkitWarning, match=r"SGK323.*'y': every element is 0"):
        found = _verified(SILENT, claiming(["Relu"], "right"))
    assert (found.outcome, found.agrees) == ("means nothing", False)
    (output,) = found.outputs
    assert (output.agrees, output.rms, output.low, output.high) == (True, 0, 0, 0)


def test_an_output_that_means_nothing_beside_one_that_does_is_a_warning():
    text = "g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) { y = Abs(x)  z = Sub(x, x) }"
    with pytest.warns(sk.errors.SubgraphkitWarning, match="the others do agree: 'z'"):
        assert _verified(text, claiming(["Abs"], "right")).outcome == "agrees"


def test_silent_outputs_are_no_alarm_where_a_subgraph_before_them_was_verified():
    with pytest.warns(sk.errors.SubgraphkitWarning, match="the others do agree: 'y'"):
        found = _verified(LATE_SILENCE, claiming(["Exp"], "right"), per_subgraph=True)
    assert found.outcome == "agrees"
    with pytest.warns(sk.errors.SubgraphkitWarning, match="nothing was verified"):
        found = _verified(LATE_SILENCE, claiming(["Exp"], "right"))
    assert found.outcome == "means nothing"
