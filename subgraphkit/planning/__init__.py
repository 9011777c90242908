"""Planning: operators to ordered steps, each value dropped after its last use; the fifth step."""

from subgraphkit.planning.plans import Plan, Step, plan

__all__ = ["Plan", "Step", "plan"]
