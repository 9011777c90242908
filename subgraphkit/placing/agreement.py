"""Tolerances of candidates: by type, and in steps where the model is quantised."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from subgraphkit.backend.conformance import Conformance
from subgraphkit.backend.tolerances import EXACT, Tolerance, ToleranceOf
from subgraphkit.binding import BoundModel
from subgraphkit.finding.opening import declared_tolerances
from subgraphkit.types import DataType

_QUANTISING: Final = frozenset(
    {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"}
)
_EIGHT_BITS: Final = frozenset({DataType.INT8, DataType.UINT8})
_STEPS: Final = 2
_STEPS_OF_RANGE: Final = 127
"""How many steps results behind a quantisation may be apart, and steps from 0 to the largest."""


def tolerances_of(bound: BoundModel, backends: Sequence[str]) -> ToleranceOf:
    """Return what tells how far results may be off: as usual, or as one of the backends declares.

    In a quantised model, the same number may round to the next step on any backend.
    """
    declared = declared_tolerances(backends, bound.settings)
    allowed = Conformance(tolerances=declared.tolerances).tolerance_for
    is_quantised = not _QUANTISING.isdisjoint(bound.table.op_types)
    return partial(_by_steps, allowed) if is_quantised else allowed


def _by_steps(allowed: ToleranceOf, dtype: DataType) -> Tolerance:
    found = allowed(dtype)
    if found == EXACT:  # 8-bit numbers are steps themselves
        return found.widened(0.0, 1.0 if dtype in _EIGHT_BITS else 0.0)
    return replace(found, scaled=max(found.scaled, _STEPS / _STEPS_OF_RANGE))
