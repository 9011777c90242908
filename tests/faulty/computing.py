"""The table of faults in what is computed, whichever operator it is, and in arrays of others.

Functions stand for methods here, and are given what the contract gives those.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Traits
from subgraphkit.testing.cases import Outcome
from tests.faulty import spoiling as by
from tests.faulty.wrapping import Fault, Run, WrappedOperator, results

_TURNS: Final = itertools.count()
_FOR_EVER: Final = 1e6
_CONTRACT: Final = Outcome.FAIL_CONTRACT
_ALIAS: Final = Outcome.FAIL_ALIAS
_RUN: Final = Outcome.FAIL_RUN
_SAFE: Final = {"traits": Traits(thread_safe=True)}
_ONE: Final = "L2/one_node"


def _through_double(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    narrowed = by.through("int64", "float64")
    rounded = [narrowed(one) for one in map(np.asarray, inputs)]
    return right([one if new is None else new for one, new in zip(inputs, rounded, strict=True)])


def _spared_copy(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    return [next((it for it in inputs if np.array_equal(it, one)), one) for one in right(inputs)]


def _own_buffer(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    buffers: list[Any] = operator.state.setdefault("buffers", made)
    for buffer, one in zip(buffers, made, strict=True):
        buffer[...] = one
    return buffers


def _inputs_for_scratch(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    for one in inputs:
        if isinstance(one, np.ndarray) and one.flags.writeable:
            one[...] = 0
    return made


def _in_place(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    np.negative(inputs[0], out=inputs[0])
    return made


def _in_one_piece(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    strided = np.lib.stride_tricks.as_strided
    plain = [strided(one, one.shape, np.empty(one.shape, one.dtype).strides) for one in inputs]
    return right(plain)


def _rows_first(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    lying = [one.ndim > 1 and one.flags.f_contiguous and one.size > 1 for one in inputs]
    return right(
        [
            one.ravel("K").reshape(one.shape) if is_lying else one
            for one, is_lying in zip(inputs, lying, strict=True)
        ]
    )


def _one_for_two(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    places = [one.__array_interface__["data"] for one in inputs if one.size]
    if len(set(places)) < len(places):
        made = [by.spoil(one) for one in made]
    return made


def _second_of_two(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    number = operator.state.setdefault("number", next(_TURNS))
    return right(inputs) if number % 2 == 0 else [by.spoil(one) for one in right(inputs)]


def _stale_after_failure(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    has_failed = operator.state.pop("failed", False)
    try:
        made = right(inputs)
    except Exception:
        operator.state["failed"] = True
        raise
    return [by.spoil(one) for one in made] if has_failed else made


def _staged_in_one_place(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    operator.state["staged"] = inputs
    time.sleep(0.002)  # as long as a copy to a device takes
    return right(operator.state["staged"])


def _swallowing(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    with contextlib.suppress(BaseException):
        time.sleep(0.5)
    return right(inputs)


# fmt: off
COMPUTATIONS: Final[Mapping[str, Fault]] = {
    "CachesFirstResult": Fault("Returns what it computed first, for ever.", "",
        "L1/operator/repeated_runs", by.kept(lambda fed: 0)),
    "ComputesInPlace": Fault(
        "Spares an array, and asks nobody whether its input is one to write to.", "",
        "L1/operator/inputs_left_alone", _in_place, _ALIAS),
    "IgnoresStrides": Fault("Reads every array as if it lay in one piece.", "",
        "L1/operator/strided_inputs", _in_one_piece),
    "TakesColumnsForRows": Fault(
        "Reads an array that lies column by column as if it lay row by row.", "MatMul",
        "L5/operators/products", _rows_first),
    "OneArrayForTwo": Fault("Is wrong where one array is fed for two inputs.", "Add Mul",
        "L5/operators/arithmetic", _one_for_two),
    "GrowsFromOne": Fault("Repeats the first element if there were one and are two.", "Sub",
        "L5/sizes/open/arithmetic", by.later(by.grown_from_one)),
    "SecondOfTwo": Fault("Computes right in every other operator that a process has made.",
        "Sigmoid", "L5/operators/curves", _second_of_two),
    "StaleAfterFailure": Fault("Is wrong in the run after one that failed.", "Gather",
        "L5/errors/travel", _stale_after_failure),
    "ReturnsOwnBuffer": Fault("Hands out one buffer, run after run.", "",
        "L1/operator/results_are_given_away", _own_buffer, _ALIAS),
    "WeightsOnlyInWord": Fault("Says that it has taken new weights.", "", "L1/operator/new_weights",
        operator={"update_weights": lambda self, changed: True}),
    "ForgetsWeights": Fault(
        "Takes the first of several new weights.", "", "L1/operator/new_weights",
        operator={"update_weights": lambda self, changed:
                  self.inner.update_weights(dict(list(changed.items())[:1])) or True}),
    "RaisesInRun": Fault(
        "Raises when it is run.", "", _ONE, by.raising(RuntimeError("device lost")), _RUN),
    "ExitsInRun": Fault(
        "Leaves when it is run.", "", _ONE, by.raising(SystemExit("licence expired")), _CONTRACT),
    "AbortsInRun": Fault(
        "Takes the process down when it is run.", "", _ONE, lambda *_: os.abort(), Outcome.CRASH),
    "SleepsInRun": Fault(
        "Never returns.", "", _ONE, by.besides(lambda: time.sleep(_FOR_EVER)), Outcome.HANG),
    "WrongDtype": Fault("Computes in double precision and leaves it at that.", "", _ONE,
        results(lambda made: made.astype(np.float64)), Outcome.FAIL_DTYPE),
    "WrongShape": Fault(
        "Adds an axis.", "", _ONE, results(lambda made: made[None]), Outcome.FAIL_SHAPE),
    "WrongValue": Fault("Is off by one.", "", _ONE, results(by.spoil)),
    "OutputsReversed": Fault("Returns its outputs in the wrong order.", "",
        "L2/inner_value_is_an_output", lambda operator, inputs, right: right(inputs)[::-1]),
    "OutputsTooFew": Fault("Forgets its last output.", "", _ONE,
        lambda operator, inputs, right: right(inputs)[:-1], _RUN),
    "ReturnsInput": Fault(
        "Spares a copy where nothing was to be done.", "", _ONE, _spared_copy, _ALIAS),
    "WritesInputs": Fault("Uses its inputs for scratch, and says that it does not.", "", _ONE,
        _inputs_for_scratch, _ALIAS, operator={"traits": Traits(minds_memory=True)}),
    "ComputesThroughDouble": Fault(
        "Turns int64 into double on the way.", "", "L5/operators/arithmetic", _through_double),
    "NotReallyThreadSafe": Fault(
        "Says that threads may share it, and stages their inputs in one place.", "",
        "L7/threads_in_one_session", _staged_in_one_place, operator=_SAFE),
    "SwallowsInterrupts": Fault("Takes Ctrl-C for one of its own errors and goes on.", "",
        "L7/interrupted", _swallowing, _CONTRACT),
}
# fmt: on
"""By the name of the backend's class; those of one level together."""
