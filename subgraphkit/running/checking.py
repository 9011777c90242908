"""Guards around operators: what they are given to read, and what they return in checked mode."""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from subgraphkit.errors import CallerError, ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit.running.devices import is_on_device
from subgraphkit.types import TensorType, fits

__all__ = ["Apart", "check_result", "finite", "read_only"]


def read_only(value: Any) -> Any:
    """Return a value that is not to be written to, since others read it as well."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.setflags(write=False)
        return view
    return [read_only(item) for item in value] if isinstance(value, list) else value


def finite(names: Sequence[str], results: list[Any]) -> list[Any]:
    """Return the results of a run if all that are tensors of numbers in memory are finite.

    Raises:
        CallerError: One is not (SGK147).
    """
    for name, result in zip(names, results, strict=True):
        if not isinstance(result, np.ndarray) or result.dtype.kind in "iubOUS":
            continue
        numbers = result if result.dtype.kind in "fc" else result.astype(np.float32)
        if not np.isfinite(numbers).all():
            nan = int(np.isnan(numbers).sum())
            raise CallerError(
                "SGK147",
                f"output {name!r} holds NaN {nan:,} times and infinity "
                f"{int(np.isinf(numbers).sum()):,} times, among {numbers.size:,} numbers",
                hint="'subgraphkit verify --nan' with these inputs finds the first node that makes "
                'them of finite numbers; nan_policy="propagate" returns them.',
                output=name,
            )
    return results


class Apart:
    """Checks that what an operator returns is its own: no input, no output twice, no result kept.

    Args:
        subgraph: What it computes.

    Thread-safety: safe; of runs at the same time, one may not be held against the other.
    """

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._before: list[weakref.ref[Any]] = []

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Check the outputs of one run.

        Raises:
            ExecutionError: One shares memory with something else that is still in use (SGK149).
        """
        others = [*inputs, *[ref() for ref in self._before]]
        for place, output in enumerate(outputs):
            if isinstance(output, np.ndarray):
                owns = output.base is None  # so that only itself and its views are in its memory
                for at, other in enumerate(others):
                    if owns and other is not output and getattr(other, "base", None) is not output:
                        continue
                    if isinstance(other, np.ndarray) and np.shares_memory(output, other):
                        raise self._shared(place, at)
            others.append(output)
        self._before = [weakref.ref(one) for one in outputs if isinstance(one, np.ndarray)]

    def _shared(self, place: int, at: int) -> ExecutionError:
        subgraph = self._subgraph
        count, name = len(subgraph.inputs), subgraph.outputs[place]
        what = "what it returned in an earlier run"
        if at < count:
            what = f"its input {subgraph.inputs[at]!r}"
        elif (other := at - count - len(self._before)) >= 0:
            what = f"its output {subgraph.outputs[other]!r}"
        return ExecutionError(
            "SGK149",
            f"subgraph {subgraph.id!r} on backend {subgraph.backend!r} returned {name!r} in memory "
            f"that it shares with {what}, expected an array of its own",
            backend=subgraph.backend,
            subgraph=subgraph.id,
            hint="The backend has a bug: whoever writes to one of the two changes the other. "
            "Leaving it out of the list runs these nodes elsewhere.",
            wrong="alias",
        )


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
