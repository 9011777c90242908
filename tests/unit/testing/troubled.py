"""A backend that takes down whole processes, in each way, by the operators of what it runs."""

import os
import signal
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from subgraphkit.testing import Outcome, Subject
from subgraphkit.testing.cases import Stopped
from tests.faulty.wrapping import WrappedOperator, WrappingBackend

HARMED: list[bool] = []
PIECE = 32 << 20


def stop(subject: Subject) -> None:
    raise Stopped(Outcome.UNCLAIMED, f"{subject.installed} takes nothing here", ("Relu",))


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hang() -> None:
    time.sleep(3600.0)


def harm_those_after_it() -> None:
    HARMED.append(True)


def crash_if_harmed() -> None:
    if HARMED:
        os.abort()


def eat() -> None:
    eaten = []
    while True:
        eaten.append(b"x" * PIECE)
        time.sleep(0.01)


TROUBLES = {
    frozenset({"Relu", "Sigmoid", "Tanh"}): crash,
    frozenset({"Relu", "Tanh", "Add"}): harm_those_after_it,
    frozenset({"Relu", "Sigmoid", "Add"}): crash_if_harmed,
    frozenset({"Add"}): hang,
    frozenset({"Relu", "Sigmoid"}): eat,
}


class _Operator(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        of_all = frozenset(node.op_type for node in self.subgraph.members)
        TROUBLES.get(of_all, lambda: None)()
        return super().run(inputs, outputs)


class Troubled(WrappingBackend):
    """Goes down in each way."""

    operator_class: ClassVar[type[WrappedOperator]] = _Operator
