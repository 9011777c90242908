"""Faults of an operator's results, and of its use of memory."""
# ruff: noqa: ARG002 (they take what the contract gives them)

import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from subgraphkit.testing.faulty.wrapping import WrappedOperator, WrappingBackend

__all__ = [
    "AbortsInRun",
    "CachesFirstResult",
    "ComputesInPlace",
    "ComputesThroughDouble",
    "ExitsInRun",
    "ForgetsWeights",
    "IgnoresStrides",
    "NotReallyThreadSafe",
    "OutputsReversed",
    "OutputsTooFew",
    "RaisesInRun",
    "ReturnsInput",
    "ReturnsOwnBuffer",
    "SleepsInRun",
    "SwallowsInterrupts",
    "WeightsOnlyInWord",
    "WritesInputs",
    "WrongDtype",
    "WrongShape",
    "WrongValue",
]


class _Raising(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        raise RuntimeError("device lost")


class RaisesInRun(WrappingBackend):
    """Raises when it is run."""

    operator_class: ClassVar[type[WrappedOperator]] = _Raising


class _Exiting(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        sys.exit("licence expired")


class ExitsInRun(WrappingBackend):
    """Leaves when it is run."""

    operator_class: ClassVar[type[WrappedOperator]] = _Exiting


class _Aborting(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        os.abort()


class AbortsInRun(WrappingBackend):
    """Takes the process down when it is run."""

    operator_class: ClassVar[type[WrappedOperator]] = _Aborting


class _Sleeping(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        while True:
            time.sleep(3600.0)


class SleepsInRun(WrappingBackend):
    """Never returns."""

    operator_class: ClassVar[type[WrappedOperator]] = _Sleeping


class _OtherDtype(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return [np.asarray(one).astype(np.float64) for one in super().run(inputs)]


class WrongDtype(WrappingBackend):
    """Computes in double precision and leaves it at that."""

    operator_class: ClassVar[type[WrappedOperator]] = _OtherDtype


class _Narrow(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        rounded = [
            one.astype(np.float64).astype(one.dtype) if one.dtype == np.int64 else one
            for one in map(np.asarray, inputs)
        ]
        return super().run(rounded)


class ComputesThroughDouble(WrappingBackend):
    """Turns int64 into double on the way."""

    operator_class: ClassVar[type[WrappedOperator]] = _Narrow


class _OtherShape(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return [np.expand_dims(one, 0) for one in super().run(inputs)]


class WrongShape(WrappingBackend):
    """Adds an axis."""

    operator_class: ClassVar[type[WrappedOperator]] = _OtherShape


class _OtherValue(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return [np.asarray(one + 1, one.dtype) for one in super().run(inputs)]


class WrongValue(WrappingBackend):
    """Is off by one."""

    operator_class: ClassVar[type[WrappedOperator]] = _OtherValue


class _Reversed(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return list(super().run(inputs))[::-1]


class OutputsReversed(WrappingBackend):
    """Returns its outputs in the wrong order."""

    operator_class: ClassVar[type[WrappedOperator]] = _Reversed


class _TooFew(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return list(super().run(inputs))[:-1]


class OutputsTooFew(WrappingBackend):
    """Forgets its last output."""

    operator_class: ClassVar[type[WrappedOperator]] = _TooFew


class _ReturningInput(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return [
            next((have for have in inputs if np.array_equal(have, one)), one)
            for one in super().run(inputs)
        ]


class ReturnsInput(WrappingBackend):
    """Spares a copy where nothing was to be done."""

    operator_class: ClassVar[type[WrappedOperator]] = _ReturningInput


class _Buffered(WrappedOperator):
    buffers: list[Any] | None = None

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        results = super().run(inputs)
        if self.buffers is None:
            self.buffers = [np.array(one) for one in results]
        for buffer, one in zip(self.buffers, results, strict=True):
            buffer[...] = one
        return self.buffers


class ReturnsOwnBuffer(WrappingBackend):
    """Hands out one buffer, run after run."""

    operator_class: ClassVar[type[WrappedOperator]] = _Buffered


class _Writing(WrappedOperator):
    minds_memory = True

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        results = super().run(inputs)
        for one in inputs:
            if isinstance(one, np.ndarray) and one.flags.writeable:
                one[...] = 0
        return results


class WritesInputs(WrappingBackend):
    """Uses its inputs for scratch, and says that it does not."""

    operator_class: ClassVar[type[WrappedOperator]] = _Writing


class _InPlace(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        results = super().run(inputs)
        np.negative(inputs[0], out=inputs[0])
        return results


class ComputesInPlace(WrappingBackend):
    """Spares an array, and asks nobody whether its input is one to write to."""

    operator_class: ClassVar[type[WrappedOperator]] = _InPlace


class _Strideless(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        plain = [
            np.lib.stride_tricks.as_strided(one, one.shape, np.empty(one.shape, one.dtype).strides)
            for one in inputs
        ]
        return super().run(plain)


class IgnoresStrides(WrappingBackend):
    """Reads every array as if it lay in one piece."""

    operator_class: ClassVar[type[WrappedOperator]] = _Strideless


class _Caching(WrappedOperator):
    first: list[Any] | None = None

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        if self.first is None:
            self.first = list(super().run(inputs))
        return [np.array(one) for one in self.first]


class CachesFirstResult(WrappingBackend):
    """Returns what it computed first, for ever."""

    operator_class: ClassVar[type[WrappedOperator]] = _Caching


class _Unguarded(WrappedOperator):
    thread_safe: ClassVar[bool] = True
    staged: Sequence[Any] = ()

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        self.staged = list(inputs)
        time.sleep(0.002)  # as long as a copy to a device takes
        return super().run(self.staged)


class NotReallyThreadSafe(WrappingBackend):
    """Says that threads may share it, and stages their inputs in one place."""

    operator_class: ClassVar[type[WrappedOperator]] = _Unguarded


class _Swallowing(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        with contextlib.suppress(BaseException):
            time.sleep(0.5)
        return super().run(inputs)


class SwallowsInterrupts(WrappingBackend):
    """Takes Ctrl-C for one of its own errors and goes on."""

    operator_class: ClassVar[type[WrappedOperator]] = _Swallowing


class _WeightsKept(WrappedOperator):
    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        return True


class WeightsOnlyInWord(WrappingBackend):
    """Says that it has taken new weights."""

    operator_class: ClassVar[type[WrappedOperator]] = _WeightsKept


class _FirstWeightOnly(WrappedOperator):
    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        return super().update_weights(dict(list(changed.items())[:1]))


class ForgetsWeights(WrappingBackend):
    """Takes the first of several new weights."""

    operator_class: ClassVar[type[WrappedOperator]] = _FirstWeightOnly
