"""Operators that draw random numbers, and the properties that their results are checked for.

ONNX does not say by which generator numbers are drawn, not even where a seed is given, so one draw
cannot be compared with another. Each row of the input is repeated, and the rows of the result are
counted.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx

from subgraphkit.backend.tolerances import ToleranceOf
from subgraphkit.comparing import Difference, first_difference
from subgraphkit.testing.official_cases import OfficialCase

DRAWING: Final = frozenset({"Bernoulli", "Dropout"})
"""The operators of which a case may draw."""
_TIMES: Final = 400
_DEVIATIONS: Final = 6.0
"""How far a mean may be off, in standard deviations; more happens once in 500 million."""

_Array = npt.NDArray[Any]


def draws(case: OfficialCase, feeds: Mapping[str, Any]) -> bool:
    """Say whether the result of a case is random."""
    if case.operator == "Dropout":
        _, *others = feeds.values()
        return len(others) > 1 and bool(others[1]) and float(others[0]) > 0
    return case.operator == "Bernoulli"


def repeated(
    model: onnx.ModelProto, feeds: Mapping[str, Any]
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model whose first input has every row many times over, and its feeds."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value in (made.graph.input[0], *made.graph.output):
        rows = value.type.tensor_type.shape.dim[0]
        rows.dim_value *= _TIMES
    first, *_ = feeds
    return made, {**feeds, first: np.repeat(feeds[first], _TIMES, axis=0)}


def difference_of_draws(
    case: OfficialCase, feeds: Mapping[str, Any], results: Sequence[Any], tolerance: ToleranceOf
) -> Difference | None:
    """Compare what was drawn with what its distribution says."""
    if case.operator == "Dropout":
        return _difference_of_dropout(list(feeds.values()), results, tolerance)
    (probabilities,) = feeds.values()
    (drawn,) = results
    element = case.model.graph.output[0].type.tensor_type.elem_type
    want = np.zeros(probabilities.shape, onnx.helper.tensor_dtype_to_np_dtype(element))
    want[...] = drawn != 0 if drawn.shape == want.shape else 0
    found = first_difference(drawn, want)
    if found is not None:
        return found
    if case.is_expanded:
        # The function body compares the other way round: 1 where the draw is larger.
        probabilities = 1 - probabilities
    return _difference_of_means(drawn.astype(np.float64), probabilities)


def _difference_of_dropout(
    fed: Sequence[Any], results: Sequence[Any], tolerance: ToleranceOf
) -> Difference | None:
    data, ratio = fed[0], float(fed[1])
    kept = results[1] if len(results) > 1 else results[0] != 0
    if kept.shape != data.shape or kept.dtype != bool:
        wanted = np.zeros(data.shape, bool)
        return first_difference(kept, wanted)
    scaled = np.where(kept, data / (1 - ratio), 0).astype(data.dtype)
    found = first_difference(results[0], scaled, tolerance)
    if found is not None:
        return found
    return _difference_of_means(kept.astype(np.float64), np.full(data.shape, 1 - ratio))


def _difference_of_means(drawn: _Array, probabilities: _Array) -> Difference | None:
    shape = (-1, _TIMES, *drawn.shape[1:])
    means = drawn.reshape(shape).mean(axis=1)
    wanted = probabilities.reshape(shape)[:, 0]
    deviations = np.sqrt(wanted * (1 - wanted) / _TIMES)
    off = np.abs(means - wanted) > _DEVIATIONS * deviations
    if not off.any():
        return None
    place = tuple(np.argwhere(off)[0].tolist())
    return Difference(
        "",
        "value",
        f"of {_TIMES} draws {means[place]:.0%} are 1, expected {wanted[place]:.0%} give or take "
        f"{_DEVIATIONS * deviations[place]:.0%}",
    )
