"""Checked mode: what an operator returns is held against what the bound graph says."""

from typing import Any

import numpy as np

from subgraphkit.errors import ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit.running.devices import is_on_device
from subgraphkit.types import TensorType, fits

__all__ = ["check_result"]


def check_result(
    subgraph: Subgraph, name: str, type_: TensorType, result: Any, *, may_stay: bool = False
) -> None:
    """Check one output of an operator: kind, dtype, rank and known dimensions.

    Args:
        subgraph: What the operator computes.
        name: Name of the output.
        type_: What the bound graph says of it.
        result: What the operator returned.
        may_stay: Whether it may be an array on a device, which is let pass.

    Raises:
        ExecutionError: It is not as declared (SGK132).
    """
    if may_stay and is_on_device(result):
        return
    if not isinstance(result, np.ndarray):
        raise _wrong(subgraph, "run", f"a {type(result).__name__} for {name!r}", "an array")
    if result.dtype != type_.dtype.numpy:
        raise _wrong(subgraph, "dtype", f"dtype {result.dtype} for {name!r}", type_.dtype.label)
    if type_.shape is not None and not fits(result.shape, type_.shape):
        raise _wrong(subgraph, "shape", f"shape {result.shape} for {name!r}", str(type_))


def _wrong(subgraph: Subgraph, stage: str, got: str, expected: str) -> ExecutionError:
    return ExecutionError(
        "SGK132",
        f"subgraph {subgraph.id!r} on backend {subgraph.backend!r} returned {got}, "
        f"expected {expected}",
        backend=subgraph.backend,
        subgraph=subgraph.id,
        hint="Either the backend has a bug, and leaving it out of the list runs these nodes "
        "elsewhere; or the model states a type or shape that its values do not have.",
        wrong=stage,
    )
