"""Several libraries in one session: what they hand over, and what they compute together.

Of the backends in ``MIX`` those take part that are installed; numpy takes what they refuse.
"""

import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Traits
from subgraphkit.comparing import compare_values
from subgraphkit.partitioning import Constraints
from subgraphkit.testing import light_models as light
from tests.fakes import claiming
from tests.models import parsed

MIX = ("onednn", "openvino", "onnxruntime", "numpy")
MODELS = list(dict.fromkeys(("squeezenet", "shufflenet", *light.LIGHT_MODELS)))
"""The quick ones first; how many are run is an option."""

NODES_IN_A_ROW = 5
SMALL = 1 << 15
"""Bytes; below that a copy costs less than to avoid it."""


class _Recorded(sk.SubgraphOperator):
    """Keeps what it was given and what it gave."""

    traits = Traits(minds_memory=True)

    def __init__(self, inner):
        self.inner = inner
        self.given: Sequence[Any] = ()
        self.gave: Sequence[Any] = ()

    def run(self, inputs, outputs=None):
        self.given = list(inputs)
        self.gave = list(self.inner.run(inputs, outputs))
        return self.gave

    def close(self):
        self.inner.close()


def _recorded(plan):
    recorded = [_Recorded(step.operator) for step in plan.steps]
    for index, operator in enumerate(recorded):
        plan = plan.with_operator(index, operator)
    return plan, recorded


def _check_nothing_is_copied(plan, recorded):
    """Check that every reader got the very object its maker returned; return how many did."""
    made: dict[str, Any] = {}
    handed_over = 0
    for step, operator in zip(plan.steps, recorded, strict=True):
        for name, value in zip(step.subgraph.inputs, operator.given, strict=True):
            if name in made:
                assert value is made[name], f"{name} was copied on its way to {step.subgraph.id}"
                handed_over += 1
        made |= dict(zip(step.subgraph.outputs, operator.gave, strict=True))
    return handed_over


def _mix():
    installed = {record.name for record in sk.list_backends()}
    present = [name for name in MIX if name in installed]
    if len(present) < 3:
        missing = ", ".join(name for name in MIX if name not in installed)
        pytest.skip(f"nothing to mix, for these backends are not installed: {missing}")
    return present


def _dealt_out(model, backends):
    """Make a session in which the backends take turns along the model, a few nodes each."""

    def is_for_others(place):
        return lambda node: node.id // NODES_IN_A_ROW % len(backends) != place

    bound = sk.bind(sk.load(model), backend=",".join(backends))
    # what numpy is dealt only numpy may take; what others are dealt and refuse, numpy takes
    exclusions = {name: is_for_others(place) for place, name in enumerate(backends[:-1])}
    partitioning = sk.partition(bound, constraints=Constraints(exclusions=exclusions))
    return sk.Session(sk.plan(partitioning, sk.compile_subgraphs(partitioning)))


def test_what_one_operator_returns_is_the_very_object_the_next_receives():
    text = """
    g (float[4] x, seq(float[4]) q) => (float[4] y, float[8] z) {
      a = Neg(x)  b = Abs(a)  c = Exp(a)  d = Add(b, c)  y = Neg(d)
      e = SequenceInsert(q, d)  z = ConcatFromSequence <axis = 0> (e)
    }
    """
    backends = [claiming(["Neg"], "one"), claiming(["Abs", "Add"], "two"), "numpy"]
    partitioning = sk.partition(sk.bind(sk.load(parsed(text)), backend=backends))
    plan, recorded = _recorded(sk.plan(partitioning, sk.compile_subgraphs(partitioning)))
    x = np.arange(4, dtype=np.float32)
    with sk.Session(plan) as session:
        y, _ = session.run(None, {"x": x, "q": [x]})
    assert {step.subgraph.backend for step in plan.steps} == {"one", "two", "numpy"}
    assert _check_nothing_is_copied(plan, recorded) >= 4
    assert recorded[0].given[0] is x
    assert any(value is y for operator in recorded for value in operator.gave)


def test_libraries_hand_their_arrays_over_without_copies():
    backends = _mix()
    model = light.seeded_model("squeezenet")
    with _dealt_out(model, backends) as mixed:
        plan, recorded = _recorded(mixed.plan)
        taken = {step.subgraph.backend for step in plan.steps}
        assert taken == set(backends)
        with sk.Session(plan) as session:
            session.run(None, light.seeded_feeds(model))
        assert _check_nothing_is_copied(plan, recorded) >= len(plan.steps) - 1
        for step, operator in zip(plan.steps, recorded, strict=True):
            if step.subgraph.backend != "numpy":
                assert _unaligned(operator.gave) == [], f"TVM would copy what {step} hands over"


def _unaligned(arrays):
    """Return the addresses of large arrays that are no multiples of 64."""
    addresses = [array.ctypes.data for array in arrays if array.nbytes > SMALL]
    return [address for address in addresses if address % 64]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_on_a_mixture_agrees_with_numpy_alone(name, pytestconfig):
    if MODELS.index(name) >= pytestconfig.getoption("--mixed-models"):
        pytest.skip("a long check: --mixed-models 9")
    backends = _mix()
    model = light.seeded_model(name)
    feeds = light.seeded_feeds(model, seed=3)
    with sk.InferenceSession(model, backend="numpy") as session:
        (expected,) = session.run(None, feeds)
    # as a user would write it, the first taking what it likes; and dealt out, so that all take part
    with sk.InferenceSession(model, backend=",".join(backends)) as session:
        (got,) = session.run(None, feeds)
    assert compare_values("listed", got, expected)[0].agrees
    with _dealt_out(model, backends) as session:
        (got,) = session.run(None, feeds)
    assert compare_values("dealt out", got, expected)[0].agrees


@pytest.mark.parametrize("name", [*MIX, "tvm"])
def test_a_backend_reads_what_it_is_handed_where_it_lies(name):
    model = parsed(
        "g (float[1, 64, 256, 256] x) => (float[1, 64, 1, 1] y) { y = GlobalAveragePool(x) }"
    )
    size = 64 * 256 * 256
    room = np.zeros(size + 16, np.float32)
    x = room[-room.ctypes.data // 4 % 16 :][:size].reshape(1, 64, 256, 256)  # at 64 bytes, for TVM
    with sk.InferenceSession(model, backend=f"{name}?") as session:
        (subgraph,) = session.partitioning.subgraphs
        if subgraph.backend != name:
            pytest.skip(f"backend {name!r} is not installed")
        session.run(None, {"x": x})
        tracemalloc.start()
        try:
            session.run(None, {"x": x})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < x.nbytes / 8, "the input was copied"
