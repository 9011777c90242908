"""Planning: operators to ordered steps, each value dropped after its last use; the fifth step."""

from subgraphkit.planning.plans import Plan, PlanSource, Step, plan

__all__ = ["Plan", "PlanSource", "Step", "plan"]
