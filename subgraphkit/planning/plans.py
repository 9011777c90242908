"""The plan: which operator runs when, on which values, and which values may go afterwards."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.binding import BoundModel
from subgraphkit.boundary import walking
from subgraphkit.compiling import CompiledSubgraphs, compile_subgraphs
from subgraphkit.errors import CallerError, InternalError
from subgraphkit.ir import BoundGraph, Subgraph, last_uses
from subgraphkit.lazy import cached_property
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import Partitioning, reports


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One operator at its place in the plan.

    Attributes:
        subgraph: The subgraph it runs; its inputs and outputs name the values.
        operator: The compiled operator.
        drops: Values that nobody reads after this step.
        lock: Held around an operator that is not thread-safe, in every session of the plan.
    """

    subgraph: Subgraph
    operator: SubgraphOperator
    drops: tuple[str, ...]
    lock: threading.RLock = field(default_factory=threading.RLock)


@dataclass(frozen=True, eq=False)
class Plan:
    """Ordered steps with lifetimes: everything a session needs.

    Attributes:
        partitioning: The partitioning the steps come from.
        steps: The steps in order; regions nobody reads from have none.
        seconds: How long each subgraph took to compile, by subgraph id.
    """

    partitioning: Partitioning
    steps: tuple[Step, ...]
    seconds: dict[str, float]

    @cached_property
    def graph(self) -> BoundModel:
        """The bound model the plan runs."""
        return self.partitioning.graph

    def memory(self) -> "reports.Memory":
        """Say how much memory a session of the plan takes, step by step."""
        return self.partitioning.memory()

    def with_operator(self, index: int, operator: SubgraphOperator) -> "Plan":
        """Return the plan with the operator of one step exchanged."""
        steps = list(self.steps)
        steps[index] = replace(steps[index], operator=operator)
        return replace(self, steps=tuple(steps))

    def __repr__(self) -> str:
        """Render as ``Plan(Partitioning('m.onnx', 9 nodes in 1 subgraph: numpy 1))``."""
        return f"Plan({self.partitioning!r})"


PlanSource: TypeAlias = "Partitioning | BoundModel | Model | ModelSource | CompiledSubgraphs"
"""A source of a plan, with the steps of the road in between."""


def plan(partitioning: PlanSource, operators: CompiledSubgraphs | None = None) -> Plan:
    """Order the operators and find the last use of every value.

    Args:
        partitioning: The compiled partitioning; or, alone, an argument or a result of
            ``compile_subgraphs``.
        operators: The result of ``compile_subgraphs`` for it. If a backend gave nodes back, it is
            of a successor of ``partitioning``, and so is the plan.

    Raises:
        CallerError: The operators were compiled from another partitioning (SGK123).
        InternalError: A step would read a value that no earlier step makes (SGK900).
    """
    if operators is None:
        if not isinstance(partitioning, CompiledSubgraphs):
            partitioning = compile_subgraphs(partitioning)
        operators, partitioning = partitioning, partitioning.partitioning
    if not any(partitioning is one for one in (operators.origin, operators.partitioning)):
        raise CallerError(
            "SGK123",
            "the operators given to plan() were compiled from another partitioning",
            hint="Call compile_subgraphs() on the partitioning you plan.",
        )
    with walking("plan", operators.partitioning.graph.name):
        return _plan_steps(operators)


def _plan_steps(operators: CompiledSubgraphs) -> Plan:
    current = operators.partitioning
    pairs = [
        (subgraph, operator)
        for subgraph, operator in zip(current.subgraphs, operators.operators, strict=True)
        if subgraph.outputs
    ]
    _check_order(current.graph, [subgraph for subgraph, _ in pairs])
    drops = last_uses([subgraph for subgraph, _ in pairs], current.graph.outputs)
    steps = [Step(s, op, gone) for (s, op), gone in zip(pairs, drops, strict=True)]
    return Plan(current, tuple(steps), dict(operators.seconds))


def _check_order(graph: BoundGraph, subgraphs: Sequence[Subgraph]) -> None:
    known = {*graph.inputs, *graph.defaults, *graph.constants}
    for subgraph in subgraphs:
        if missing := [value for value in subgraph.inputs if value not in known]:
            raise InternalError(
                f"subgraph {subgraph.id!r} would run before value {missing[0]!r} is made",
                subgraph=subgraph.id,
                values=tuple(missing),
            )
        known.update(subgraph.outputs)
