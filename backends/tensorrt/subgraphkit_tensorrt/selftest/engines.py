"""Checks of several engines, of plans in other forms, and of several sessions."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from subgraphkit.backend.selftest import Bench
from subgraphkit_tensorrt.selftest import models
from subgraphkit_tensorrt.selftest.computing import opened, require, same

__all__ = [
    "compatible_plans",
    "control_flow",
    "plans_without_weights",
    "several_ranges",
    "two_sessions",
]

_RUNS: Final = 50
_RANGES: Final = {"dims": {"n": (1, 4, 8)}}


def _x(n: int, width: int = 16) -> Any:
    return np.random.default_rng(n).standard_normal((n, width)).astype(np.float32)


def control_flow(bench: Bench) -> str:
    """A branch that depends on data."""
    model = models.model(models.CONTROLLED)
    with opened(bench, model, **_RANGES) as found:
        for x in (np.ones((4, 3), np.float32), -np.ones((2, 3), np.float32), _x(8, 3)):
            same(bench, model, found, {"x": x})
    return "both branches give the same"


def several_ranges(bench: Bench) -> str:
    """An engine for each range of shapes, and the tightest of them used."""
    model = models.model(models.PERCEPTRON)
    with opened(bench, model, dims={"n": [1, (2, 4, 8), (1, 16, 64)]}) as found:
        used = []
        for n in (1, 8, 64):
            same(bench, model, found, {"x": _x(n)})
            (operator,) = found.operators()
            used.append(operator["engines"][-1]["ranges"][0]["max"][0])
    require(used == [1, 8, 64], f"batches of 1, 8 and 64 ran on engines for {used}")
    return "batches of 1, 8 and 64 ran on engines of their own"


def two_sessions(bench: Bench) -> str:
    """Two sessions that run at the same time."""
    model = models.model(models.PERCEPTRON)
    other = models.model(models.PERCEPTRON, 0.5)
    with opened(bench, model, **_RANGES) as first, opened(bench, other, **_RANGES) as second:
        pairs = [(model, first), (other, second)]
        with ThreadPoolExecutor(len(pairs)) as pool:
            errors = list(pool.map(lambda pair: _repeated(bench, *pair), pairs))
    return f"{_RUNS} runs of each, the error is {max(errors):.1e}"


def _repeated(bench: Bench, model: Any, found: Any) -> float:
    return max(same(bench, model, found, {"x": _x(place % 8 + 1)}) for place in range(_RUNS))


def plans_without_weights(bench: Bench) -> str:
    """Plans that take their weights from the model when they are loaded."""
    model = models.model(models.PERCEPTRON)
    with opened(bench, model, strip_weights=True, **_RANGES) as found:
        return f"the error is {same(bench, model, found, {'x': _x(4)}):.1e}"


def compatible_plans(bench: Bench) -> str:
    """Plans for other GPUs of a class."""
    model = models.model(models.PERCEPTRON)
    with opened(bench, model, hardware_compatible="ampere_plus", **_RANGES) as found:
        return f"the error is {same(bench, model, found, {'x': _x(4)}):.1e}"
