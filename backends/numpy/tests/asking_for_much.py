"""Every operator with inputs and attributes that ask for 2^33 elements, in little memory.

``python -m backends.numpy.tests.asking_for_much 1`` runs all of them, one after the other, and
writes as JSON how many operators there were, what they came to, and for which NumPy asked the
system for too much. A larger number leaves out all but one in so many.
"""

import json
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice, product
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

import subgraphkit as sk
from subgraphkit.testing.official_cases import OfficialCase, official_cases

ASKED: Final = 33
"""Bits of the number of elements."""

_LIMITS: Final = sk.LoadLimits(max_value_bytes=1 << 24, max_run_bytes=1 << 26)
_ROOM: Final = 1 << 29
_FEW: Final = 16
Asking = tuple[str, onnx.ModelProto, dict[str, Any]]


def _largest(value: np.ndarray) -> np.ndarray:
    bits = -(-ASKED // max(1, value.size))
    most = np.iinfo(value.dtype).max if value.dtype.kind in "iu" else np.inf
    return np.full(value.shape, min(1 << bits, most)).astype(value.dtype)


def _spread(value: Any, axis: int) -> Any:
    """Spread a small value along an axis: two that meet have as many elements as are asked for."""
    if not isinstance(value, np.ndarray) or not value.ndim or not value.size:
        return value
    one = value.take([0], axis)
    return one.repeat(1 << (ASKED + 1) // 2, axis) if one.size < _FEW else value


def _asking(case: OfficialCase) -> Iterator[Asking]:
    model = deepcopy(case.model)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    feeds = case.feeds(next(iter(case.data_sets()))[0])
    for axes in product((0, -1), repeat=2):
        spread = {n: _spread(v, axes[at % 2]) for at, (n, v) in enumerate(feeds.items())}
        yield f"spread along {axes}", model, spread
    yield from _by_values(model, feeds)
    yield from _by_attributes(model, feeds)


def _by_values(model: onnx.ModelProto, feeds: dict[str, Any]) -> Iterator[Asking]:
    for name, value in feeds.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and 0 < value.size <= _FEW:
            yield name, model, {**feeds, name: _largest(value)}
            stored = deepcopy(model)
            stored.graph.initializer.append(numpy_helper.from_array(_largest(value), name))
            kept = [one for one in stored.graph.input if one.name != name]
            del stored.graph.input[:]
            stored.graph.input.extend(kept)
            yield f"{name}, stored", stored, {n: v for n, v in feeds.items() if n != name}


def _by_attributes(model: onnx.ModelProto, feeds: dict[str, Any]) -> Iterator[Asking]:
    for place, attribute in enumerate(model.graph.node[0].attribute):
        changed = deepcopy(model)
        one = changed.graph.node[0].attribute[place]
        if attribute.type == onnx.AttributeProto.INT:
            one.i = 1 << ASKED
        elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
            one.ints[:] = [1 << -(-ASKED // len(attribute.ints))] * len(attribute.ints)
        else:
            continue
        yield attribute.name, changed, feeds


def _outcome(model: onnx.ModelProto, feeds: dict[str, Any]) -> str:
    """Return what a run comes to: a code, "ok", or "got" where NumPy asked for too much."""
    try:
        with sk.InferenceSession(model, "numpy", limits=_LIMITS) as session:
            made = session.run(None, feeds, timeout_s=2)
    except sk.SubgraphkitError as error:
        return (
            "got"
            if isinstance(error.__cause__, MemoryError) and error.code == "SGK131"
            else error.code
        )
    sizes = [getattr(one, "nbytes", 0) for one in made]
    return "ok" if max(sizes) <= _LIMITS.value_bytes else "got"


def main() -> None:
    """Run all of them."""
    cases: dict[str, OfficialCase] = {}
    for case in official_cases("node"):
        if len(case.model.graph.node) == 1 and not case.is_expanded:
            best = cases.setdefault(f"{case.domain}::{case.operator}", case)
            if len(case.fed) > len(best.fed):
                cases[f"{case.domain}::{case.operator}"] = case
    _outcome(next(iter(cases.values())).model, {})
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 (addresses, not memory)
        room = int(file.read().split()[0]) * resource.getpagesize() + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    outcomes, got, step = Counter[str](), [], int(sys.argv[1])
    for number, (operator, case) in enumerate(cases.items()):
        for what, model, feeds in islice(_asking(case), number % step, None, step):
            found = _outcome(model, feeds)
            outcomes[found] += 1
            if found == "got":
                got.append(f"{operator}: {what}")
    print(json.dumps([len(cases), outcomes, got]))  # noqa: T201 (for who started it)


if __name__ == "__main__":
    main()
