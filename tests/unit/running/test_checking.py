"""Arrays are the caller's: an operator gets them to read, and returns arrays of its own."""

from typing import Any, ClassVar

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import ExecutionError
from subgraphkit.finding.registry import registered
from tests.faulty import ComputesInPlace, ReturnsInput, ReturnsOwnBuffer, WritesInputs
from tests.faulty.wrapping import WrappedOperator, WrappingBackend
from tests.models import parsed

TWO = parsed("g (float[4] x) => (float[4] y, float[4] z) { y = Relu(x) z = Abs(y) }")
RELU = parsed("g (float[4] x) => (float[4] y) { y = Relu(x) }")
X = np.ones(4, np.float32)


class _ViewsOfOne(WrappedOperator):
    def run(self, inputs, outputs=None):
        results = super().run(inputs)
        return [results[0], results[0][:]]


class ReturnsOneTwice(WrappingBackend):
    """Computes once what is asked for twice."""

    operator_class: ClassVar[type[WrappedOperator]] = _ViewsOfOne


class _ViewsOfScratch(WrappedOperator):
    scratch: Any = None

    def run(self, inputs, outputs=None):
        if self.scratch is None:
            self.scratch = np.empty((2, 4), np.float32)
        self.scratch[:] = super().run(inputs)[0]
        return [self.scratch[0]]


class ReturnsScratch(WrappingBackend):
    """Returns a view of what its next run overwrites."""

    operator_class: ClassVar[type[WrappedOperator]] = _ViewsOfScratch


def opened(backend, model=RELU, **settings):
    with registered(backend):
        return sk.InferenceSession(model, backend="faulty,numpy", **settings)


@pytest.mark.parametrize("checked", [True, False])
def test_who_writes_to_an_input_fails_and_leaves_it_as_it_was(*, checked):
    x = X.copy()
    with (
        opened(ComputesInPlace, checked=checked) as session,
        pytest.raises(ExecutionError, match=r"SGK131.*read-only"),
    ):
        session.run(None, {"x": x})
    assert (x == X).all()
    assert x.flags.writeable


@pytest.mark.parametrize(("backend", "model", "what"), [
    (ReturnsInput, RELU, "its input 'x'"),
    (ReturnsOneTwice, TWO, "its output 'y'"),
    (ReturnsScratch, RELU, "what it returned in an earlier run"),
    (ReturnsOwnBuffer, RELU, "what it returned in an earlier run"),
])  # fmt: skip
def test_what_is_returned_in_memory_of_others_is_refused(backend, model, what):
    with opened(backend, model) as session:
        kept: list[Any] = []
        with pytest.raises(ExecutionError, match="SGK149") as caught:
            kept.extend(session.run(None, {"x": X}) for _ in range(2))
        assert what in caught.value.message
    with opened(backend, model, checked=False) as session:
        session.run(None, {"x": X})


def test_results_that_nobody_holds_any_more_may_be_made_again_where_they_were():
    with opened(ReturnsScratch) as session:
        for value in (1.0, 2.0):
            (y,) = session.run(None, {"x": X * np.float32(value)})
            assert (y == value).all()
            del y


def test_an_operator_that_minds_memory_gets_the_arrays_themselves():
    # Which is why the kit looks at what it says: this one does not.
    x = X.copy()
    with opened(WritesInputs) as session:
        session.run(None, {"x": x})
    assert not x.any()
