"""Checks of one operator, taken out of its session: its results, its inputs, its buffers.

Each is given a workbench with a new operator on it, and raises ``Stopped`` where a run fails.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from subgraphkit.backend.footprint import SAME_MEMORY
from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.testing.judging import shared
from subgraphkit.testing.workbench import Workbench, workbench

__all__ = ["OPERATOR_CHECKS"]

_PASSED: Final = Finding(Outcome.PASSED)
_GARBAGE: Final = 77


def results(bench: Workbench) -> Finding:
    """It computes what the nodes of its subgraph say."""
    bench.require_right(bench.run(bench.inputs()))
    return _PASSED


def repeated_runs(bench: Workbench) -> Finding:
    """What was run before makes no difference."""
    for seed in (0, 1, 0):
        bench.require_right(bench.run(bench.inputs(seed)), seed, f"run {seed}")
    return _PASSED


def inputs_left_alone(bench: Workbench) -> Finding:
    """It does not write to its inputs."""
    inputs = bench.inputs()
    before = [array.copy() for array in inputs]
    bench.run(inputs)
    for name, now, then in zip(bench.subgraph.inputs, inputs, before, strict=True):
        if now.tobytes() != then.tobytes():
            return Finding(Outcome.FAIL_ALIAS, f"the operator wrote to its input {name!r}")
    return _PASSED


def read_only_inputs(bench: Workbench) -> Finding:
    """It takes arrays that must not be written to."""
    inputs = bench.inputs()
    for array in inputs:
        array.setflags(write=False)
    bench.require_right(bench.run(inputs), remark="read-only inputs")
    return _PASSED


def strided_inputs(bench: Workbench) -> Finding:
    """It takes arrays that are not contiguous."""
    strided = []
    for array in bench.inputs():
        spread = np.full((*array.shape[:-1], array.shape[-1] * 2), _GARBAGE, array.dtype)
        spread[..., ::2] = array
        strided.append(spread[..., ::2])
    bench.require_right(bench.run(strided), remark="inputs that are not contiguous")
    bench.require_right(
        bench.run([np.asfortranarray(array) for array in bench.inputs()]),
        remark="inputs in Fortran's order",
    )
    return _PASSED


def no_shared_memory(bench: Workbench) -> Finding:
    """What it returns shares no memory with inputs, constants or one another."""
    inputs = bench.inputs()
    constants = {
        f"constant {name}": stored.array() for name, stored in bench.subgraph.constants.items()
    }
    feeds = dict(zip(bench.subgraph.inputs, inputs, strict=True))
    return shared({**feeds, **constants}, bench.run(inputs)) or _PASSED


def results_are_given_away(bench: Workbench) -> Finding:
    """It neither writes to what it has returned, nor reads it."""
    kept = bench.run(bench.inputs())
    copies = [array.copy() for array in kept]
    bench.run(bench.inputs(1))
    for now, then in zip(kept, copies, strict=True):
        if now.tobytes() != then.tobytes():
            return Finding(Outcome.FAIL_ALIAS, "a second run changed what the first had returned")
    for array in kept:
        if array.flags.writeable:
            array[...] = _GARBAGE
    found = bench.subject.judge.difference(bench.expected(2), bench.run(bench.inputs(2)))
    if found is not None:
        text = f"writing to a result changed later ones: {found.detail}"
        return Finding(Outcome.FAIL_ALIAS, text)
    return _PASSED


def buffers(bench: Workbench) -> Finding:
    """It may be given buffers for its results, and uses them or does not."""
    expected = bench.expected()
    buffers = [np.full_like(array, _GARBAGE) for array in expected]
    bench.require_right(bench.run(bench.inputs(), buffers), remark="with buffers for the results")
    bench.require_right(
        bench.run(bench.inputs(), [None] * len(expected)), remark="with None for buffers"
    )
    return _PASSED


def information(bench: Workbench) -> Finding:
    """What it says of itself can be written as JSON."""
    try:
        json.dumps(dict(bench.operator.info()), allow_nan=False)
    except (TypeError, ValueError) as error:
        return Finding(Outcome.FAIL_CONTRACT, f"info() is not JSON-able: {error}")
    return (
        _PASSED
        if repr(bench.operator)
        else Finding(Outcome.FAIL_CONTRACT, "repr() of the operator is empty")
    )


def times_inside(bench: Workbench) -> Finding:
    """What it is profiled by computes the same, and names nodes it has."""
    found = bench.times_inside()
    if found is None:
        return Finding(Outcome.SKIP, "it takes no times inside")
    if not found and {node.op_type for node in bench.subgraph.members} <= SAME_MEMORY:
        return Finding(Outcome.SKIP, "its nodes compute nothing that could take time")
    for one in found:
        if one.seconds < 0 or not set(one.nodes) <= set(bench.subgraph.nodes):
            return Finding(
                Outcome.FAIL_CONTRACT,
                f"profiled() recorded {one!r}, expected nodes {bench.subgraph.nodes}",
            )
    return (
        _PASSED if found else Finding(Outcome.FAIL_CONTRACT, "profiled() recorded nothing of a run")
    )


def new_weights(bench: Workbench) -> Finding:
    """It takes new weights and computes with them, or says that it cannot."""
    floats = {
        name: stored.array()
        for name, stored in bench.subgraph.constants.items()
        if stored.array().dtype.kind == "f"
    }
    doubled = {name: (array * 2).astype(array.dtype) for name, array in floats.items()}
    changed = bench.with_weights(doubled)
    if bench.subject.judge.difference(bench.expected(), changed.expected()) is None:
        text = f"model {bench.model.name!r} has no weights that make a difference"
        return Finding(Outcome.SKIP, text)
    answer: Any = bench.operator.update_weights(doubled)
    if not isinstance(answer, bool):
        return Finding(
            Outcome.FAIL_CONTRACT,
            f"update_weights() returned {answer!r:.80}, expected True or False",
        )
    results = bench.run(bench.inputs())
    if not answer:
        return _PASSED
    unchanged = bench.subject.judge.difference(bench.expected(), results) is None
    if unchanged:
        return Finding(Outcome.FAIL_VALUE, "update_weights() said True, and changed nothing")
    changed.require_right(results, remark="with new weights")
    if not bench.operator.update_weights(floats):
        return Finding(
            Outcome.FAIL_CONTRACT, "update_weights() took new weights once, and then no more"
        )
    bench.require_right(bench.run(bench.inputs()), remark="after the old weights were put back")
    return _PASSED


def closing_twice(bench: Workbench) -> Finding:
    """It may be closed more than once, and leaves others alone."""
    with workbench(bench.subject) as other:
        bench.operator.close()
        bench.operator.close()
        other.require_right(other.run(other.inputs()), remark="after another operator was closed")
    return _PASSED


OPERATOR_CHECKS: Final[tuple[Callable[[Workbench], Finding], ...]] = (
    results,
    repeated_runs,
    inputs_left_alone,
    read_only_inputs,
    strided_inputs,
    no_shared_memory,
    results_are_given_away,
    buffers,
    information,
    times_inside,
    new_weights,
    closing_twice,
)
"""Every check; its name is that of its case."""
