"""Operators of one device hand arrays to one another; all others get them on the host."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import (
    ON_DEVICE,
    Backend,
    BindContext,
    OpSelector,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.ir import BoundGraph, Subgraph
from subgraphkit.testing.small_models import model_of

X = np.array([-1, 2], np.float32)


class Remote:
    """An array that only operators of the device can read."""

    __cuda_array_interface__: ClassVar[Any] = {"version": 3}

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape


class RemoteOperator(SubgraphOperator):
    """Runs nodes one by one, and leaves on its device what it is told to."""

    device = "fake:0"
    thread_safe = True

    def __init__(self, inner: SubgraphOperator, log: list[Any]) -> None:
        self._inner = inner
        self._log = log

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        self._log.append(([type(one).__name__ for one in inputs], outputs))
        read = [one.array if isinstance(one, Remote) else one for one in inputs]
        results = self._inner.run(read)
        if outputs is None:
            return results
        return [
            Remote(result) if wanted is ON_DEVICE else result
            for result, wanted in zip(results, outputs, strict=True)
        ]


class RemoteProperty(SubgraphProperty):
    """Takes each node on its own."""

    max_nodes = 1

    def __init__(self, log: list[Any]) -> None:
        self._log = log

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        return OpSelector(graph, ["Relu", "Neg", "Abs"])

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        return RemoteOperator(context.fallback(subgraph), self._log)


class RemoteBackend(Backend):
    """Has a device of its own."""

    name = "remote"

    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self._log = log

    def properties(self) -> Sequence[SubgraphProperty]:
        return (RemoteProperty(self._log),)


def ran(body: str, fed: Any, **settings: Any) -> tuple[list[Any], list[Any]]:
    """Run a model and return its outputs and what the operators were called with."""
    log: list[Any] = []
    backends = [RemoteBackend(log), "numpy"]
    with sk.InferenceSession(model_of(body), backend=backends, **settings) as session:
        return session.run(None, {"x": fed}), log


@pytest.mark.parametrize("checked", [True, False])
def test_a_value_that_only_the_device_reads_stays_there(*, checked: bool) -> None:
    body = "agraph (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Abs(b) }"
    (y,), log = ran(body, X, checked=checked)
    assert y.tolist() == [0, 2]
    assert log == [
        (["ndarray"], (ON_DEVICE,)),
        (["Remote"], (ON_DEVICE,)),
        (["Remote"], None),
    ]


def test_a_value_that_another_backend_reads_comes_to_the_host() -> None:
    body = "agraph (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Add(a, b) }"
    (y,), log = ran(body, X)
    assert y.tolist() == [0, 0]
    assert log == [(["ndarray"], None), (["ndarray"], None)]


def test_an_output_of_the_model_comes_to_the_host() -> None:
    body = "agraph (float[2] x) => (float[2] a, float[2] y) { a = Relu(x) y = Neg(a) }"
    (a, y), log = ran(body, X)
    assert (a.tolist(), y.tolist()) == ([0, 2], [0, -2])
    assert [given for given, _ in log] == [["ndarray"], ["ndarray"]]


def test_an_array_on_the_device_may_be_fed_if_only_the_device_reads_it() -> None:
    (y,), log = ran("agraph (float[2] x) => (float[2] y) { y = Neg(x) }", Remote(X))
    assert y.tolist() == [1, -2]
    assert log == [(["Remote"], None)]


def test_an_array_on_the_device_that_others_read_is_refused() -> None:
    body = "agraph (float[2] x) => (float[2] y) { a = Neg(x) y = Add(a, x) }"
    with pytest.raises(sk.errors.InputError, match="SGK145"):
        ran(body, Remote(X))
