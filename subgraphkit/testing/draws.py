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
    data, *others = feeds.values()
    kept = results[1] if len(results) > 1 else results[0] != 0
    if kept.shape != data.shape or kept.dtype != bool:
        return first_difference(kept, np.zeros(data.shape, bool))
    if case.operator == "Dropout":
        share = 1 - float(others[0])
        probabilities = np.full(data.shape, share)
        wanted = np.where(kept, data / share, 0).astype(data.dtype)
    else:
        # The function body compares the other way round: 1 where the draw is larger.
        probabilities = 1 - data if case.is_expanded else data
        element = case.model.graph.output[0].type.tensor_type.elem_type
        wanted = kept.astype(onnx.helper.tensor_dtype_to_np_dtype(element))
    found = first_difference(results[0], wanted, tolerance)
    return found or _difference_of_means(kept.astype(np.float64), probabilities)


def _difference_of_means(drawn: _Array, probabilities: _Array) -> Difference | None:
    shape = (-1, _TIMES, *drawn.shape[1:])
    means = drawn.reshape(shape).mean(axis=1)
    wanted = probabilities.reshape(shape)[:, 0]
    limits = _DEVIATIONS * np.sqrt(wanted * (1 - wanted) / _TIMES)
    for place in map(tuple, np.argwhere(np.abs(means - wanted) > limits).tolist()):
        text = f"of {_TIMES} draws {means[place]:.0%} are 1, expected {wanted[place]:.0%}"
        return Difference("", "value", f"{text} give or take {limits[place]:.0%}")
    return None
