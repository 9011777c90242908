"""The operator of engines that were only to be built: it stores them and runs nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from subgraphkit.backend import SubgraphOperator
from subgraphkit.errors import ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.building.plan import Plan, write_plans
from subgraphkit_tensorrt.building.report import readable

__all__ = ["BuiltPlans"]


class BuiltPlans(SubgraphOperator):
    """Plans for another machine.

    Args:
        plans: The plans.
        subgraph: What they are of.
    """

    thread_safe: ClassVar[bool] = True

    def __init__(self, plans: Sequence[Plan], subgraph: Subgraph) -> None:
        self._plans = tuple(plans)
        self._subgraph = subgraph

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Refuse.

        Raises:
            ExecutionError: Always (SGK163).
        """
        del inputs, outputs
        raise ExecutionError(
            "SGK163",
            f"the engines of subgraph {self._subgraph.id!r} were only built, and not loaded here",
            backend="tensorrt",
            subgraph=self._subgraph.id,
            hint="Leave the option build_only out to run them; that takes a GPU.",
        )

    def serialize(self) -> bytes | None:
        """Return the plans; None if there is none."""
        return write_plans(self._plans) if self._plans else None

    def bare_engine(self) -> bytes | None:
        """Return the plan as TensorRT's own tools load it; None unless there is just one."""
        return self._plans[0].data if len(self._plans) == 1 else None

    def info(self) -> Mapping[str, Any]:
        """Return the report of each build; JSON-able."""
        reports = [readable(plan.report, self._subgraph) for plan in self._plans]
        return {"engines": [{"report": report} for report in reports], "loaded": False}
