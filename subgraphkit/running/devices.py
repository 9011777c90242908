"""Which values need not come to the host: those made and read by operators of one device."""

from collections.abc import Mapping
from typing import Any, Final

from subgraphkit.planning import Plan

__all__ = ["is_on_device", "left_on_device", "taken_on_device"]

_HOST: Final = "cpu"
_HOST_IN_DLPACK: Final = 1


def left_on_device(plan: Plan) -> frozenset[str]:
    """Return the values that operators of one device hand to one another, and nobody else reads."""
    readers = _readers(plan)
    given_out = set(plan.graph.outputs)
    return frozenset(
        name
        for step in plan.steps
        if step.operator.device != _HOST
        for name in step.subgraph.outputs
        if name not in given_out and readers.get(name) == {step.operator.device}
    )


def taken_on_device(plan: Plan) -> frozenset[str]:
    """Return the inputs of the graph that are read by operators of one device alone."""
    readers = _readers(plan)
    given_out = set(plan.graph.outputs)
    return frozenset(
        name
        for name in (*plan.graph.inputs, *plan.graph.defaults)
        if name not in given_out and len(readers.get(name, ())) == 1 and _HOST not in readers[name]
    )


def is_on_device(value: Any) -> bool:
    """Say whether a value is an array in memory that the host does not read."""
    if getattr(value, "__cuda_array_interface__", None) is not None:
        return True
    where = getattr(value, "__dlpack_device__", None)
    return where is not None and where()[0] != _HOST_IN_DLPACK


def _readers(plan: Plan) -> Mapping[str, set[str]]:
    readers: dict[str, set[str]] = {}
    for step in plan.steps:
        for name in step.subgraph.inputs:
            readers.setdefault(name, set()).add(step.operator.device)
    return readers
