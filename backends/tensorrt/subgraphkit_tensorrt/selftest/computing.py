"""Checks of the results of engines against those of the fallback backend."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from subgraphkit.backend import ModelOpener, OpenedModel
from subgraphkit.errors import OptionError, SubgraphkitError
from subgraphkit_tensorrt.selftest import models

__all__ = [
    "EXACT",
    "NotAsExpected",
    "NotAvailable",
    "brain",
    "convolutions",
    "element_types",
    "half",
    "odd_inputs",
    "opened",
    "perceptron",
    "quantized",
    "range_of_shapes",
    "require",
    "same",
    "shapes_from_data",
    "shapes_from_values",
]

EXACT: Final = 1e-4
"""Largest error against the largest value, without TF32."""

_HALF: Final = 1e-2
_BRAIN: Final = 4e-2
_TYPES: Final = ("float16", "int32", "int64", "bool")


class NotAsExpected(Exception):  # noqa: N818 (its text is the finding)
    """Something came out differently."""


def require(holds: bool, text: str) -> None:  # noqa: FBT001 (reads as an assertion)
    """Make sure of something.

    Raises:
        NotAsExpected: It does not hold.
    """
    if not holds:
        raise NotAsExpected(text)


class NotAvailable(Exception):  # noqa: N818 (not a failure)
    """The library cannot do what was to be tried."""


@contextmanager
def opened(bench: ModelOpener, model: Any, **options: Any) -> Iterator[OpenedModel]:
    """Open a model without TF32, for the length of a check.

    Raises:
        NotAvailable: The library cannot honour the options.
        NotAsExpected: None of the model runs on this backend.
    """
    given = {"tf32": False, "min_subgraph_nodes": 1, **options}
    try:
        found = bench.open(model, **given)
    except OptionError as error:
        raise NotAvailable(error.message) from error
    try:
        require(bool(found.operators()), "no node of the model came to TensorRT")
        yield found
    finally:
        found.close()


def same(
    bench: ModelOpener,
    model: Any,
    found: OpenedModel,
    feeds: Mapping[str, Any],
    most: float = EXACT,
) -> float:
    """Run a model on both backends.

    Returns:
        The largest error, relative to the largest value of its output.

    Raises:
        NotAsExpected: It is more than ``most``, or shapes or element types differ.
    """
    worst = 0.0
    for actual, expected in zip(found.run(feeds), bench.expected(model, feeds), strict=True):
        require(actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}")
        require(actual.dtype == expected.dtype, f"{actual.dtype}, expected {expected.dtype}")
        if not expected.size:
            continue
        wide, right = actual.astype(np.float64), expected.astype(np.float64)
        scale = max(float(np.abs(right).max()), 1e-30)
        worst = max(worst, float(np.abs(wide - right).max()) / scale)
    require(worst <= most, f"the error is {worst:.1e}, expected {most:.0e} at most")
    return worst


def _draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def perceptron(bench: ModelOpener) -> str:
    """A batch of any size through matrix products."""
    model = models.model(models.PERCEPTRON)
    with opened(bench, model, dims={"n": (1, 4, 32)}) as found:
        errors = [same(bench, model, found, {"x": _draw(n, 16)}) for n in (1, 4, 32)]
    return f"the error is {max(errors):.1e}"


def convolutions(bench: ModelOpener) -> str:
    """Convolutions and pooling."""
    model = models.model(models.CONVOLUTION)
    with opened(bench, model, dims={"n": (1, 2, 4)}) as found:
        errors = [same(bench, model, found, {"x": _draw(n, 3, 24, 24)}) for n in (1, 4)]
    return f"the error is {max(errors):.1e}"


def quantized(bench: ModelOpener) -> str:
    """A model that came with quantisation."""
    model = models.model(models.QUANTIZED)
    with opened(bench, model, dims={"n": (1, 2, 4)}) as found:
        return f"the error is {same(bench, model, found, {'x': _draw(3, 16)}, _HALF):.1e}"


def half(bench: ModelOpener) -> str:
    """A model rewritten in float16."""
    return _lowered(bench, "fp16", _HALF)


def brain(bench: ModelOpener) -> str:
    """A model rewritten in bfloat16."""
    return _lowered(bench, "bf16", _BRAIN)


def _lowered(bench: ModelOpener, precision: str, most: float) -> str:
    model = models.model(models.PERCEPTRON)
    with opened(bench, model, dims={"n": (1, 4, 8)}, precision=precision) as found:
        return f"the error is {same(bench, model, found, {'x': _draw(5, 16)}, most):.1e}"


def element_types(bench: ModelOpener) -> str:
    """Element types cross the border unchanged."""
    for dtype in _TYPES:
        model = models.model((models.TYPED.format(dtype), ()))
        with opened(bench, model) as found:
            same(bench, model, found, {"x": np.arange(6).reshape(2, 3).astype(dtype)}, 0.0)
    return f"{', '.join(_TYPES)} are as they were"


def odd_inputs(bench: ModelOpener) -> str:
    """Inputs with gaps, read-only, and without elements."""
    model = models.model(models.CHAIN)
    strided = _draw(3, 8).T[::2]
    fixed = _draw(4, 3)
    fixed.setflags(write=False)
    with opened(bench, model, dims={"n": (0, 4, 8)}) as found:
        for x in (strided, fixed, _draw(0, 3)):
            same(bench, model, found, {"x": x})
    return "inputs with gaps, read-only ones and empty ones are read rightly"


def shapes_from_values(bench: ModelOpener) -> str:
    """An input whose elements are a shape, which change while its own shape does not."""
    model = models.model(models.RESHAPED)
    with opened(bench, model) as found:
        for shape in ([3, 4], [2, 6], [12, 1]):
            same(bench, model, found, {"x": _draw(12), "s": np.array(shape)})
    return "shapes follow the elements of an input"


def shapes_from_data(bench: ModelOpener) -> str:
    """An output whose shape depends on data, empty at times."""
    model = models.model(models.PICKED)
    with opened(bench, model, dims={"n": (1, 16, 64)}) as found:
        for x in (_draw(16), np.zeros(8, np.float32), np.ones(64, np.float32), _draw(3)):
            same(bench, model, found, {"x": x})
    return "outputs are as long as the data makes them"


def range_of_shapes(bench: ModelOpener) -> str:
    """A shape outside the range is an error with a code."""
    model = models.model(models.CHAIN)
    with opened(bench, model, dims={"n": (1, 2, 4)}, allow_runtime_build=False) as found:
        try:
            found.run({"x": _draw(5, 3)})
        except SubgraphkitError as error:
            return f"a batch of 5 where 4 are allowed is refused: [{error.code}]"
    raise NotAsExpected("a batch of 5 where 4 are allowed was taken")
