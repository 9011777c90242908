"""Runs: device memory, engines, contexts and execution, from a plan to results."""
