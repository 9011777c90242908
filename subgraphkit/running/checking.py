"""Guards of runs: sizes that feeds give to values, and inputs and results of operators.

At bind an open dimension counts as 1. A feed gives its size. From that follows the size of every
value whose other dimensions are known, in any library.
"""

import weakref
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from subgraphkit.binding import BoundModel
from subgraphkit.errors import CallerError, ExecutionError, InputError
from subgraphkit.ir import Node, Subgraph
from subgraphkit.partitioning import Partitioning, reports
from subgraphkit.running.devices import is_on_device
from subgraphkit.types import TensorType, fits


def read_only(value: Any) -> Any:
    """Return a value that is not to be written to, since others read it as well."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.setflags(write=False)
        return view
    return [read_only(item) for item in value] if isinstance(value, list) else value


def finite(names: Sequence[str], results: list[Any]) -> list[Any]:
    """Return results whose tensors of numbers in memory are finite; else CallerError (SGK147)."""
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


def look_for_nan(
    partitioning: Partitioning, unseen: list[bool], feeds: Mapping[str, Any], results: list[Any]
) -> list[Any]:
    """Return the results of the first run; if NaN was fed or made, say which backend loses it."""
    unseen.clear()
    arrays = [one for one in (*feeds.values(), *results) if isinstance(one, np.ndarray)]
    if any(one.dtype.kind == "f" and np.isnan(one).any() for one in arrays):
        reports.report_lost_nan(partitioning)
    return results


class Apart:
    """Checks that results of an operator are its own: no input, no output twice, no result kept.

    Thread-safety: safe; it may miss that two runs at the same time share memory.
    """

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._before: list[weakref.ref[Any]] = []

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Check the outputs of one run; ExecutionError (SGK149) for memory that is not its own."""
        others = [*inputs, *[ref() for ref in self._before]]
        for place, output in enumerate(outputs):
            if isinstance(output, np.ndarray):
                owns = output.base is None  # so that only itself and its views are in its memory
                for at, other in enumerate(others):
                    if owns and other is not output and getattr(other, "base", None) is not output:
                        continue
                    if isinstance(other, np.ndarray) and np.shares_memory(output, other):
                        raise self._sharing_error(place, at)
            others.append(output)
        self._before = [weakref.ref(one) for one in outputs if isinstance(one, np.ndarray)]

    def _sharing_error(self, place: int, at: int) -> ExecutionError:
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
    """Refuse an output of other kind, dtype or shape than declared (ExecutionError, SGK132)."""
    if may_stay and is_on_device(result):
        return
    if not isinstance(result, np.ndarray):
        got = f"a {type(result).__name__} for {name!r}"
        raise _wrong(subgraph, "run", got, "an array; numpy.asarray makes one")
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


class SizeCheck:
    """Refuses feeds with which a value would be larger than the limits allow."""

    def __init__(self, graph: BoundModel, symbols: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        self._graph, self._symbols = graph, symbols
        self._limit = graph.settings.limits.value_bytes

    def tests(self, sizes: Mapping[str, str]) -> list[str]:
        """Return expressions one of which is true if a value would be too large."""
        if not self._limit or not self._symbols:
            return []
        fed = self._factors(self._graph.inputs)
        found = self._factors(self._graph.types)
        return [
            f"{' * '.join(sizes[name] for name in names)} > {self._limit * 8 // bits}"
            for names, bits in found.items()
            if bits > fed.get(names, 0)  # else the caller holds as much already
        ]

    def __call__(self, *arrays: Any) -> None:
        """Refuse the admitted inputs if they make a value too large (InputError, SGK217)."""
        shapes = dict(zip(self._graph.inputs, (array.shape for array in arrays), strict=True))
        sizes = {name: shapes[at[0][0]][at[0][1]] for name, at in self._symbols.items()}
        for name, type_ in self._graph.types.items():
            if not isinstance(type_, TensorType) or type_.shape is None:
                continue
            shape = [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in type_.shape]
            asked = prod(dim for dim in shape if isinstance(dim, int)) * type_.dtype.bits // 8
            if asked > self._limit:
                maker = self._graph.producers.get(name)
                of = "" if maker is None else f" of node {Node(self._graph, maker).label}"
                told = TensorType(type_.dtype, tuple(shape))
                raise InputError(
                    "SGK217",
                    f"with what is fed, value {name!r}{of} would be {told}, which takes {asked:,} "
                    f"bytes; the limit is {self._limit:,} bytes (max_value_bytes)",
                    hint="Feed less at a time; or raise the limit:  limits={'max_value_bytes': "
                    f"{asked}}}, and 0 lifts it.",
                    value=name,
                )

    def _factors(self, values: Sequence[str] | Mapping[str, Any]) -> dict[tuple[str, ...], int]:
        """Return the most bits that values have beside a product of symbols, for each product."""
        factors: dict[tuple[str, ...], int] = {}
        for name in values:
            type_ = self._graph.types.get(name)
            if isinstance(type_, TensorType) and type_.shape:
                names = [dim for dim in type_.shape if isinstance(dim, str)]
                symbols = tuple(sorted(filter(self._symbols.__contains__, names)))
                bits = type_.dtype.bits * prod(d for d in type_.shape if isinstance(d, int))
                if symbols:
                    factors[symbols] = max(bits, factors.get(symbols, 0))
        return factors
