"""Times of single subgraphs: operators with a clock, in a plan beside the one that is timed.

The session without clocks does not know of this, so looking costs nothing where nobody looks.
"""

import time
from collections.abc import Sequence
from typing import Any

from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.planning import Plan

__all__ = ["StepTimes"]


class _Clocked(SubgraphOperator):
    """Runs another operator and adds up how long it took; closing it closes nothing."""

    def __init__(self, inner: SubgraphOperator) -> None:
        self._inner = inner
        self.seconds = 0.0

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Run and take the time."""
        started = time.perf_counter()
        try:
            return self._inner.run(inputs, outputs)
        finally:
            self.seconds += time.perf_counter() - started


class StepTimes:
    """Clocks around the operators of a plan.

    Args:
        plan: The plan; not changed.

    Attributes:
        plan: A plan of the same operators, each with a clock. Its operators run one at a time.
    """

    def __init__(self, plan: Plan) -> None:
        self._clocks = {step.subgraph.id: _Clocked(step.operator) for step in plan.steps}
        for index, step in enumerate(plan.steps):
            plan = plan.with_operator(index, self._clocks[step.subgraph.id])
        self.plan = plan

    def take(self) -> dict[str, float]:
        """Return the seconds by subgraph since the last call, and start anew."""
        taken = {name: clock.seconds for name, clock in self._clocks.items()}
        for clock in self._clocks.values():
            clock.seconds = 0.0
        return taken
